"""Prefect's server as uvicorn starts it: starts in three quarters of the usual time and stops in half a second.

Its files are for its user alone, and a `Guard` stands before it. Prefect's own calls within the process pass by that.
"""

import os

from tapeline.orchestration.connection.guard import App, Guard
from tapeline.runtime import imports

ORIGINS = "PREFECT_SERVER_API_CORS_ALLOWED_ORIGINS"
"""Prefect's variable with the origins whose pages may use the server, with commas between them."""


def create() -> App:
    """Return the ASGI application configured by the environment."""
    os.umask(0o077)  # the database holds parameters and logs, SQLite's own files beside it too
    with imports.lasting():
        from prefect.server.api.server import create_app

        return Guard(create_app(), origins=os.environ[ORIGINS].split(","))
