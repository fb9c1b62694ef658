"""Connect a flow to a Prefect server: the configured one, else a temporary one.

with prefect_api(project, say=print) as connect:
    from tapeline.orchestration.flows.training import training     # while the server starts
    connect()                               # whatever was imported until here stays
    training("digits")
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from tapeline.config.project import Project
from tapeline.orchestration.connection import log
from tapeline.orchestration.connection.server import LOOPBACK, LocalServer
from tapeline.runtime import imports

API = "PREFECT_API_URL"


@contextmanager
def prefect_api(project: Project, *, say: Callable[[str], None]) -> Iterator[Callable[[], None]]:
    """Yield a function that connects Prefect to a server, and stop the server afterwards if it is a temporary one.

    A server can be configured in the environment, a profile or one of Prefect's files, and only Prefect can read
    all of these. So unless the environment names a server, a temporary one is started before Prefect is asked.
    The function raises `RunError` if the server did not start.
    """
    with ExitStack() as importing:
        importing.enter_context(imports.lasting())
        if os.environ.get(API):
            yield importing.close
            return
        with LocalServer(project.shared, say=say) as server:

            def connect() -> None:
                importing.close()
                _connect(server)

            try:
                yield connect
            finally:
                if os.environ.get(API):
                    _send_the_rest()


def _connect(server: LocalServer) -> None:
    from prefect.context import refresh_global_settings_context
    from prefect.settings import get_current_settings

    if get_current_settings().api.url:
        return
    os.environ[API] = server.ready()
    for name in ("NO_PROXY", "no_proxy"):
        os.environ[name] = ",".join(filter(None, [os.environ.get(name), LOOPBACK]))
    log.drop_address()
    log.drop_remaining()
    refresh_global_settings_context()


def _send_the_rest() -> None:
    """Wait for the threads that send states and log lines: they would outlive the server."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    EventsWorker.drain_all(timeout=5)
    APILogWorker.drain_all(timeout=5)
