"""Say something about a version by a signed tag that GTO ignores: approve it for a stage, or vouch for it.

An approval is the second of two persons. Who vouches registers a version that is there already: one from before the
policy, or whose signer's key counts no more.
"""

from typing import Any

from tapeline.registry import contents, making
from tapeline.registry.registry import Registry
from tapeline.registry.tags import names
from tapeline.registry.tags.state import Version
from tapeline.runtime.errors import InputError


def approve(registry: Registry, version: Version, stage: str) -> str:
    """Approve a version for a stage, and return the tag. Raises `InputError` for one who may not and without policy."""
    registry.stage(stage)
    _check_policy(registry, "nobody would verify the approval: use `tapeline registry promote --approved-by`")
    making.own(registry, "approve", stage)
    registry.check_usable(version)
    return _attest(registry, version, stage, {"action": "approve", "stage": stage})


def vouch(registry: Registry, version: Version) -> str:
    """Sign for a version that is registered, with the SHA-256 of its files as they are now, and return the tag.

    Raises `InputError` for one who may not register, without a policy, for a revoked version, and for other bytes than
    the tag's own record has.
    """
    _check_policy(registry, "a signature would mean nothing")
    making.own(registry, "register")
    registry.check_not_revoked(version.name, version.number)
    recorded = registry.recorded(version)
    found = contents.of_model(version, recorded)
    measured = contents.of_recorded(registry.store, recorded)
    if found.sums is not None and dict(found.sums) != measured[contents.MODEL]:
        raise InputError(
            f"{version.tag.name} does not have the files that its own record lists: it was altered or forged"
        )
    return _attest(registry, version, None, {"action": "vouch", "sha256": measured})


def _check_policy(registry: Registry, why: str) -> None:
    if registry.authority is None:
        raise InputError(f"there is no trust policy here (`registry.trust` in params.yaml), so {why}")


def _attest(registry: Registry, version: Version, stage: str | None, said: dict[str, Any]) -> str:
    about = {"version": version.number, "commit": version.commit, "version_tag": version.tag.object}
    with registry.alone():
        record = {**said, **about, "before": making.latest(registry, version.name)}
        tag = names.attestation(registry.artifact(version.name), version.number, stage, record)
        subject = f"{said['action']} {version.tag.name}{f' for {stage}' if stage else ''}"
        return making.tag_about(registry, version, tag, subject, record)
