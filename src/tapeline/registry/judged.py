"""Whether an assignment's record allows it to be followed: the verdict is yes, and it is about this version."""

from tapeline.registry.tags.state import Assignment
from tapeline.runtime.errors import InputError


def fault(event: Assignment) -> str:
    """Return why an assignment's record does not allow it; empty if it does, or if plain GTO made it without one."""
    record = event.record
    if not record:
        return ""
    for key, is_so in (("version", event.version), ("stage", event.stage)):
        if key in record and record[key] != is_so:
            return f"its record is about the {key} {str(record[key])[:40]!r}, not {is_so}"
    if record.get("action") == "promote" and record.get("verdict") != "yes":
        return f"its record has the verdict {str(record.get('verdict'))[:40]!r}, not 'yes'"
    missed = [str(check["kind"]) for check in record.get("checks", ()) if not check["holds"]]
    return f"its record has a check that does not hold ({missed[0]})" if missed else ""


def check_assignment(event: Assignment) -> None:
    """Raise `InputError` for an assignment that may not be followed."""
    if why := fault(event):
        raise InputError(f"the tag {event.tag.name} of {event.tag.author} has no effect: {why}")
