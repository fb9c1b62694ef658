"""What commands say to people besides their results: a failure, and for whom they wait."""

import sys

from tapeline.runtime.errors import Interrupted, TapelineError


def fail(error: TapelineError | Interrupted) -> int:
    """Say what was wrong, and return its exit status."""
    print(f"tapeline: {error}", file=sys.stderr)
    return error.status


def wait(text: str) -> None:
    """Say for whom a command waits."""
    print(text, file=sys.stderr, flush=True)
