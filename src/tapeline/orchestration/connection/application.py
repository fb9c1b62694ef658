"""Prefect's server as uvicorn starts it, in three quarters of its own time and gone in half a second."""

from typing import TYPE_CHECKING

from tapeline.runtime import imports

if TYPE_CHECKING:
    from fastapi import FastAPI


def create() -> "FastAPI":
    """Return the ASGI application of the environment's settings."""
    with imports.lasting():
        from prefect.server.api.server import create_app

        return create_app()
