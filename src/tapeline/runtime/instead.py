"""Replace functions of a library for a while."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def instead(owner: Any, **replaced: Any) -> Iterator[None]:
    """Give a module or a class other attributes in the block."""
    originals = {name: getattr(owner, name) for name in replaced}
    for name, value in replaced.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name, value in originals.items():
            setattr(owner, name, value)
