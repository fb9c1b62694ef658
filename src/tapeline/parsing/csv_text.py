"""Write a table as CSV with the same bytes everywhere."""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any


def table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a header and rows as lines that end with a line feed; floats with the digits that give them back.

    >>> table(["name", "value"], [["a,b", 0.5]])
    'name,value\\n"a,b",0.5\\n'
    """
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(header)
    lines.writerows(rows)
    return text.getvalue()
