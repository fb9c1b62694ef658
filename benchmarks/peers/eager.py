"""A tutorial's loop as written there: eager TensorFlow, batch by batch, one step at a time."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks.peers.means import Means
from benchmarks.turn import Turn
from benchmarks.workload import Arrays, Contender, Inputs

FAMILY = "tutorial loop"
Step = Callable[..., Mapping[str, Any]]
"""Takes one slice of each column, changes the weights, returns the losses by name as scalar tensors."""


def slices(columns: Sequence[Any], size: int) -> Iterator[tuple[Any, ...]]:
    """Yield an epoch of batches in order."""
    for start in range(0, len(columns[0]) - size + 1, size):
        yield tuple(column[start : start + size] for column in columns)


def contender(
    build: Callable[[Arrays, Arrays], tuple[Sequence[Any], Step]],
    *,
    batches: Callable[[Sequence[Any], int], Iterator[tuple[Any, ...]]] = slices,
) -> Contender:
    """Return the loop around the columns and the step that `build(columns, weights)` returns.

    The values that `prepare` drew for the common steps are passed to the step by name; later the step draws its own.
    batches: yields an epoch, as the tutorial does.
    """

    def contend(inputs: Inputs, turn: Turn) -> None:
        columns, step = build(inputs.columns, inputs.weights)
        means = Means()
        for number, index in enumerate(inputs.indices):
            drawn = {name: values[number] for name, values in inputs.drawn.items()}
            means.add(step(*(column[index] for column in columns), **drawn))
            turn.stepped()
        turn.learned(means.values())
        while True:
            for batch in batches(columns, inputs.batch):
                step(*batch)
                turn.done(1)

    return Contender(family=FAMILY, setting="eager", contend=contend)
