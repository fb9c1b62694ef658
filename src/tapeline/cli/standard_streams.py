"""Messages on stderr, and escaping of what commands print to a terminal."""

import io
import os
import re
import sys
from pathlib import Path
from typing import Any, TextIO

from tapeline.runtime import streams
from tapeline.runtime.errors import Interrupted, TapelineError, plain

STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def fail(error: TapelineError | Interrupted) -> int:
    """Print an error, and return its exit status."""
    tell(f"tapeline: {error}")
    return error.status


def tell(text: str) -> None:
    """Print a line on stderr, such as what a command waits for, escaped. A reader that is gone ends nothing."""
    streams.say(plain(text), sys.stderr)


def open_missing() -> None:
    """Open /dev/null in the place of each standard stream that the caller has closed.

    This includes its descriptor: else the next file opened would get it, and the output of libraries and children.
    """
    missing = [(number, *stream) for number, stream in enumerate(STREAMS) if getattr(sys, stream[0]) is None]
    for number, *_ in missing:
        _open_missing(number)
    for _, name, mode in missing:
        file = Path(os.devnull).open(mode, encoding="utf-8", errors="backslashreplace")  # noqa: SIM115 - it stays open
        setattr(sys, name, file)


def _open_missing(number: int) -> None:
    """Open /dev/null as a descriptor, for children too, unless it is that of a file already."""
    try:
        os.fstat(number)
    except OSError:
        descriptor = os.open(os.devnull, os.O_RDWR)
        if descriptor == number:
            os.set_inheritable(descriptor, True)
        else:
            os.dup2(descriptor, number)
            os.close(descriptor)


def print_any_name() -> None:
    """Make stdout escape what its encoding cannot represent, as stderr does: a file name need not be valid text."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


class EscapedTerminal:
    """A terminal to which only line ends and tabs pass as control characters: names, notes and cells are untrusted.

    A file or a pipe gets results unchanged.
    """

    CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
    """Includes those that change the direction of text."""

    def __init__(self, to: TextIO) -> None:
        self._to = to

    @classmethod
    def where_there_is_one(cls) -> None:
        """Make stdout one, if it is a terminal."""
        if sys.stdout.isatty():
            sys.stdout = cls(sys.stdout)

    def write(self, text: str) -> int:
        """Write a text with its control characters escaped."""
        self._to.write(self.CONTROL.sub(lambda found: ascii(found[0])[1:-1], text))
        return len(text)

    @property
    def buffer(self) -> "_EscapedBytes":
        """What takes the same as UTF-8."""
        return _EscapedBytes(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._to, name)


class _EscapedBytes:
    """Takes whole lines of UTF-8."""

    def __init__(self, to: EscapedTerminal) -> None:
        self._to = to

    def write(self, content: Any) -> int:
        """Write bytes, or a buffer of them."""
        return self._to.write(bytes(content).decode("utf-8", "backslashreplace"))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._to, name)


class EscapedLog(EscapedTerminal):
    """The output of a stage, to a terminal or not: each line printed stays one line, so that no name can forge another.

    People read logs in terminals, and CI systems look in them for commands of their own.
    """

    def write(self, text: str) -> int:
        """Write a text with its control characters escaped, and the line breaks but the last."""
        body = text.removesuffix("\n")
        super().write(body.replace("\n", "\\n") + text[len(body) :])
        return len(text)
