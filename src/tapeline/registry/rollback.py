"""Roll back: what was live before becomes so again, without a gate and without TensorFlow; history is kept.

Going one step back is not safe to repeat, so what is under way is noted first, with the tag that it makes: a rollback
that was killed after that tag is finished by the next one, which does not go a step further.
"""

import sys
from pathlib import Path

from tapeline.parsing import json_text
from tapeline.registry.registry import Registry
from tapeline.registry.tags.names import Reference
from tapeline.registry.tags.state import Assignment, State
from tapeline.runtime import files
from tapeline.runtime.errors import InputError


def rollback(registry: Registry, name: str, stage: str, *, to: str | None = None) -> tuple[str, Assignment]:
    """Make the version live that was so before (or `to`); return what was live, and the assignment.

    Raises `InputError` when nothing is live, when there is none before, and for a version that was never there.
    """
    registry.stage(stage)
    registry.repository.identity()
    registry.version(Reference(name))
    note = registry.work / "rollbacks" / f"{name}-{stage}.json"
    with registry.alone():
        found = registry.state(name)
        live = found.live(stage)
        if live is None:
            raise InputError(f"no version of {name} is in {stage}: there is nothing to roll back")
        before, number = _cut(note, live) if to is None else ("", "")
        if number != live.version:
            before, number = live.version, to or _before(found, live)
            if to is None:
                _say_passed(found, stage, number)
        version = registry.version_numbered(name, number)
        if not found.been_in(number, stage):
            raise InputError(f"{version.tag.name} was never in {stage}: promote it")
        if number != live.version:
            files.write_json(note, {"from": before, "to": number, "tag": registry.next_tag(name, stage)})
            try:
                live = registry.assign(version, stage, {"action": "rollback", "from": before})
            except Exception:
                if registry.state(name).live(stage) == live:
                    note.unlink(missing_ok=True)
                raise
        else:
            registry.align(name)
        note.unlink(missing_ok=True)
        return before, live


def _say_passed(found: State, stage: str, number: str) -> None:
    """Say which tags a step back has gone over: they are left out, so nobody can say what they made live."""
    passed = [one.tag.name for one in found.quarantined if one.version or f"#{stage}" in one.tag.name]
    if passed:
        print(f"tapeline: stepping over {', '.join(passed)}, to {number}", file=sys.stderr, flush=True)


def _before(found: State, live: Assignment) -> str:
    number = found.before(live.stage)
    if number is None:
        name = found.artifact.name
        raise InputError(
            f"no version of {name} was in {live.stage} before {live.version}: there is nothing to go back to"
        )
    return number


def _cut(note: Path, live: Assignment) -> tuple[str, str]:
    """Return from where and to where a rollback went that was killed before it could say so; nothing if none was.

    It was killed after its tag when that is live; the same tag by another command is none of a rollback.
    """
    try:
        noted = json_text.parsed(files.read_bytes(note))
        before, number, tag = str(noted["from"]), str(noted["to"]), str(noted["tag"])
    except (OSError, InputError, ValueError, KeyError, TypeError):
        return live.version, ""
    made = live.tag.name == tag and live.record.get("action") == "rollback"
    return (before, number) if made else (live.version, "")
