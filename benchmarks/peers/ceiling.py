"""The machine's limits: matrix multiplications and copies, expressed as steps of a workload.

They take turns with the contenders, so that a ratio to them comes from one run. They train nothing.
"""

from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.turn import Turn
from benchmarks.workload import Contender, Inputs

SIZE = 2048
COPIED = 256 << 20
"""Bytes: more than any cache holds."""


def matmul(flops: float) -> Contender:
    """Return 2048×2048 float32 products in TensorFlow. flops: floating-point operations of a workload's step."""

    def contend(inputs: Inputs, turn: Turn) -> None:
        import tensorflow as tf

        a, b = (tf.random.stateless_normal((SIZE, SIZE), (0, seed)) for seed in range(2))
        multiply: Callable[..., tf.Tensor] = tf.function(tf.matmul)
        multiply(a, b).numpy()
        turn.learned({})
        while True:
            multiply(a, b)[0, 0].numpy()
            turn.done(2 * SIZE**3 / flops)

    return Contender(family="matmul ceiling", setting=f"{SIZE}³ float32", contend=contend, learns=False)


def products(shapes: Sequence[tuple[int, int, int]]) -> Contender:
    """Return a step's own float32 products and nothing else, no one waiting for another. shapes: (m, k, n) of each."""

    def contend(inputs: Inputs, turn: Turn) -> None:
        import tensorflow as tf

        pairs = [
            tuple(tf.random.stateless_normal(shape, (number, side)) for side, shape in enumerate(((m, k), (k, n))))
            for number, (m, k, n) in enumerate(shapes)
        ]

        @tf.function
        def step() -> tf.Tensor:
            return tf.add_n([tf.matmul(a, b)[0, 0] for a, b in pairs])

        step().numpy()
        turn.learned({})
        while True:
            step().numpy()
            turn.done(1)

    setting = "the step's own, float32"
    return Contender(family="products ceiling", setting=setting, contend=contend, learns=False)


def training_flops(batch: int, layers: Sequence[int]) -> int:
    """Return a step's floating-point operations. layers: multiply-adds of each for one example, forward.

    A layer has two more products of that size backward, the first only one: nobody needs the gradient of the images.
    """
    return 2 * batch * (3 * sum(layers) - layers[0])


def copy(nbytes: float) -> Contender:
    """Return memory-to-memory copies in NumPy. nbytes: the bytes that a workload's step reads."""

    def contend(inputs: Inputs, turn: Turn) -> None:
        source = np.ones(COPIED, np.uint8)
        target = np.empty_like(source)
        np.copyto(target, source)
        turn.learned({})
        while True:
            np.copyto(target, source)
            turn.done(COPIED / nbytes)

    return Contender(family="copy ceiling", setting="one thread", contend=contend, learns=False)
