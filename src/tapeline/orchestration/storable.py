"""What a Prefect server can keep of a run's parameters: what it cannot give back, it takes all the same.

One such run, and the server answers no question about runs any more: its page is empty, and no schedule begins.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator

INTEGERS = range(-(2**63), 2**63)
"""Those of 64 bits."""


def storable(value: object) -> object:
    """Return a value as it is. Raises `ValueError` if an integer in it has more than 64 bits."""
    if any(isinstance(plain, int) and plain not in INTEGERS for plain in _plain(value)):
        raise ValueError("an integer has more than 64 bits, which no Prefect server can show")
    return value


def exact(value: object) -> object:
    """Return a value as it is. Raises `ValueError` as `storable` does, and for a number that would become null."""
    if any(isinstance(plain, float) and not math.isfinite(plain) for plain in _plain(value)):
        raise ValueError("a number is not finite: a Prefect server would make it null")
    return storable(value)


def _plain(value: object) -> Iterable[object]:
    """Yield the values in a value that hold no others."""
    if isinstance(value, (Mapping, list, tuple)):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _plain(inner)
    else:
        yield value


Storable = Annotated[Any, AfterValidator(storable)]
Exact = Annotated[Any, AfterValidator(exact)]
