"""What decided a promotion: a hash of the settings, whether they are committed, and what was switched off."""

import hashlib
from collections.abc import Mapping
from typing import Any

from tapeline.config.params import Params
from tapeline.config.project import PARAMS
from tapeline.registry.registry import Registry
from tapeline.registry.repository import Repository
from tapeline.runtime import files
from tapeline.runtime.errors import InputError

TEST = "test"
"""The split that is judged on if `validate` names no other."""


def record(registry: Registry, name: str, stage: str) -> dict[str, Any]:
    """Return a tag's record of the rules by which a version of a model goes into a stage.

    `committed` says whether HEAD's `params.yaml` has the same rules; those of a trust policy are read from its ref.
    """
    params, repository = registry.deciding, registry.repository
    found = {"sha256": digest(params, name, stage), "off": switched_off(params, name, stage)}
    if registry.authority is None:
        return {**found, "commit": repository.head, "committed": _committed(repository, params, name, stage)}
    policy = registry.authority.policy
    return {**found, "commit": policy.commit, "committed": True, "ref": policy.ref, "policy": policy.sha256}


def digest(params: Params, name: str, stage: str) -> str:
    """Return the SHA-256 of everything in `params.yaml` that decides whether a model goes into a stage."""
    asked, pipeline = params.registry.model(name), params.pipeline(name)
    content = {
        "stages": list(params.registry.stages),
        "stage": {stage: params.registry.stages[stage].model_dump(mode="json")},
        "gate": asked.gate.model_dump(mode="json"),
        "check": asked.check.model_dump(mode="json"),
        "tolerance": pipeline.export.tolerance,
        "calibration_bins": pipeline.validate_.calibration_bins,
        "thresholds": {name: bound.model_dump(mode="json") for name, bound in pipeline.validate_.thresholds.items()},
    }
    if pipeline.validate_.split != TEST:  # which older records leave out
        content["split"] = pipeline.validate_.split
    return hashlib.sha256(files.canonical_json(content).encode()).hexdigest()


def switched_off(params: Params, name: str, stage: str) -> list[str]:
    """Return what a stage, or a model's gate, leaves out: gate, infra check, paired test."""
    asked = params.registry.stages[stage]
    paired = params.registry.model(name).gate.paired
    left_out = {"gate": not asked.gate, "infra check": not asked.check, "paired test": asked.gate and paired is None}
    return [what for what, is_off in left_out.items() if is_off]


def _committed(repository: Repository, params: Params, name: str, stage: str) -> bool:
    text = repository.read(repository.head, PARAMS)
    try:
        then = Params.load_for(repository.git.folder, pipeline=name, text=text or "")
        return stage in then.registry.stages and digest(then, name, stage) == digest(params, name, stage)
    except InputError:
        return False


def notes(record: Mapping[str, Any]) -> list[str]:
    """Return what is remarkable about the rules in an assignment's record."""
    rules = record.get("rules") or {}
    found = [f"{what} off" for what in rules.get("off", ())]
    return found if rules.get("committed", True) else [*found, "rules not committed"]
