"""Say in a line what is wrong with a Prefect server: its client raises errors of several libraries.

with in_a_line():
    training(...)         # raises `RunError` for a server that is away, refuses the password or has lost the run
"""

from collections.abc import Iterator
from contextlib import contextmanager

from tapeline.orchestration.connection.credentials import CLIENT
from tapeline.runtime.errors import RunError

UNREACHABLE = "Failed to reach API"
"""How Prefect's error for a server that does not answer begins."""

GONE = "the run is not on the Prefect server any more: somebody has deleted it; run again to resume"

UNAUTHORIZED = 401

API = "PREFECT_API_URL"
"""The variable with the address of the server."""


@contextmanager
def in_a_line() -> Iterator[None]:
    """Raise `RunError` for what a server, or the lack of one, keeps from being done."""
    try:
        yield
    except Exception as error:
        if said := told(error):
            raise RunError(said) from None
        raise


def told(error: Exception) -> str:
    """Return what is wrong with the server, and the remedy; nothing for an error that is no server's."""
    import httpx  # here, as what follows: a run without a server needs neither
    from prefect.exceptions import ObjectNotFound

    if isinstance(error, RuntimeError) and str(error).startswith(UNREACHABLE):
        return f"{error}: start that server, or unset {API} to do without one"
    if isinstance(error, ObjectNotFound):
        return GONE
    if not isinstance(error, httpx.HTTPError):
        return ""
    if isinstance(error, httpx.HTTPStatusError) and not is_refused(error):
        return f"the Prefect server does not answer as expected: {str(error).splitlines()[0]}"
    return f"the Prefect server {fault(error)}" + ("" if is_refused(error) else "; run again to resume")


def fault(error: Exception) -> str:
    """Return what a server does that raised an error of httpx.

    >>> fault(TimeoutError())
    'does not answer: TimeoutError'
    """
    if is_refused(error):
        return f"refuses the password: set {CLIENT} to the one that it was started with"
    return f"does not answer: {type(error).__name__}"


def is_refused(error: Exception) -> bool:
    """Return whether a server wants another password."""
    return getattr(getattr(error, "response", None), "status_code", None) == UNAUTHORIZED
