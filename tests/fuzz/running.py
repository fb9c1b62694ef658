"""Runs of the fuzzer: short ones that are always the same, and long ones that collect all that breaks."""

import random
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.fuzz.contract import Broken, kept
from tests.fuzz.parsers import Parser

BATCH = 500
"""Inputs that Hypothesis draws from one seed; it gets slower with their number."""


MUCH = 100
"""Megabytes of memory more for one input that are worth telling."""


@dataclass
class Found:
    """What a long run came to."""

    tried: int = 0
    refused: int = 0
    longest: float = 0.0
    """Seconds of the processor for one input, at most."""
    broken: dict[str, tuple[Any, str]] = field(default_factory=dict)
    """Kind → the shortest input that breaks the contract so, and what was said."""

    def add(self, content: Any, error: Broken) -> None:
        """Keep an input if it is the shortest of its kind."""
        if error.kind not in self.broken or len(repr(content)) < len(repr(self.broken[error.kind][0])):
            self.broken[error.kind] = (content, str(error))


@dataclass
class Summary:
    """The same in numbers, for a table."""

    name: str
    tried: int = 0
    refused: int = 0
    broken: int = 0
    """In how many ways the contract broke."""
    peak_mb: int = 0
    longest: float = 0.0
    ended: str = ""
    """What ended the process before its time, if anything did."""


def table(summaries: Sequence[Summary]) -> str:
    """Return one line for each reader, below a header; with several, their sum."""
    rows = [("reader", "tried", "refused", "broken", "peak MB", "longest s", "")]
    rows += [
        (one.name, f"{one.tried}", f"{one.refused}", f"{one.broken}", f"{one.peak_mb}", f"{one.longest:.3f}", one.ended)
        for one in summaries
    ]
    if len(summaries) > 1:
        tried, refused, broken = (sum(getattr(one, key) for one in summaries) for key in ("tried", "refused", "broken"))
        ended = sum(bool(one.ended) for one in summaries)
        rows.append(("all", f"{tried}", f"{refused}", f"{broken}", "", "", f"{ended} ended early" if ended else ""))
    return "\n".join(
        f"{name:<14}{''.join(f'{number:>11}' for number in numbers)}  {ended}".rstrip()
        for name, *numbers, ended in rows
    )


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def short(parser: Parser, count: int) -> None:
    """Try so many inputs, the same in each run; Hypothesis makes the first that breaks the contract small."""

    @settings(
        max_examples=count, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(parser.inputs)
    def tried(content: Any) -> None:
        kept(lambda: parser.read(content))

    tried()


def long(
    parser: Parser,
    seconds: float,
    *,
    said: Callable[[str], None],
    trying: Callable[[Any], None] = lambda content: None,
) -> Found:
    """Try other inputs until the time is over, and tell of each new way in which the contract breaks.

    trying: told of each input before it is read, so that it is known when the process does not survive it.
    """
    found, end = Found(), time.monotonic() + seconds

    def tried(content: Any) -> None:
        if time.monotonic() > end:
            return
        found.tried += 1
        before, started = _peak(), time.process_time()
        trying(content)
        try:
            found.refused += bool(kept(lambda: parser.read(content)))
        except Broken as error:
            if error.kind not in found.broken:
                said(f"{error}: {content!r:.400}")
            found.add(content, error)
        found.longest = max(found.longest, time.process_time() - started)
        if (more := _peak() - before) > MUCH:
            said(f"{more} MB more: {content!r:.2000}")

    while time.monotonic() < end:
        options = settings(
            max_examples=BATCH,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        seed(random.getrandbits(64))(options(given(parser.inputs)(tried)))()
    return found
