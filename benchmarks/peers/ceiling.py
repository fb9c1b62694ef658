"""The machine's limits: matrix multiplications and copies, expressed as steps of a workload.

They take turns with the contenders, so that a ratio to them comes from one run. They train nothing.
"""

from collections.abc import Callable

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
