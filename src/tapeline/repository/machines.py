"""Whether a record was made on this machine type, and what differs: other kernels give other last bits.

    recorded = recorded_machine(folder, "digits")      # as committed; None where nothing is
    compare(recorded, machine()).differing             # ["2 threads, here 4"]

A system without `/proc/cpuinfo` does not tell the CPU's type and instruction sets: what a record lacks is kept apart
from what differs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tapeline.parsing import json_text
from tapeline.repository import described
from tapeline.repository.git import Git
from tapeline.runtime.environment import CAPPED, PORTABLE, has_portable_bits
from tapeline.runtime.errors import TapelineError

TYPE = ("cpu", "vendor", "family", "model", "stepping")
SHOWN = 4
"""Maximum number of instruction sets to name; a line has no room for thirty."""


@dataclass(frozen=True)
class Comparison:
    """A recorded machine compared with another one, each difference in a few words."""

    differing: tuple[str, ...]
    unsaid: tuple[str, ...]
    """What the record lacks."""

    def __str__(self) -> str:
        """Return everything known, for the end of a line; empty for the same machine type."""
        unsaid = f"the record lacks its {', '.join(self.unsaid)}" if self.unsaid else ""
        return "; ".join(filter(None, (*self.differing, unsaid)))


def compare(recorded: Mapping[str, Any], here: Mapping[str, Any]) -> Comparison:
    """Compare two results of `tapeline.runtime.environment.machine`; the first is a record.

    A record with portable bits differs from no machine that has them, and one of eager mode not by the number of cores.
    """
    if recorded.get("bits") == PORTABLE and has_portable_bits():
        return Comparison((), ())
    if recorded.get("bits") == CAPPED and has_portable_bits():
        recorded = {**recorded, "threads": here.get("threads")}
    recorded = {key: value for key, value in recorded.items() if key != "bits"}
    both = {key: (recorded[key], here.get(key)) for key in recorded if recorded[key] != here.get(key)}
    differing = []
    if any(key in both for key in TYPE):
        differing.append(f"CPU {_type(recorded)}, here {_type(here)}")
    if "instructions" in both:
        differing.append(_instructions(*(str(value or "") for value in both["instructions"])))
    for key, form in (("threads", "{} threads"), ("python", "Python {}"), ("libc", "{}")):
        if key in both:
            was, now = both[key]
            differing.append(f"{form.format(was)}, here {now}")
    named = {*TYPE, "instructions", "threads", "python", "libc"}
    differing += [f"{key} {was}, here {now}" for key, (was, now) in both.items() if key not in named]
    unsaid = []
    if any(key in here and key not in recorded for key in TYPE):
        unsaid.append("CPU type")
    names = {"instructions": "instruction sets", "libc": "C library"}
    unsaid += [names.get(key, key) for key in here if key not in recorded and key not in TYPE]
    return Comparison(tuple(differing), tuple(unsaid))


def recorded_machine(folder: Path, pipeline: str) -> dict[str, Any] | None:
    """Return the machine that HEAD records for a pipeline of the project in `folder`.

    None if it records none, or if Git refuses to say: a stage runs without Git too, and only says what differs.
    """
    try:
        text = Git(folder).ask("show", f"HEAD:./{described.path(pipeline)}")
    except TapelineError:  # no Git here, so nothing is committed
        return None
    try:
        machine = json_text.mapping(text or "{}").get("machine")
    except json_text.NotJson:
        return None
    return machine if isinstance(machine, dict) else None


def _type(machine: Mapping[str, Any]) -> str:
    numbers = "/".join(str(machine[key]) for key in TYPE[2:] if key in machine)
    name = str(machine.get("cpu") or machine.get("vendor") or "of no name")
    return f"{name} ({numbers})" if numbers else name


def _instructions(was: str, now: str) -> str:
    there, here = set(was.split()), set(now.split())
    parts = [f"{_some(only)} only {place}" for only, place in ((there - here, "there"), (here - there, "here")) if only]
    return f"instruction sets: {', '.join(parts)}"


def _some(names: set[str]) -> str:
    shown = " ".join(sorted(names)[:SHOWN])
    return f"{shown} and {len(names) - SHOWN} more" if len(names) > SHOWN else shown
