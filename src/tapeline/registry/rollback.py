"""Roll back: make the previous version live again, without a gate and without TensorFlow; history is kept.

Going back one step is not safe to repeat, so a rollback first writes a note with the tag that it will make: one that
was killed after making the tag is finished by the next rollback, which then does not go back another step.
"""

from dataclasses import replace
from pathlib import Path

from tapeline.parsing import json_text
from tapeline.registry import alignment, fetched, judged, making
from tapeline.registry.registry import Registry, say
from tapeline.registry.tags.state import Assignment, State, Version
from tapeline.runtime import files
from tapeline.runtime.errors import InputError


def rollback(registry: Registry, name: str, stage: str, *, to: str | None = None) -> tuple[str, Assignment]:
    """Make the previous version (or `to`) live; return what was live, and the assignment.

    Steps over revoked versions, and says so. Raises `InputError` if nothing is live, if there is no previous version,
    if `to` was never in the stage or is revoked, if it was promoted by a record whose verdict is not yes, or if tags
    are missing, as in a shallow clone.
    """
    registry.stage(stage)
    registry.repository.check_identity()
    registry.check_registered(name)
    making.own(registry, "promote", stage)
    fetched.check(registry.repository, name)
    note = note_of(registry.work, name, stage)
    with registry.alone():
        found = registry.state(name)
        live = found.standing(stage)
        if live is None:
            raise InputError(f"no version of {name} is in {stage}: there is nothing to roll back")
        before, number = _cut(note, live) if to is None else ("", "")
        if number != live.version:
            before, number = live.version, to or _before(registry, found, live)
            if to is None:
                _say_passed(found, stage, number)
        version = registry.version_numbered(name, number)
        registry.check_usable(version)
        _check_promoted(registry, found, version, stage)
        if number != live.version:
            files.write_json(note, {"from": before, "to": number, "tag": making.next_tag(registry, name, stage)})
            about = {"version": number, "stage": stage}
            try:
                live = alignment.assign(registry, version, stage, {"action": "rollback", "from": before, **about})
            except Exception:
                if registry.state(name).standing(stage) == live:
                    note.unlink(missing_ok=True)
                raise
        elif stage == registry.settings.served:
            alignment.align(registry, name)
        note.unlink(missing_ok=True)
        return before, live


def note_of(work: Path, name: str, stage: str) -> Path:
    """Return the file in which a rollback of a model in a stage notes what it does, until it has done it."""
    return work / "rollbacks" / f"{name}#{stage}.json"  # either may have hyphens


def _say_passed(found: State, stage: str, number: str) -> None:
    """Print what a step back may have skipped: revoked versions, and quarantined tags, whose effect is unknown."""
    passed = [one.tag.name for one in found.quarantined if one.version or f"#{stage}" in one.tag.name]
    passed += [f"{found.artifact.name}@{one} ({found.revoked[one]})" for one in found.revoked_since(number, stage)]
    if passed:
        say(f"skipping {', '.join(passed)}, to {number}")


def _check_promoted(registry: Registry, found: State, version: Version, stage: str) -> None:
    """Raise `InputError` unless a version was put into a stage by an assignment that may be followed."""
    events = found.put(version.number, stage)
    if not events:
        raise InputError(f"{version.tag.name} was never in {stage}: promote it")
    if all(map(judged.fault, events)):
        judged.check_assignment(events[-1])
    why = registry.authority.promoted(found, version, stage) if registry.authority else ""
    if why:
        raise InputError(f"{version.tag.name} was not promoted to {stage} by a tag that counts: {why}")


def _before(registry: Registry, found: State, live: Assignment) -> str:
    """Return the version that was live before. By a policy, only assignments that count are steps."""
    while (number := found.before(live.stage)) and registry.authority:
        last = found.put(number, live.stage)[-1].tag.time
        steps = [e for e in found.assignments if e.stage == live.stage and e.tag.time >= last]
        bad = {e.tag: why for e in steps if (why := registry.authority.fault_of(found, e))}
        if not bad:
            break
        for tag, why in bad.items():
            say(f"skipping {tag.name}: {why}")
        found = replace(found, assignments=[e for e in found.assignments if e.tag not in bad])
    if number is None:
        name = found.artifact.name
        raise InputError(
            f"no version of {name} was in {live.stage} before {live.version}: there is nothing to go back to"
        )
    return number


def _cut(note: Path, live: Assignment) -> tuple[str, str]:
    """Return the source and target of a rollback that was killed after making its tag, else the live version and "".

    That is so if the noted tag is live and was made by a rollback, not by another command.
    """
    try:
        noted = json_text.parsed(files.read_bytes(note))
        before, number, tag = str(noted["from"]), str(noted["to"]), str(noted["tag"])
    except (OSError, InputError, ValueError, KeyError, TypeError):
        return live.version, ""
    made = live.tag.name == tag and live.record.get("action") == "rollback"
    return (before, number) if made else (live.version, "")
