"""Makes features of a table's rows: a label, whole numbers, or float32.

decoder = Decoder({"x": ("area", "rooms"), "kind": "kind"}, "kind", classes, integers=())
decoder.values(rows, bad, doubts)    # {"x": float32 (rows, 2), "kind": int64 (rows,)}
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tapeline.dataset.columns import Feature
from tapeline.ingest.bad_cells import Collected
from tapeline.ingest.cells import EXACT, Doubts
from tapeline.ingest.labels import Classes
from tapeline.ingest.table_file import Rows

LABELS = pa.dictionary(pa.int32(), pa.string())
"""Labels are few distinct texts, as which they are trimmed, checked and numbered once for each part of a file."""
Wanted = Mapping[str, str | tuple[str, ...]]


def columns_of(feature: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns that a feature is made of."""
    return (feature,) if isinstance(feature, str) else feature


def type_of(columns: str | tuple[str, ...], classes: Classes | None, *, whole: bool) -> Feature:
    """Return the type of a feature. classes: if it is the label; whole: whether it is kept as int64."""
    if classes is not None:
        return Feature((), "int64", classes.names)
    return Feature(() if isinstance(columns, str) else (len(columns),), "int64" if whole else "float32")


@dataclass(frozen=True)
class Decoder:
    """Converts rows to features."""

    wanted: Wanted
    label: str | None
    classes: Classes | None
    integers: tuple[str, ...]

    @property
    def columns(self) -> list[str]:
        """The columns of all features."""
        return [column for feature in self.wanted.values() for column in columns_of(feature)]

    @property
    def types(self) -> dict[str, Any]:
        """The type to read a CSV column as: float64, text for whole numbers, dictionary-encoded text for the label."""
        kinds = {column: pa.float64() for of in self.wanted.values() for column in columns_of(of)}
        kinds |= {column: pa.string() for name in self.integers for column in columns_of(self.wanted.get(name, ()))}
        return kinds if self.label is None else kinds | {str(self.wanted[self.label]): LABELS}

    def has_large(self, values: Mapping[str, NDArray[Any]]) -> bool:
        """Return whether there is a float32 that may be a rounded whole number."""
        numbers = (value for value in values.values() if value.dtype == np.float32 and value.size)
        return any(value.max() >= EXACT or value.min() <= -EXACT for value in numbers)

    def values(self, rows: Rows, bad: Collected, doubts: dict[str, Doubts]) -> dict[str, NDArray[Any]]:
        """Return the features of some rows. Adds bad cells to `bad`; features may then be missing.

        doubts: gets those of each column of numbers.
        """
        values: dict[str, NDArray[Any]] = {}
        for name, of in self.wanted.items():
            parts: list[NDArray[Any]] = []
            for column in columns_of(of):
                cells = rows.cells(column)
                with bad.column():
                    if name == self.label and self.classes is not None:
                        parts.append(self.classes.encode(cells.words()))
                    elif name in self.integers:
                        parts.append(cells.integers())
                    else:
                        doubts[column] = Doubts()
                        parts.append(cells.numbers(doubts[column]))
            if not bad.count:
                values[name] = parts[0] if isinstance(of, str) else np.stack(parts, axis=1)
        return values
