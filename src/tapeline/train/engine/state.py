"""The complete state of a run besides its data: variables, step, sums, history, best so far.

Everything else is a function of (seed, step).
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tapeline.config.train import Best
from tapeline.recipe import variables
from tapeline.recipe.metrics import means
from tapeline.runtime.errors import InputError
from tapeline.train.engine.averaging import Average

_RECORDED = {"step", "metrics", "sums", "history", "best", "skipped"}


@dataclass(frozen=True)
class Snapshot:
    """The state at one step, unaffected by later changes."""

    step: int
    tensors: Mapping[str, tf.Tensor]
    record: Mapping[str, Any]
    """The host's part of the state, JSON-compatible."""


@dataclass
class State:
    """The live state of a run."""

    variables: Mapping[str, tf.Variable]
    weights: tuple[str, ...]
    """The names in `variables` whose best values are kept."""
    metrics: tuple[str, ...]
    step: int = 0
    sums: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 2)))
    """(sum, count) of each metric over the epoch so far."""
    history: list[dict[str, float]] = field(default_factory=list)
    """One row per epoch: step, epoch, training means, `val_…` if validated. Rows are replaced, never mutated."""
    best: dict[str, float] | None = None
    """`value`, `step`, and `stale`: the number of validations since."""
    best_weights: Mapping[str, tf.Tensor] = field(default_factory=dict)
    skipped: list[int] = field(default_factory=list)
    average: Average | None = None

    def __post_init__(self) -> None:
        if not len(self.sums):
            self.sums = np.zeros((len(self.metrics), 2))
        if self.average:
            self.variables = {**self.variables, **self.average.state}

    @property
    def _summed(self) -> list[str]:
        """The metrics of the steps, which come first: a loop's validations leave no sums for the next loop."""
        return [name for name in self.metrics if not name.startswith("val_")]

    def kept(self) -> dict[str, tf.Tensor]:
        """Return the weights that would be kept if training ended now: their averages if there are any."""
        weights = variables.snapshot({name: self.variables[name] for name in self.weights})
        return weights | self.average.values() if self.average else weights

    def snapshot(self) -> Snapshot:
        """Return the current state; the values of variables are copied only when they change."""
        tensors = {f"state/{name}": value for name, value in variables.snapshot(self.variables).items()}
        tensors |= {f"best/{name}": value for name, value in self.best_weights.items()}
        record = {
            "step": self.step,
            "metrics": self._summed,
            "sums": self.sums[: len(self._summed)].tolist(),
            "history": list(self.history),
            "best": self.best and dict(self.best),
            "skipped": list(self.skipped),
        }
        return Snapshot(self.step, tensors, record)

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the state from a snapshot."""
        tensors = snapshot.tensors
        variables.assign(self.variables, {name: tensors[f"state/{name}"] for name in self.variables})
        record = snapshot.record
        self.step = record["step"]
        self.sums = np.zeros((len(self.metrics), 2))
        self.sums[: len(self._summed)] = np.asarray(record["sums"], np.float64).reshape(-1, 2)
        self.history = list(record["history"])
        self.best = record["best"] and dict(record["best"])
        self.best_weights = {name: tensors[f"best/{name}"] for name in self.weights} if self.best else {}
        self.skipped = list(record["skipped"])

    def expected(self, record: Mapping[str, Any]) -> dict[str, tf.Variable]:
        """Return the tensors that a checkpoint with this record must hold, as name → variable of the same type.

        Raises `InputError` for a record with other parts or metrics.
        """
        if other := sorted(_RECORDED ^ record.keys()):
            raise InputError(f"its record differs in {', '.join(other)}")
        if wrong := next(_wrong_parts(record), None):
            raise InputError(f"its record has an invalid {wrong}")
        if record["metrics"] != self._summed:
            raise InputError(
                f"its metrics are {_named(record['metrics'])}, but the recipe's are {_named(self._summed)}"
            )
        names = {f"state/{name}": variable for name, variable in self.variables.items()}
        if record["best"]:
            names |= {f"best/{name}": self.variables[name] for name in self.weights}
        return names

    def book(self, reached: int, table: NDArray[np.float64], steps_per_epoch: int) -> None:
        """Add a loop's table of metric sums: finished epochs go to `history`, the rest stays in `sums`."""
        first = self.step // steps_per_epoch
        self.step = reached
        for row in range(reached // steps_per_epoch - first):
            epoch = first + row + 1
            averages = means(list(self.metrics), table[row])
            self.history.append({"step": epoch * steps_per_epoch, "epoch": epoch, **averages})
        self.sums = table[reached // steps_per_epoch - first].copy()

    def rows_since(self, step: int) -> list[dict[str, float]]:
        """Return the history's rows after `step`; the cost does not depend on the rows before."""
        newer = takewhile(lambda row: row["step"] > step, reversed(self.history))
        return list(newer)[::-1]

    def skip(self, steps_per_epoch: int) -> None:
        """Skip the next step: record it, count it in no metric, and end its epoch if it was the last."""
        self.skipped.append(self.step)
        table = np.stack([self.sums, np.zeros_like(self.sums)])
        self.book(self.step + 1, table, steps_per_epoch)

    def judge(self, measured: Mapping[str, float], best: Best | None) -> bool:
        """Add a validation to the last row of the history; return whether it is the best so far.

        A metric that this validation has no value of, such as a precision where nothing was found, is no improvement.
        """
        self.history[-1] = self.history[-1] | {f"val_{name}": value for name, value in measured.items()}
        if best is None:
            return False
        value = next((measured[name] for name in best.names if name in measured), math.nan)
        sign = 1 if best.mode == "max" else -1
        improved = math.isfinite(value) and (self.best is None or sign * value > sign * self.best["value"])
        if improved:
            self.best = {"value": value, "step": self.step, "stale": 0}
            self.best_weights = self.kept()
        elif self.best:
            self.best["stale"] += 1
        return improved


def _wrong_parts(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield the parts of a record whose types are not those that `State.snapshot` writes."""
    rows, best = record["history"], record["best"]
    sound = {
        "step": _is_count(record["step"]),
        "metrics": isinstance(record["metrics"], list) and all(isinstance(name, str) for name in record["metrics"]),
        "sums": isinstance(record["sums"], list)
        and all(isinstance(row, list) and len(row) == 2 and all(map(_is_number, row)) for row in record["sums"]),
        "history": isinstance(rows, list)
        and all(isinstance(row, dict) and "step" in row and all(map(_is_number, row.values())) for row in rows),
        "best": best is None
        or (
            isinstance(best, dict) and best.keys() == {"value", "step", "stale"} and all(map(_is_number, best.values()))
        ),
        "skipped": isinstance(record["skipped"], list) and all(map(_is_count, record["skipped"])),
    }
    if isinstance(record["metrics"], list) and sound["sums"]:
        sound["sums"] = len(record["sums"]) == len(record["metrics"])
    yield from (name for name, right in sound.items() if not right)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and _is_number(value) and 0 <= value < 2**63


def _named(metrics: Iterable[str]) -> str:
    return ", ".join(metrics) or "none"
