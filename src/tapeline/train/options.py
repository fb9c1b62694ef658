"""Options of one call of `tapeline train`, none of which changes the result."""

import re
from dataclasses import dataclass

from tapeline.runtime.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Options:
    """fresh: delete the checkpoints. extend: continue a shorter run.

    profile: the steps [first, last) that the standard observers trace.
    """

    fresh: bool = False
    extend: bool = False
    profile: tuple[int, int] | None = None


def steps(text: str) -> tuple[int, int]:
    """Parse `100:110`. Raises `InputError` for anything but two steps in ascending order."""
    match = re.fullmatch(r"(\d+):(\d+)", text)
    if not match or int(match[1]) >= int(match[2]):
        raise InputError(f"--profile is {text!r}: give the first step and the step after the last, as in 100:110")
    return int(match[1]), int(match[2])
