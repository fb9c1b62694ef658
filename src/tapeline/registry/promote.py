"""Promote: what a verdict has allowed becomes live in a stage. Roll back: what was live before becomes so again.

Both make the serving folder first and the tag second, and both are safe to repeat: a process that was killed on the way
left either the old version or the new one in each, and running again brings them together.
"""

from typing import Any

from tapeline.errors import InputError, RunError, VerdictNo
from tapeline.registry.names import Reference
from tapeline.registry.registry import Registry
from tapeline.registry.state import Assignment, State, Version
from tapeline.registry.verdict import Verdict


def check(registry: Registry, version: Version, stage: str, *, approved_by: str | None) -> Assignment | None:
    """Raise `InputError` for what no verdict could allow; return the assignment when the version is live already."""
    asked = registry.settings.stages[registry.stage(stage)]
    registry.repository.identity()
    found = registry.state(version.name)
    live = found.live(stage)
    if live and live.version == version.number:
        return live
    _check_order(registry, found, version, stage)
    if asked.approval and not approved_by:
        raise InputError(
            f"{stage} asks for a person's approval: give --approved-by NAME, or use python -m flows.promotion"
        )
    return None


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

    Raises `VerdictNo` with the numbers for a verdict of no, `InputError` for an approval that is asked for and missing
    and for a version that skips a stage, `RunError` when another version became live since the verdict was given.
    """
    with registry.alone():
        registry.align(version.name)
        if live := check(registry, version, stage, approved_by=approved_by):
            return live
        found = registry.state(version.name)
        live = found.live(stage)
        if (live.version if live else None) != verdict.champion:
            raise RunError(_overtaken(found, version, stage, verdict, live))
        if not verdict.holds:
            raise VerdictNo(f"{version.tag.name} does not get into {stage}: {verdict.reason}")
        record = {"action": "promote", **verdict.record(), "approved_by": approved_by, "flow_run": flow_run}
        return registry.assign(version, stage, record)


def rollback(registry: Registry, name: str, stage: str, *, to: str | None = None) -> tuple[str, Assignment]:
    """Make the version live that was so before (or `to`), without a gate; return what was live, and the assignment.

    Raises `InputError` when nothing is live, when there is none before, and for a version that was never there.
    """
    registry.stage(stage)
    registry.repository.identity()
    registry.version(Reference(name))
    with registry.alone():
        registry.align(name)
        found = registry.state(name)
        live = found.live(stage)
        if live is None:
            raise InputError(f"no version of {name} is in {stage}: there is nothing to roll back")
        target = to or found.before(stage)
        if target is None:
            raise InputError(
                f"no version of {name} was in {stage} before {live.version}: there is nothing to go back to"
            )
        version = registry.version_numbered(name, target)
        if not found.been_in(target, stage):
            raise InputError(f"{version.tag.name} was never in {stage}: promote it")
        if target == live.version:
            return live.version, live
        return live.version, registry.assign(version, stage, {"action": "rollback", "from": live.version})


def _check_order(registry: Registry, found: State, version: Version, stage: str) -> None:
    names = list(registry.settings.stages)
    before = names[names.index(stage) - 1] if stage != names[0] else None
    if registry.settings.stages[stage].previous and before and not found.been_in(version.number, before):
        raise InputError(f"{version.tag.name} was never in {before}, which {stage} asks for: promote it there first")


def _overtaken(found: State, version: Version, stage: str, verdict: Verdict, live: Assignment | None) -> str:
    compared = f"was compared with {verdict.champion}" if verdict.champion else f"was judged while {stage} was empty"
    now: Any = (
        f"{live.version} is in {stage} now, by {live.tag.author} ({live.tag.name})" if live else f"{stage} is empty"
    )
    return f"{version.tag.name} {compared}, and {now}: run again to compare it with that"
