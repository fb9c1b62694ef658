"""A hook that measures the `val` split between two loops and keeps the best weights."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext

import numpy as np
from numpy.typing import NDArray

from tapeline.config.train import TrainSettings
from tapeline.recipe.evaluation import Evaluation
from tapeline.runtime.records import Pause, Record, Validated
from tapeline.train.engine.state import State

_NONE: Mapping[str, NDArray[np.uint8]] = {}


class Validation:
    """Validates every `validate_every` epochs and after the last one, and reports validations done inside a loop."""

    def __init__(
        self,
        evaluation: Evaluation,
        state: State,
        settings: TrainSettings,
        *,
        steps_per_epoch: int,
        tell: Callable[[Record], None],
    ) -> None:
        self._evaluation, self._state, self._settings, self._tell = evaluation, state, settings, tell
        self._steps_per_epoch, self._told = steps_per_epoch, state.step

    def next_stop(self, step: int) -> int:
        """Return the next step at which a validation is due outside the loop; a loop must end there."""
        every = max(self._settings.validate_every, self._settings.in_graph_epochs) * self._steps_per_epoch
        return (step // every + 1) * every

    def __call__(self, record: Record) -> None:
        """Validate if due after a loop, or at the start if the checkpoint was written just before a validation."""
        if not isinstance(record, Pause):
            return
        improved, pictures = False, _NONE
        if self._is_due():
            with self._state.average.in_place() if self._state.average else nullcontext():
                measured, pictures = self._evaluation(), self._evaluation.pictures()
            improved = self._state.judge(measured, self._settings.best)
        for row in self._state.rows_since(self._told):
            measured = {name.removeprefix("val_"): value for name, value in row.items() if name.startswith("val_")}
            if measured:
                step, epoch = int(row["step"]), int(row["epoch"])
                self._tell(Validated(step=step, epoch=epoch, metrics=measured, improved=improved, pictures=pictures))
        self._told = self._state.step

    def _is_due(self) -> bool:
        epoch, within = divmod(self._state.step, self._steps_per_epoch)
        if within or not self._state.history:
            return False
        asked = epoch % self._settings.validate_every == 0 or epoch == self._settings.epochs
        row = self._state.history[-1]
        return asked and row["step"] == self._state.step and not any(name.startswith("val_") for name in row)
