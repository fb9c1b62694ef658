"""How a command ends that talks to a Prefect server."""

from collections.abc import Callable

import httpx

from tapeline.runtime import exit_status
from tapeline.runtime.errors import RunError


def status(program: str, act: Callable[[], object]) -> int:
    """Call `act` and return the exit status. An expected error, or one of the server, becomes one line."""

    def called() -> int:
        try:
            act()
        except httpx.HTTPError as error:
            reason = (str(error) or type(error).__name__).splitlines()[0]
            raise RunError(f"the server does not answer as expected: {reason}") from None
        return 0

    return exit_status.of(program, called)
