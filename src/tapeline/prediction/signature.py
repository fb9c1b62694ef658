"""A model's inputs: their shapes, dtypes and columns, and values that fit them.

Nothing is guessed: values that do not fit the signature's shape and dtype are refused, naming their position.
"""

import contextlib
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapeline.runtime.errors import InputError, first_few

MAX_COLUMNS = 100_000
"""Maximum number of columns of a table."""
LARGEST_EXACT = 2**53
"""Beyond, float64 does not hold every whole number."""
MAX_NAMES = 8
"""Maximum number of names in a message."""
MIN_BATCH, MAX_BATCH, BATCH_VALUES = 256, 4096, 2**18
"""A batch of examples of fixed length has so many values, and at least and at most so many examples."""

Inputs = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Signature:
    """A model's inputs: their shapes (of one example; None for any length) and dtypes."""

    shapes: dict[str, tuple[int | None, ...]]
    dtypes: dict[str, str]
    columns: dict[str, list[str]]
    """Input → its columns in a table."""
    resized: frozenset[str] = frozenset()
    """Inputs to whose size an image is brought, as ingest brought those that the model was trained on."""

    @classmethod
    def of(
        cls, inputs: Mapping[str, Any], tables: Mapping[str, str | Sequence[str]], *, resized: Iterable[str] = ()
    ) -> "Signature":
        """Return a signature of `model.json`. tables: the columns from which each feature of a table was made.

        resized: the features that ingest made of images of any size.
        Raises `InputError` for a signature without a batch dimension.
        """
        if any((spec["shape"] or [])[:1] != [None] for spec in inputs.values()):
            raise InputError("this model takes a fixed number of examples: call its SavedModel yourself")
        shapes = {name: tuple(spec["shape"][1:]) for name, spec in inputs.items()}
        columns = {}
        for name, shape in shapes.items():
            made_of = tables.get(name)
            width = math.prod(size or 1 for size in shape)
            plain = [name] if width == 1 else [f"{name}.{number}" for number in range(min(width, MAX_COLUMNS + 1))]
            named = [made_of] if isinstance(made_of, str) else list(made_of or ())
            columns[name] = named if len(named) == width or (named and None in shape) else plain
        dtypes = {name: spec["dtype"] for name, spec in inputs.items()}
        return cls(shapes, dtypes, columns, frozenset(resized) & shapes.keys())

    def batch_size(self) -> int:
        """Return the number of examples in a batch: large where they are small, so that calls cost little."""
        if any(None in shape for shape in self.shapes.values()):
            return MIN_BATCH
        values = sum(math.prod(size or 0 for size in shape) for shape in self.shapes.values())  # no size is None here
        return max(MIN_BATCH, min(MAX_BATCH, BATCH_VALUES // max(1, values)))

    def only(self, file: Path) -> str:
        """Return the only input. Raises `InputError` if there are several."""
        if len(self.shapes) != 1:
            raise InputError(
                f"{file} holds one input, but the model takes {', '.join(self.shapes)}: use .npz, CSV or JSON lines"
            )
        return next(iter(self.shapes))

    def fitted(self, name: str, values: Any, where: str) -> NDArray[Any]:
        """Return values as an input, shape (examples, ...). Raises `InputError` for values that do not fit."""
        wanted = self.shapes[name]
        try:
            array = np.asarray(values)
            if not _is_convertible(array, self.dtypes[name]):
                raise ValueError(name)
            with np.errstate(over="ignore", invalid="ignore"):  # the results are checked below
                cast = array.astype(object if self.dtypes[name] == "string" else self.dtypes[name])
        except (ValueError, TypeError, OverflowError):
            rule = "text" if self.dtypes[name] == "string" else f"{self.dtypes[name]} values"
            rule += f" of shape {shape_text(wanted)}" if wanted else ""
            raise InputError(f"{where}: {name} is {_shown(values)}; the model takes {rule}") from None
        if array.ndim != len(wanted) + 1 or any(
            w not in (None, s) for s, w in zip(array.shape[1:], wanted, strict=True)
        ):
            raise InputError(
                f"{where}: {name} has shape {shape_text(array.shape[1:])}, but the model takes {shape_text(wanted)}"
            )
        if array.dtype == cast.dtype:
            return cast
        if np.issubdtype(cast.dtype, np.integer) and not np.array_equal(cast, array):
            least, most = np.iinfo(cast.dtype).min, np.iinfo(cast.dtype).max
            raise InputError(f"{where}: {name} has values that are not whole numbers from {least} to {most}")
        if np.issubdtype(cast.dtype, np.floating) and (np.isinf(cast) & np.isfinite(array.astype(np.float64))).any():
            raise InputError(f"{where}: {name} has values that are too large for {self.dtypes[name]}")
        return cast


def exact(values: Any, dtype: str, where: str) -> NDArray[Any]:
    """Return Python's numbers as an array for an input: of objects where float64 would round whole numbers.

    Raises `ValueError` for lists of different lengths, and `InputError` for a float that may have been rounded and for
    true and false where numbers are taken: NumPy would make 1 and 0 of them.
    """
    array = np.asarray(values)
    plain = array.dtype.kind in "biuf" and dtype not in ("bool", "string")
    if plain and any(type(one) is bool for one in np.asarray(values, dtype=object).flat):
        raise InputError(f"{where}: true and false are not {dtype} values")
    if array.dtype != np.float64 or "int" not in dtype or not (np.abs(array) >= LARGEST_EXACT).any():
        return array
    numbers = np.asarray(values, dtype=object)
    for one in numbers.flat:
        if isinstance(one, float) and abs(one) >= LARGEST_EXACT:
            raise InputError(
                f"{where}: {one} may have been rounded, but the model takes {dtype}: write it without a decimal point"
            )
    return numbers


def has_infinity(values: NDArray[Any]) -> bool:
    """Return whether a number is infinite."""
    return values.dtype.kind in "fc" and bool(np.isinf(values).any())


def _is_convertible(array: NDArray[Any], dtype: str) -> bool:
    """Return whether values convert to a dtype without guessing. Raises `ValueError` for text invalid in UTF-8."""
    if dtype != "string" and _not_number(array):
        return False
    text = array.dtype.kind in "SU" or (
        array.dtype == object and all(isinstance(one, str | bytes) for one in array.flat)
    )
    if dtype != "string":
        return not text and (array.dtype.kind != "c" or "complex" in dtype) and (dtype != "bool" or array.dtype == bool)
    if array.dtype.kind == "U":
        codes = np.ascontiguousarray(array).view(np.dtype("u4").newbyteorder(array.dtype.byteorder))
        return not ((codes > sys.maxunicode) | ((codes >= 0xD800) & (codes < 0xE000))).any()
    for one in array.flat if text else ():
        if isinstance(one, str):
            one.encode()
    return text or not array.size


def _not_number(array: NDArray[Any]) -> list[Any]:
    """Return the first element of an array of objects that is no number, in a list, which is empty if there is none.

    NumPy would make a NaN of null, and 1 of a text "1" beside it.
    """
    return [one for one in array.flat if type(one) not in (int, float)][:1] if array.dtype == object else []


def shortened(names: Sequence[str]) -> str:
    """Return names as a list, shortened: an image has thousands of columns."""
    more = f" ({len(names):,} in all)" if len(names) > MAX_NAMES else ""
    return f"{first_few(names, MAX_NAMES) or 'nothing'}{more}"


def _shown(values: Any) -> str:
    """Return a single value, or the dtype and shape of several."""
    array = np.asarray(values)
    with contextlib.suppress(ValueError, SystemError):  # text with invalid code points
        if array.size == 1:
            return _literal(array.item())
        if other := _not_number(array):
            return f"{array.dtype} of shape {shape_text(array.shape[1:])} with {_literal(other[0])}"
    return f"{array.dtype} of shape {shape_text(array.shape[1:])}"


def _literal(value: Any) -> str:
    return "null" if value is None else f"{value!r:.60}"  # None is of JSON alone


def shape_text(shape: Sequence[int | None]) -> str:
    """Return a shape as messages have it."""
    return "(" + ", ".join("any" if size is None else str(size) for size in shape) + ")"
