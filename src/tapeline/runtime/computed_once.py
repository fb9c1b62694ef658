"""XLA computes the sum of a tensor's gradients once, instead of anew for each operation that reads it.

XLA for CPUs fuses a cheap operation with each of its readers. In a recurrent network whose cells are unrolled, a cell's
gradient is a sum that the cell before it reads several times; so it, and all that it is made of, back to the last cell,
was computed several times for each cell: a quarter of a step of two LSTMs with eleven cells in all.

What XLA does not compute twice is a division. Each such sum is divided by one, which leaves its bits as they are; XLA
cannot know that it is one.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import tensorflow as tf

from tapeline.runtime import tensorflow_private

KEPT_AS_CONSTANT = 128
"""Numbers of a tensor that a traced function has as a constant; a larger one is an input, which XLA does not know."""
PRODUCTS = frozenset(
    {
        "BatchMatMulV2",
        "BatchMatMulV3",
        "BiasAddGrad",
        "Conv2D",
        "Conv2DBackpropFilter",
        "Conv2DBackpropInput",
        "Einsum",
        "MatMul",
        "Sum",
    }
)
"""Operations that XLA computes once anyway. A sum of these alone is cheap, so it stays as it is."""


@contextmanager
def sums_of_gradients() -> Iterator[None]:
    """Make each sum of gradients that a tape adds to a graph in the block one that XLA computes once."""
    ones = tf.ones([KEPT_AS_CONSTANT + 1])

    def add(gradients: Sequence[tf.Tensor], plain: Callable[..., tf.Tensor]) -> tf.Tensor:
        total = plain(gradients)
        return total / tf.cast(ones[0], total.dtype) if _is_repeated(gradients, total) else total

    with tensorflow_private.sums_of_gradients(add):
        yield


def _is_repeated(gradients: Sequence[tf.Tensor], total: tf.Tensor) -> bool:
    """Return whether XLA may compute a sum again for each of its readers."""
    if not tf.is_symbolic_tensor(total) or not total.dtype.is_floating:
        return False
    return any(not tf.is_symbolic_tensor(each) or each.op.type not in PRODUCTS for each in gradients)
