"""Write columns to disk: `.npy` files that are written in pieces.

    with ColumnWriter(path, Feature((28, 28, 1), "uint8")) as column:
        column.append(images)            # uint8, (any number, 28, 28, 1)

So a column can be larger than memory.
"""

import io
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapeline.dataset.columns import Feature


class ColumnWriter:
    """Appends pieces of a column to a new `.npy` file and writes the final count into its header at the end."""

    def __init__(self, path: Path, feature: Feature) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._feature = feature
        self._file = path.open("wb")
        self.examples = 0

    def __enter__(self) -> "ColumnWriter":
        self._file.write(_header(self._feature, 0))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._file:
            if kind is None:
                self._file.seek(0)
                self._file.write(_header(self._feature, self.examples))

    def append(self, values: NDArray[Any]) -> None:
        """Write more examples: shape (any number, *feature shape), with the feature's dtype."""
        self._file.write(np.ascontiguousarray(values, self._feature.dtype).data)
        self.examples += len(values)


def _header(feature: Feature, examples: int) -> bytes:
    """Return the header that `np.save` writes. NumPy pads it, so its length does not depend on the count."""
    header = io.BytesIO()
    descr = np.lib.format.dtype_to_descr(np.dtype(feature.dtype).newbyteorder("<"))
    shape = (examples, *feature.shape)
    np.lib.format.write_array_header_1_0(header, {"descr": descr, "fortran_order": False, "shape": shape})
    return header.getvalue()
