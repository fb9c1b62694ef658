"""The examples of a step: a pure function of (seed, step), so that resuming needs no iterator state."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapeline.train.data.permutation import permuted


@dataclass(frozen=True)
class Batches:
    """The batches of a run: `steps_per_epoch` full ones from each epoch's permutation of all examples."""

    examples: int
    batch_size: int
    seed: int
    shuffle: bool
    steps_per_epoch: int

    @classmethod
    def plan(cls, examples: int, *, batch_size: int, seed: int, shuffle: bool) -> "Batches":
        """Return the plan for stored examples, which fill at least one batch."""
        assert batch_size <= examples, "train/stage.py has refused this"
        return cls(examples, batch_size, seed, shuffle, examples // batch_size)

    @classmethod
    def drawn(cls, batch_size: int, *, steps_per_epoch: int, seed: int) -> "Batches":
        """Return the plan for a recipe that generates its training data: no stored examples."""
        return cls(0, batch_size, seed, False, steps_per_epoch)

    @property
    def dtype(self) -> type[np.signedinteger[Any]]:
        """The dtype of example numbers, which without stored examples are the step number."""
        return np.int32 if 0 < self.examples < 2**31 else np.int64

    @property
    def dropped(self) -> int:
        """How many examples of each epoch's permutation are left out because they do not fill a batch."""
        return max(0, self.examples - self.steps_per_epoch * self.batch_size)

    def indices(self, first: int, count: int) -> NDArray[np.signedinteger[Any]]:
        """Return the example numbers of `count` steps from `first` on: `dtype`, shape (count, batch_size).

        O(1) in the step. With up to `permutation.SMALL` examples, each epoch that is begun costs about 1 ms besides.
        """
        steps = np.arange(first, first + count)
        if not self.examples:
            return np.repeat(steps[:, None], self.batch_size, 1)
        epochs, within = np.divmod(steps, self.steps_per_epoch)
        starts = (within * self.batch_size).astype(self.dtype)
        index = starts[:, None] + np.arange(self.batch_size, dtype=self.dtype)
        return permuted(index, self.examples, seed=self.seed, epochs=epochs) if self.shuffle else index


class Ahead:
    """Computes example numbers for many steps at once and returns a few at a time: few cost nearly as much as many.

    It goes no further than the epoch of the steps that were requested: another one costs as much again.
    """

    NUMBERS = 4096

    def __init__(self, batches: Batches) -> None:
        self._batches = batches
        self._known: tuple[int, NDArray[np.signedinteger[Any]]] = (0, batches.indices(0, 0))

    def indices(self, first: int, count: int) -> NDArray[np.signedinteger[Any]]:
        """Return what `Batches.indices` does. Callable from any thread; fastest if steps are requested in order."""
        begin, known = self._known
        if not begin <= first <= first + count <= begin + len(known):
            whole = count + -(first + count) % self._batches.steps_per_epoch
            ahead = max(count, min(whole, self.NUMBERS // self._batches.batch_size))
            begin, known = first, self._batches.indices(first, ahead)
            self._known = (begin, known)
        return known[first - begin : first - begin + count]
