"""PyTorch as its tuning guide advises: tensors in memory, a fused optimizer, optionally `torch.compile`.

A batch is selected by indexing the whole tensor, which costs less than a `DataLoader` that collates examples.
https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.peers.means import Means
from benchmarks.turn import Turn
from benchmarks.workload import Arrays, Contender, Inputs

FAMILY = "PyTorch"
Step = Callable[..., Mapping[str, Any]]
"""Takes one batch of each column, changes the weights, returns the losses by name as detached scalars."""
Build = Callable[[Arrays, Callable[[Any], Any]], Step]
"""Initial weights, and `torch.compile` or the identity for the forward pass → the step."""


def contenders(build: Build, *, names: Sequence[str] = ("image", "label"), note: str = "") -> list[Contender]:
    """Return the loop in eager mode (also on one thread) and with `torch.compile`. names: the columns of a step."""

    def make(compile_it: bool, threads: int) -> Contender:
        def contend(inputs: Inputs, turn: Turn) -> None:
            import torch

            torch.set_num_threads(threads)
            step = build(inputs.weights, torch.compile if compile_it else lambda function: function)
            columns = [torch.from_numpy(np.array(inputs.columns[name])) for name in names]
            means = Means()
            for number, index in enumerate(inputs.indices):
                chosen = torch.from_numpy(index).long()
                drawn = {name: torch.from_numpy(values[number]) for name, values in inputs.drawn.items()}
                means.add(step(*(column[chosen] for column in columns), **drawn))
                turn.stepped()
            turn.learned(means.values())
            size = inputs.batch
            while True:
                order = torch.randperm(inputs.examples)
                for start in range(0, inputs.examples - size + 1, size):
                    chosen = order[start : start + size]
                    step(*(column[chosen] for column in columns))
                    turn.done(1)

        told = "torch.compile" if compile_it else "eager", "one thread" if threads == 1 else "", note
        setting = ", ".join(word for word in told if word)
        return Contender(family=FAMILY, setting=setting, contend=contend, needs=("torch",))

    cores = os.cpu_count() or 1  # PyTorch itself takes one thread for each physical core
    modes = {(False, cores), (False, 1), (True, cores)}  # small matrices lose more by threading than they gain
    return [make(*mode) for mode in sorted(modes)]
