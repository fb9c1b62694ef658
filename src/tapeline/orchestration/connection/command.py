"""What a command that talks to a Prefect server prints and returns when it fails."""

import sys
from collections.abc import Callable

import httpx

from tapeline.runtime import processes
from tapeline.runtime.errors import TapelineError


def status(program: str, act: Callable[[], object]) -> int:
    """Call `act` and return the exit status. An error of Tapeline or of the server becomes one line."""
    processes.wait_for_children()  # also of `python -m flows.…`
    try:
        act()
    except TapelineError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return error.status
    except httpx.HTTPError as error:
        print(f"{program}: the server does not answer as expected: {str(error).splitlines()[0]}", file=sys.stderr)
        return 1
    return 0
