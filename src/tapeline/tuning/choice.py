"""Choose the mode to train in: the fastest whose loss is as good. Pure functions of the measurements."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tapeline.runtime.arithmetic import THREADS

TOLERANCE = 0.05
"""How much worse than the reference's a loss may be, as a share of that loss or of its fall, whichever is larger."""

MARGIN = 0.05
"""Speeds that differ by a smaller share count as equal; timing on a shared machine is no more precise."""


class Mode(NamedTuple):
    """A choice of `train` settings."""

    compile: str
    precision: str
    fused: bool = False
    shards: int = 1
    threads: int = THREADS

    @property
    def operation_threads(self) -> int:
        """Threads that an operation is cut for with portable bits: one for a shard, which here are of graph mode."""
        return self.threads if self.shards == 1 else 1

    def __str__(self) -> str:
        fused, shards = " fused" * self.fused, f" {self.shards} shards" * (self.shards > 1)
        threads = f" {self.threads} threads" * (self.threads != THREADS)
        return f"{self.compile} {self.precision}{fused}{shards}{threads}"


@dataclass(frozen=True)
class Measured:
    """One mode, measured on this machine."""

    mode: Mode
    compiling: float
    """Seconds of the first loop, including one step."""
    examples_per_second: float
    first_loss: float
    loss: float | None
    """Mean over the second half of the first steps; `None` for a mode that was too slow to get there."""
    steps: int
    """Steps done."""


def candidates(modes: Mapping[str, Sequence[str]]) -> list[Mode]:
    """Return the modes that a recipe's `modes` allow, the reference first and the slow ones last.

    The reference is float32 in graph mode, or else the first mode.
    """
    every = [Mode(compile, precision) for compile, precisions in modes.items() for precision in precisions]
    every += [Mode(*mode[:2], fused=True) for mode in every if mode.compile != "eager"]
    order = {"graph": 0, "xla": 1, "eager": 2}
    return sorted(every, key=lambda mode: (order.get(mode.compile, 3), mode.precision != "float32", mode.fused))


def sharded(measured: Sequence[Measured], cores: int) -> Mode | None:
    """Return the fastest good graph mode with a shard for each core, or `None` if there is none.

    measured: the reference first.
    """
    good = [one for one in measured if one.mode.compile == "graph" and is_good(one, measured[0])]
    fastest = max(good, key=lambda one: one.examples_per_second, default=None)
    return fastest.mode._replace(shards=cores) if fastest and cores > 1 else None


def cut(measured: Sequence[Measured], cores: int) -> Mode | None:
    """Return the fastest good mode without shards, its operations cut for `cores`; `None` if all are cut so already.

    measured: the reference first.
    """
    good = [one for one in measured if one.mode.shards == 1 and is_good(one, measured[0])]
    fastest = max(good, key=lambda one: one.examples_per_second, default=None)
    return fastest.mode._replace(threads=cores) if fastest and cores != THREADS else None


def allowed(reference: Measured) -> float:
    """Return the highest loss that counts as good as the reference's."""
    loss = reference.loss
    if loss is None or not math.isfinite(loss):
        return math.inf
    return loss + TOLERANCE * max(abs(loss), abs(reference.first_loss - loss))


def is_good(measured: Measured, reference: Measured) -> bool:
    """Return whether a mode completed its steps with a finite loss as good as the reference's."""
    if measured.loss is None or not math.isfinite(measured.loss):
        return False
    return measured.loss <= allowed(reference)


def winner(measured: Sequence[Measured]) -> Measured | None:
    """Return the fastest good mode, the first of equally fast ones; `None` if no mode is good.

    measured: the reference first.
    """
    good = [one for one in measured if is_good(one, measured[0])]
    fastest = max((one.examples_per_second for one in good), default=0.0)
    return next((one for one in good if one.examples_per_second >= (1 - MARGIN) * fastest), None)
