"""A Prefect server as `prefect server start` runs it, with its scheduler and its own home."""

import os
import signal
import socket
import sys
from contextlib import contextmanager

import httpx

from tapeline.orchestration.stages.child import Child


@contextmanager
def running(home):
    """Yield a client of a server whose database is in `home`."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {"PREFECT_HOME": str(home), "PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1"}
    command = [sys.executable, "-m", "prefect", "server", "start", "--port", str(port)]
    with (
        (home / "log").open("wb") as log,
        Child(command, cwd=home, env={**os.environ, **settings}, output=log, at_our_death=signal.SIGKILL, grace=5),
        httpx.Client(base_url=f"http://127.0.0.1:{port}/api", timeout=60, trust_env=False) as client,
    ):
        yield client
