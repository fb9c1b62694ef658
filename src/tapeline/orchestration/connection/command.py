"""What a command that talks to a Prefect server has in common with others: the client, and how it ends."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from tapeline.orchestration.connection.failures import API, in_a_line
from tapeline.runtime import exit_status
from tapeline.runtime.errors import InputError

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient


def status(program: str, act: Callable[[], object]) -> int:
    """Call `act` and return the exit status. An expected error, or one of the server, becomes one line."""

    def called() -> int:
        with in_a_line():
            act()
        return 0

    return exit_status.of(program, called)


def client(advice: str = "") -> "SyncPrefectClient":
    """Return a client of the configured server. Raises `InputError`, with the advice, if none is."""
    from prefect.client.orchestration import get_client
    from prefect.settings import get_current_settings

    if not get_current_settings().api.url:
        raise InputError(f"no Prefect server is configured: set {API}{advice}")
    return get_client(sync_client=True)
