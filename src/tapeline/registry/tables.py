"""The tables that `registry show` and `registry history` print."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from tapeline.registry import rules
from tapeline.registry.lineage import moment
from tapeline.registry.repository import Tag
from tapeline.registry.tags.record import datable
from tapeline.registry.tags.state import Assignment, State, Version
from tapeline.runtime.errors import plain
from tapeline.runtime.text_table import aligned


def versions(
    states: Iterable[State], stages: Sequence[str], why_unusable: Callable[[Version], str]
) -> list[dict[str, str]]:
    """Return a row for each version, highest first per model: where it is live, when it was registered.

    why_unusable: why a version does not count; empty if it does. It is asked about what is live, and from the highest
    version down to one that counts: a signature takes milliseconds, and `audit` checks them all.
    """
    rows = []
    for state in states:
        live = {stage: event for stage in stages if (event := state.live(stage))}
        of_live, counted = {event.version for event in live.values()}, False
        for number, version in reversed(state.versions.items()):
            why = "" if counted and number not in of_live else why_unusable(version)
            counted = counted or not why
            rows.append(
                {
                    "model": state.artifact.name,
                    "version": number,
                    "stages": ", ".join(stage for stage, event in live.items() if event.version == number),
                    "commit": version.commit[:10],
                    "registered": moment(version.tag.time),
                    "by": version.tag.author,
                    "metrics": "  ".join(
                        f"{k} {math.nan if v is None else v:.4g}"
                        for k, v in list(version.record.get("metrics", {}).items())[:3]
                    ),
                    "notes": "; ".join(_notes(state, version, live.values(), why)),
                }
            )
    return rows


def _notes(state: State, version: Version, live: Iterable[Assignment], why: str) -> Iterator[str]:
    """Yield why a version does not count, that it is revoked, or what is remarkable about how it became live."""
    if why:
        yield f"does not count: {why}"
    if revoked := state.revoked.get(version.number):
        yield str(revoked)
    for event in live:
        if event.version == version.number and (found := rules.notes(event.record)):
            yield f"{event.stage}: {', '.join(found)}"


def history(state: State) -> list[dict[str, str]]:
    """Return a row for each tag of a model, the latest first."""
    rows: list[tuple[Tag, dict[str, str]]] = []
    for number, version in state.versions.items():
        rows.append((version.tag, {"event": "register", "version": number, "stage": ""}))
    for event in state.assignments:
        action = "unassign" if event.back else event.record.get("action", "assign")
        rows.append((event.tag, {"event": action, "version": event.version, "stage": event.stage}))
        rows[-1][1]["notes"] = ", ".join(rules.notes(event.record))
    for number, revoked in state.revoked.items():
        row = {"event": "revoke", "version": number, "stage": "", "notes": revoked.because}
        if datable(revoked.tag.time):
            rows.append((revoked.tag, row))
    rows.sort(key=lambda row: row[0].time, reverse=True)
    return [
        {"time": moment(tag.time)}
        | {name: cell for name, cell in row.items() if name != "notes"}
        | {"by": tag.author, "tag": tag.name, "notes": row.get("notes", "")}
        for tag, row in rows
    ]


def table(rows: Sequence[dict[str, str]]) -> str:
    """Return rows as aligned columns with a header; without the column `notes` if there are none."""
    if not rows:
        return ""
    if not any(row.get("notes") for row in rows):
        rows = [{name: cell for name, cell in row.items() if name != "notes"} for row in rows]
    cells = [list(rows[0]), *([plain(cell) for cell in row.values()] for row in rows)]
    return "\n".join(aligned(cells))
