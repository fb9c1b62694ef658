"""JAX: a whole epoch in one compiled `lax.scan`, the data on the device, the permutation made by NumPy.

The state is donated, so that updates may be in place. https://docs.jax.dev/en/latest/_autosummary/jax.lax.scan.html
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.turn import Turn
from benchmarks.workload import Arrays, Contender, Inputs

FAMILY = "JAX"
Build = Callable[[Arrays], tuple[Any, Callable[..., tuple[Any, Mapping[str, Any]]]]]
"""Initial weights → the state, and `update(state, *columns, **drawn)` → (state, losses by name)."""
Draw = Callable[[np.random.Generator, int, int], Arrays]
"""A generator, steps and batch size → the step's inputs besides columns, shape (steps, batch, ...)."""


def contender(
    build: Build,
    *,
    names: Sequence[str] = ("image", "label"),
    draw: Draw = lambda random, steps, batch: {},
    setting: str = "scan",
) -> Contender:
    """Return the scan. names: the columns that an update takes. draw: makes an epoch's random numbers in advance."""

    def contend(inputs: Inputs, turn: Turn) -> None:
        import jax

        state, update = build(inputs.weights)
        columns = [jax.numpy.asarray(inputs.columns[name]) for name in names]

        def epoch(state: Any, columns: Any, order: Any, drawn: Any) -> tuple[Any, Any]:
            def body(state: Any, row: Any) -> tuple[Any, Any]:
                index, made = row
                return update(state, *(column[index] for column in columns), **made)

            state, losses = jax.lax.scan(body, state, (order, drawn))
            return state, {name: loss.mean() for name, loss in losses.items()}

        run = jax.jit(epoch, donate_argnums=0)
        state, losses = run(state, columns, inputs.indices, dict(inputs.drawn))
        turn.learned({name: float(loss) for name, loss in losses.items()})
        random, steps, size = np.random.default_rng(0), inputs.examples // inputs.batch, inputs.batch
        while True:
            order = random.permutation(inputs.examples)[: steps * size].reshape(steps, size).astype(np.int32)
            state, losses = run(state, columns, order, draw(random, steps, size))
            jax.block_until_ready(losses)
            turn.done(steps)

    return Contender(family=FAMILY, setting=setting, contend=contend, needs=("jax", "optax"))
