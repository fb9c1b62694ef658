"""Operations that may give other bits each time: in their kernels several threads add to one number, in any order.

TensorFlow can be told to do without (`tf.config.experimental.enable_op_determinism`), but only as a whole, and tf.data
then runs `prepare` in one thread. So each is refused, with the name of what computes the same.
"""

from collections.abc import Callable
from typing import Any

_SERIAL = 1024
"""Below so many indices, TensorFlow 2.21 scatters in one thread."""


def remedy(operation: Any) -> str:
    """Return what to do instead of an operation that may not repeat; "" for any other."""
    found, instead = _OPERATIONS.get(operation.type, (None, ""))
    return instead if found and found(operation) else ""


def _always(operation: Any) -> bool:
    return True


def _scatters(operation: Any) -> bool:
    indices, values = operation.inputs[1:3]
    count = indices.shape.num_elements()
    return _is_rounded(values) and (count is None or count >= _SERIAL)


def _weighs(operation: Any) -> bool:
    """Return whether it adds weights to one row of bins; without weights it counts, and each row has one thread."""
    weights = operation.inputs[-1]
    is_binary = operation.type != "Bincount" and operation.get_attr("binary_output")
    is_by_row = operation.type == "DenseBincount" and operation.inputs[0].shape.rank == 2
    return _is_rounded(weights) and weights.shape.num_elements() != 0 and not is_binary and not is_by_row


def _is_transposed(operation: Any) -> bool:
    return bool(operation.get_attr("transpose_a") or operation.get_attr("adjoint_a"))


def _is_rounded(values: Any) -> bool:
    """Return whether a sum of values depends on their order."""
    return bool(values.dtype.is_floating or values.dtype.is_complex)


_ROWS = "first sum what goes to the same row, as self.update does with gradients"
_BINS = "use tf.math.unsorted_segment_sum(weights, values, bins)"
_OPERATIONS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "CropAndResizeGradImage": (_always, "crop tf.stop_gradient(image), or with tf.gather of rows and columns"),
    "ResourceScatterAdd": (_scatters, f"use the variable's scatter_nd_add, or {_ROWS}"),
    "ResourceScatterSub": (_scatters, f"use the variable's scatter_nd_sub, or {_ROWS}"),
    "ResourceScatterMul": (_scatters, "multiply by tf.math.unsorted_segment_prod(factors, indices, rows)"),
    "ResourceScatterDiv": (_scatters, "divide by tf.math.unsorted_segment_prod(divisors, indices, rows)"),
    "ResourceSparseApplyAdagrad": (_always, _ROWS),
    "ResourceSparseApplyAdagradV2": (_always, _ROWS),
    "Bincount": (_weighs, _BINS),
    "DenseBincount": (_weighs, _BINS),
    "SparseBincount": (_weighs, _BINS),
    "SparseMatrixMatMul": (_is_transposed, "use tf.sparse.sparse_dense_matmul"),
}
"""Operation → whether this very one may not repeat, and what to do instead."""
