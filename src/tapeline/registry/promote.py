"""Promote a version: make it live in a stage, if its verdict allows it.

The serving folder is written first and the tag second, and both are safe to repeat: a process that was killed in
between left either the old or the new version in each, and running again makes them consistent.
"""

from typing import Any

from tapeline.registry import alignment, fetched, making, rules
from tapeline.registry.gate.verdict import Verdict
from tapeline.registry.registry import Registry
from tapeline.registry.repository import Tag
from tapeline.registry.tags.state import Assignment, State, Version
from tapeline.registry.trust.signed import Untrusted
from tapeline.registry.trust.verify import Signer
from tapeline.runtime.errors import InputError, RunError, VerdictNo


def check(registry: Registry, version: Version, stage: str, *, approved_by: str | None) -> Assignment | None:
    """Raise `InputError` for what no verdict could allow; return the assignment if the version is already live."""
    asked = registry.settings.stages[registry.stage(stage)]
    registry.repository.check_identity()
    registry.check_usable(version)
    fetched.check(registry.repository, version.name)
    found = registry.state(version.name)
    live = found.live(stage)
    if live and live.version == version.number:
        return live
    promoter = making.own(registry, "promote", stage)
    _check_order(registry, found, version, stage)
    if approval(registry, found, version, stage, promoter) is None and asked.approval and not approved_by:
        raise InputError(f"{stage} requires a person's approval: give --approved-by NAME, or use `tapeline promote`")
    return None


def approval(registry: Registry, found: State, version: Version, stage: str, promoter: Signer | None) -> Tag | None:
    """Return the tag of a signed approval; None where the policy asks for none. Raises `InputError` without one."""
    if registry.authority is None or promoter is None:
        return None
    try:
        return registry.authority.approval(found, version, stage, promoter)
    except Untrusted as why:
        raise InputError(f"{version.tag.name} is not promoted to {stage}: {why}") from None


def settle(registry: Registry, version: Version, stage: str) -> None:
    """Restore the serving folder of a version that is already live; hold the registry's lock (`alone`)."""
    if stage == registry.settings.served:
        alignment.align(registry, version.name, make=True)


def promote(
    registry: Registry,
    version: Version,
    stage: str,
    verdict: Verdict,
    *,
    approved_by: str | None = None,
    flow_run: str | None = None,
) -> Assignment:
    """Make a version live in a stage; the verdict goes into the tag.

    Raises `VerdictNo` with the numbers for a negative verdict, `InputError` for a required approval that is missing
    and for a version that skips a stage, `RunError` if another version became live since the verdict.
    """
    with registry.alone():
        if live := check(registry, version, stage, approved_by=approved_by):
            settle(registry, version, stage)
            return live
        found = registry.state(version.name)
        live = found.live(stage)
        if (live.version if live else None) != verdict.champion:
            raise RunError(_overtaken(version, stage, verdict, live))
        if not verdict.holds:
            raise VerdictNo(f"{version.tag.name} is not promoted to {stage}: {verdict.reason}")
        decided = rules.record(registry, version.name, stage)
        record = {"action": "promote", **verdict.record(), "rules": decided}
        record |= {"approved_by": approved_by, "flow_run": flow_run}
        signed = approval(registry, found, version, stage, making.own(registry, "promote", stage))
        if signed and registry.authority:
            who = registry.authority.signer(signed)
            record["approval"] = {"by": sorted(who.people), "tag": signed.name, "object": signed.object}
        return alignment.assign(registry, version, stage, record)


def _check_order(registry: Registry, found: State, version: Version, stage: str) -> None:
    names = list(registry.settings.stages)
    before = names[names.index(stage) - 1] if stage != names[0] else None
    if registry.settings.stages[stage].previous and before and not found.put(version.number, before):
        raise InputError(f"{version.tag.name} was never in {before}, which {stage} requires: promote it there first")
    if not (registry.settings.stages[stage].previous and before and registry.authority):
        return
    if why := registry.authority.promoted(found, version, before):
        name = version.tag.name
        raise InputError(f"{name} was not promoted to {before}, which {stage} requires, by a tag that counts: {why}")


def _overtaken(version: Version, stage: str, verdict: Verdict, live: Assignment | None) -> str:
    compared = f"was compared with {verdict.champion}" if verdict.champion else f"was judged while {stage} was empty"
    now: Any = (
        f"{live.version} is in {stage} now, by {live.tag.author} ({live.tag.name})" if live else f"{stage} is empty"
    )
    return f"{version.tag.name} {compared}, but {now}: run again to compare it with that"
