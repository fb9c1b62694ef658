"""The cells of one table column as labels or as numbers; what is neither is named by its row and value."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tapeline.errors import InputError


@dataclass(frozen=True)
class Cells:
    """Some consecutive rows of a column, from a CSV (then they are text) or a Parquet file."""

    values: pa.Array
    first: int
    """The number of the first row in the table, counted from 0."""
    of: str
    """The table and column, for messages."""

    def words(self) -> pa.Array:
        """Return names or whole numbers as trimmed text. Raises `InputError` for a missing value or another type."""
        values = self.values
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if not (_is_text(values.type) or pa.types.is_integer(values.type)):
            raise InputError(f"{self.of} is {values.type}: names or whole numbers are needed here")
        self._refuse_missing()
        words = pc.utf8_trim_whitespace(pc.cast(values, pa.string()))
        if (blank := pc.index(words, "").as_py()) >= 0:
            raise self._wrong(blank, "is blank")
        return words

    def numbers(self) -> NDArray[np.float32]:
        """Return float32. Raises `InputError` for a value that is missing, no number, or not finite as float32."""
        self._refuse_missing()
        values = pc.utf8_trim_whitespace(self.values) if _is_text(self.values.type) else self.values
        try:
            numbers = _as_float64(values).to_numpy(zero_copy_only=False)
        except pa.ArrowNotImplementedError:
            raise InputError(f"{self.of} is {values.type}: a feature needs numbers") from None
        except pa.ArrowInvalid:
            row = next(row for row, value in enumerate(values) if not _is_number(value))
            raise self._wrong(row, "is no number") from None
        with np.errstate(over="ignore"):
            result: NDArray[np.float32] = numbers.astype(np.float32)
        finite = np.isfinite(result)
        if not finite.all():
            raise self._wrong(int(np.argmin(finite)), "is not finite as float32")
        return result

    def _refuse_missing(self) -> None:
        if self.values.null_count:
            raise self._wrong(pc.index(self.values.is_null(), True).as_py(), "is missing")

    def _wrong(self, row: int, what: str) -> InputError:
        value = self.values[row].as_py()
        said = "the value" if value is None else repr(value)
        number = self.first + row + 1
        return InputError(f"{self.of}, row {number} below the header: {said} {what}; mend the row or drop it")


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _as_float64(values: Any) -> Any:
    """Cast an array or scalar; an integer that float64 cannot hold is rounded, as float32 will round it anyway."""
    return pc.cast(values, pa.float64(), safe=False)


def _is_number(value: pa.Scalar) -> bool:
    try:
        _as_float64(value)
    except pa.ArrowInvalid:
        return False
    return True
