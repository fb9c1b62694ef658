"""What commands print to stderr besides their results: errors, and what they wait for."""

import sys

from tapeline.runtime.errors import Interrupted, TapelineError


def fail(error: TapelineError | Interrupted) -> int:
    """Print an error, and return its exit status."""
    print(f"tapeline: {error}", file=sys.stderr)
    return error.status


def wait(text: str) -> None:
    """Print what a command waits for."""
    print(text, file=sys.stderr, flush=True)
