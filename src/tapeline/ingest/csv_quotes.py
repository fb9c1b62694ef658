"""Quotes of a CSV file that are not closed: Arrow ends one at the end of the file, without an error.

    check(Path("t.csv"))

A stray quote at the beginning of a cell takes all rows up to the next quote for text of that cell, and they would be
missing. What no stray quote explains is left to Arrow.
"""

import re
from codecs import BOM_UTF8
from pathlib import Path

from tapeline.runtime import files
from tapeline.runtime.errors import InputError

BLOCK_BYTES = 2**20
_QUOTED = re.compile(rb'"[^"]*+(?:(?>""[^"]*+))*+"')
_SOUND = re.compile(rb'(?:(?>[^"]++|(?<![,\r\n])"|(?<=[,\r\n])"[^"]*+(?:(?>""[^"]*+))*+"(?=[,\r\n])))*+')
"""Cells without a quote at their beginning, where others are text, and quoted cells that end with their quote.

What repeats possessively is an atomic group: Python before 3.11.5 matches wrongly where it can go back in it.
"""


def is_sound(lines: bytes) -> bool:
    """Return whether each quote that begins a cell in whole lines of a file's beginning ends one there."""
    return bool(_SOUND.fullmatch(b"\n" + lines.removeprefix(BOM_UTF8), 1))


def has_sound_header(path: Path) -> bool:
    """Return whether that is so in a file's first line, at most `BLOCK_BYTES` of it."""
    with files.opened(path) as file:
        return is_sound(file.readline(BLOCK_BYTES) + b"\n")


def check(path: Path) -> None:
    """Raise `InputError` with the line of a cell's first quote that is not closed, or closed only inside a later cell.

    A quote is closed inside a later cell if there is a line break in the quotes and text right behind them.
    """
    with files.opened(path) as file:
        done = len(BOM_UTF8) if file.read(len(BOM_UTF8)) == BOM_UTF8 else 0
        file.seek(done)
        before, rest, more = b"\n", b"", True
        while more and len(rest) <= 2 * BLOCK_BYTES:  # Arrow refuses a longer row
            block = file.read(BLOCK_BYTES)
            more, rest = bool(block), rest + block
            end, stray = _scanned(before + rest, ended=not more)
            if stray:
                raise InputError(_refusal(path, done + end))
            before, rest = (before + rest)[end : end + 1], rest[end:]
            done += end


def _scanned(data: bytes, *, ended: bool) -> tuple[int, bool]:
    """Return up to which byte behind the first one cells are sound, and whether a stray quote follows there.

    ended: whether nothing follows the data. The first byte is what stands before them.
    """
    if b'"' not in data:
        return len(data) - 1, False
    at = 1
    while (at := _end(data, at)) < len(data):
        cell = _QUOTED.match(data, at)
        if cell is None or (cell.end() == len(data) and not ended):
            return at - 1, ended  # what follows may close it
        if cell.end() < len(data) and re.search(rb"[\r\n]", cell[0]):
            return at - 1, True
        at = cell.end()
    return len(data) - 1, False


def _end(data: bytes, at: int) -> int:
    found = _SOUND.match(data, at)
    return found.end() if found else at


def _refusal(path: Path, at: int) -> str:
    with files.opened(path) as file:
        above = file.read(at)
    line = 1 + len(re.findall(rb"\r\n|\r|\n", above))
    return (
        f"{path.name} cannot be read as CSV: in line {line} a cell begins with an unclosed quote, and would swallow "
        "the rows below; close it, or remove it"
    )
