"""Which Prefect server a flow talks to: the configured one, else a temporary one."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from flows import log
from flows.server import LOOPBACK, TemporaryServer
from tapeline.project import Project

API = "PREFECT_API_URL"


@contextmanager
def connected(project: Project, *, say: Callable[[str], None]) -> Iterator[None]:
    """Let Prefect, which is imported here, talk to a server; end it afterwards if it is a temporary one.

    A server can be configured in the environment, a profile or one of Prefect's files, which only Prefect can
    tell. Its import takes half as long as a server's start, so both go on at once. Raises `RunError`.
    """
    if os.environ.get(API):
        yield
        return
    with TemporaryServer(project.shared, say=say) as server:
        from prefect.settings import get_current_settings

        if not get_current_settings().api.url:
            with _using(server.ready()):
                yield
            return
    yield


@contextmanager
def _using(url: str) -> Iterator[None]:
    from prefect.context import refresh_global_settings_context
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    os.environ[API] = url
    for name in ("NO_PROXY", "no_proxy"):
        os.environ[name] = ",".join(filter(None, [os.environ.get(name), LOOPBACK]))
    refresh_global_settings_context()
    log.drop_address()
    try:
        yield
    finally:
        # The states of tasks and the last lines are on their way in threads that would end after the server.
        EventsWorker.drain_all(timeout=5)
        APILogWorker.drain_all(timeout=5)
