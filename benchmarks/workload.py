"""What is measured: one model, its data, and the programs that train it.

A contender trains for ever and says where it is:

    def contend(inputs: Inputs, turn: Turn) -> None:
        ...                                  # the batches that `inputs` lists, from the weights that it holds
        turn.learned({"loss": mean})         # the mean loss of those steps
        while True:
            ...                              # its own batches, in its own best way
            turn.done(steps)
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
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
    """The same for every contender of a workload, read from files."""

    folder: Path
    """The dataset in Tapeline's form is in `folder / "data"`; the rest of it may be written to."""
    columns: Arrays
    """Feature → all examples, as stored and memory-mapped: uint8 images, integer labels."""
    weights: Arrays
    """The recipe's name of a weight → its initial value."""
    indices: NDArray[np.int32]
    """Shape (steps, batch): the examples of the first steps."""
    drawn: Arrays = field(default_factory=dict)
    """What the recipe's `prepare` drew for those steps, shape (steps, batch, ...)."""

    @property
    def batch(self) -> int:
        """How many examples a step has."""
        return self.indices.shape[1]

    @property
    def examples(self) -> int:
        """How many examples there are."""
        return len(next(iter(self.columns.values())))


@dataclass(frozen=True, kw_only=True)
class Contender:
    """One program in one setting. The fastest of a family is what the others are compared with."""

    family: str
    setting: str
    contend: Callable[[Inputs, Turn], None]
    needs: Sequence[str] = ()
    """Modules that the environment may lack."""
    learns: bool = True
    """Whether its losses are compared; a ceiling has none."""
    tolerance: float | None = None
    """Of its mean loss where it is not the workload's, as for another precision."""

    @property
    def name(self) -> str:
        """Unique within a workload."""
        return f"{self.family}: {self.setting}"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A recipe as a pipeline of `params.yaml` names it."""

    path: Path
    params: Mapping[str, Any] = field(default_factory=dict)
    train: Mapping[str, Any]
    """All but the epochs, which are without end."""

    def settings(self) -> TrainSettings:
        """Return the checked settings."""
        return TrainSettings.model_validate({"epochs": 1_000_000, **self.train})


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A model with its data, and everybody who trains it."""

    name: str
    title: str
    recipe: Recipe
    columns: Callable[[], Arrays]
    contenders: Sequence[Contender]
    steps: int = 50
    """How many steps all of them take from the same weights on the same batches."""
    tolerance: float = 1e-3
    """Of the mean loss over these steps, relative to Tapeline's."""
    prepare: Callable[[Path], None] = lambda folder: None
    """Writes what else a peer reads into the folder of the inputs."""
    targets: Mapping[str, float] = field(default_factory=dict)
    """Family → how many times as fast Tapeline is to be."""
