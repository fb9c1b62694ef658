"""Connect a flow to a Prefect server: the configured one or that of `tapeline serve`, else a temporary one.

with prefect_api(project, say=print) as connect:
    from tapeline.orchestration.flows.promotion import promotion     # while the server starts
    connect()                               # whatever was imported until here stays
    promotion("digits", "prod")
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from tapeline.config.project import Project
from tapeline.orchestration.connection import discovery, log
from tapeline.orchestration.connection.failures import in_a_line
from tapeline.orchestration.connection.server import LocalServer
from tapeline.runtime import imports


@contextmanager
def prefect_api(project: Project, *, say: Callable[[str], None]) -> Iterator[Callable[[], None]]:
    """Yield a function that connects Prefect to a server, and stop the server afterwards if it is a temporary one.

    The function raises `RunError` if the server did not start, the block if it does not answer.
    """
    with ExitStack() as importing:
        importing.enter_context(imports.lasting())
        if url := discovery.server(project):
            with discovery.used(project, url):
                yield importing.close
            return
        with LocalServer(project.shared, say=say) as server:
            connected = False

            def connect() -> None:
                nonlocal connected
                importing.close()
                _connect(server.ready(), server.auth)
                connected = True

            try:
                with in_a_line():
                    yield connect
            finally:
                if connected:
                    _send_the_rest()


def _connect(url: str, auth: str) -> None:
    from prefect.context import refresh_global_settings_context

    discovery.use(url, auth)
    log.drop_address()
    log.drop_remaining()
    refresh_global_settings_context()


def _send_the_rest() -> None:
    """Wait for the threads that send states and log lines: they would outlive the server."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    EventsWorker.drain_all(timeout=5)
    APILogWorker.drain_all(timeout=5)
