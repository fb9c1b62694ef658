"""What is measured: one model, its data, and the programs that train it.

A contender trains forever and reports its progress:

    def contend(inputs: Inputs, turn: Turn) -> None:
        ...                                  # train on the batches in `inputs`, from its weights
        turn.learned({"loss": mean})         # the mean loss of those steps
        while True:
            ...                              # its own batches, in its own best way
            turn.done(steps)
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.turn import Turn
from tapeline.config.train import TrainSettings

ROOT = Path(__file__).resolve().parents[1]
PACKAGE_RECIPES = ROOT / "src" / "tapeline" / "recipes"
OWN_RECIPES = ROOT / "benchmarks" / "recipes"

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """The common inputs of a workload's contenders, read from files."""

    folder: Path
    """The dataset in Tapeline's format is in `folder / "data"`; the rest of the folder is writable."""
    columns: Arrays
    """Feature → all examples, as stored and memory-mapped: uint8 images, integer labels."""
    weights: Arrays
    """The recipe's name for a weight → its initial value."""
    indices: NDArray[np.int32]
    """Shape (steps, batch): the examples of the first steps."""
    drawn: Arrays = field(default_factory=dict)
    """The random values that the recipe's `prepare` drew for those steps, shape (steps, batch, ...)."""

    @property
    def batch(self) -> int:
        """The number of examples per step."""
        return self.indices.shape[1]

    @property
    def examples(self) -> int:
        """The number of examples."""
        return len(next(iter(self.columns.values())))


@dataclass(frozen=True, kw_only=True)
class Contender:
    """One program in one setting. Only the fastest of a family is compared with other families."""

    family: str
    setting: str
    contend: Callable[[Inputs, Turn], None]
    needs: Sequence[str] = ()
    """Modules that the environment may lack."""
    learns: bool = True
    """Whether its losses are compared; a ceiling has none."""
    tolerance: float | None = None
    """Tolerance of its mean loss if it differs from the workload's, as for another precision."""
    recipe: "Recipe | None" = None
    """What the engine trains."""

    @property
    def name(self) -> str:
        """Unique within a workload."""
        return f"{self.family}: {self.setting}"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A recipe as in a pipeline of `params.yaml`."""

    path: Path
    params: Mapping[str, Any] = field(default_factory=dict)
    train: Mapping[str, Any]
    """All settings except the epochs, which are practically unlimited."""

    def settings(self) -> TrainSettings:
        """Return the checked settings."""
        return TrainSettings.model_validate({"epochs": 1_000_000, **self.train})

    def having(self, **train: Any) -> "Recipe":
        """Return the same with other settings."""
        return replace(self, train={**self.train, **train})


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A model with its data, and all contenders that train it."""

    name: str
    title: str
    recipe: Recipe
    columns: Callable[[], Arrays]
    contenders: Sequence[Contender]
    steps: int = 50
    """How many common steps all contenders take, from the same weights on the same batches."""
    tolerance: float = 1e-3
    """Tolerance of the mean loss over these steps, relative to Tapeline's."""
    prepare: Callable[[Path], None] = lambda folder: None
    """Writes any other files that a peer reads into the inputs' folder."""
    targets: Mapping[str, float] = field(default_factory=dict)
    """Family → the target ratio of Tapeline's speed to that family's, with portable bits and `--caps avx2`."""
