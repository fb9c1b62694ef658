"""A text file as blocks of whole lines, of which Arrow or Python may take one after the other."""

import io
from codecs import BOM_UTF8
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any

import pyarrow as pa

from tapeline.runtime.errors import InputError

BLOCK = 2**22
"""Bytes that are read at once."""
LONGEST = 2**26
"""Maximum number of characters in a line of text."""
STRIDE = 2**16
"""A block with a newline in each such part has no line that Python's CSV reader finds too long."""
ARROW_BLOCK = 2**20
INTEGERS = {f"{sign}int{bits}": getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)}


class Blocks:
    """The lines of a file, in order. What is taken by one reader is not seen by the other."""

    def __init__(self, opened: BufferedReader, file: Path, *, newline: str | None) -> None:
        """Read nothing yet. newline: as `open` has it. A mark of UTF-8 at the beginning is left out."""
        self._opened, self._file, self._newline, self._begun = opened, file, newline, False
        self._next = b""
        self._rest = b""
        self._text: io.StringIO | None = None
        self.line = 0
        """The number of lines that were taken."""

    def peek(self) -> bytes:
        """Return the next lines, whole as long as none is too long; nothing at the end of the file."""
        if not self._next:
            self._next, self._rest = self._read()
            if not self._begun:
                self._next, self._begun = self._next.removeprefix(BOM_UTF8), True
        return self._next

    def drop(self) -> None:
        """Take what `peek` returned; its lines end in newlines."""
        block = self.peek()
        self.line += block.count(b"\n") + (not block.endswith(b"\n"))
        self._next = b""

    def give_back(self) -> None:
        """Have `peek` return what `lines` has begun and not taken."""
        if self._text is not None:
            self._next, self._text = self._text.read().encode(), None

    @property
    def between(self) -> bool:
        """Whether `lines` is at the end of what `peek` returned."""
        return self._text is None

    def lines(self) -> Iterator[str]:
        """Yield the lines as text. Raises `InputError` for one that would fill the memory, `UnicodeDecodeError`."""
        while self._text is not None or self.peek():
            if self._text is None:
                self._text, self._next = io.StringIO(self._next.decode(), newline=self._newline), b""
                self._length = len(self._text.getvalue())
            line = self._text.readline(LONGEST + 1)
            self.line += 1
            if len(line) > LONGEST:
                raise InputError(
                    f"{self._file}, line {self.line} has more than {LONGEST:,} characters: use an .npy file"
                )
            if self._text.tell() >= self._length:
                self._text = None
            yield line

    def _read(self) -> tuple[bytes, bytes]:
        """Return what is next, up to the end of a line, and what was read beyond."""
        parts, size = [self._rest], len(self._rest)
        while True:
            part = self._opened.read(BLOCK)
            end = max(part.rfind(b"\n"), part.rfind(b"\r", 0, -1)) + 1
            if end or not part or size > 4 * LONGEST + 4:  # a character has four bytes at most
                return b"".join((*parts, part[:end] if end else part)), part[end:] if end else b""
            parts.append(part)
            size += len(part)


def arrow_type(dtype: str) -> Any:
    """Return the type as which a cell is read; None for one that Arrow does not read as Python does.

    A float is rounded twice, as Python's is.
    """
    if dtype == "string":
        return pa.string()
    return pa.float64() if dtype in ("float16", "float32", "float64") else INTEGERS.get(dtype)


def is_plain(block: bytes) -> bool:
    """Return whether each line of a block is short, and ends in a newline that is nothing else."""
    if b"\0" in block or block.count(b"\r") != block.count(b"\r\n"):
        return False
    if not all(block.find(b"\n", at, at + STRIDE) >= 0 for at in range(0, len(block) - STRIDE, STRIDE)):
        return False
    if len(block) - 1 - block.rfind(b"\n") > STRIDE:
        return False
    try:
        return block.isascii() or bool(block.decode())
    except UnicodeDecodeError:
        return False
