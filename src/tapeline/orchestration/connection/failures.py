"""Say in a line what is wrong with a Prefect server, or with the user's settings of Prefect.

with in_a_line():
    training(...)         # raises `RunError` for a server that is away, refuses the password or has lost the run

Prefect raises errors of several libraries, those of its settings as soon as it is imported.
"""

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from json import JSONDecodeError

from pydantic import ValidationError

from tapeline.orchestration.connection.credentials import CLIENT
from tapeline.runtime.errors import InputError, RunError, TapelineError

UNREACHABLE = "Failed to reach API"
"""How Prefect's error for a server that does not answer begins."""

GONE = "the run was deleted on the Prefect server; run again to resume"

SETTINGS = "Settings"
"""How the names of Prefect's classes for its settings end."""

API = "PREFECT_API_URL"
"""The variable with the address of the server."""

ADDRESS = f"set {API} to the address of its API, such as http://HOST:4200/api"


@contextmanager
def in_a_line() -> Iterator[None]:
    """Raise `InputError` for a mistake in Prefect's settings, `RunError` for what a server keeps from being done."""
    try:
        yield
    except TapelineError:
        raise
    except Exception as error:
        if said := mistake(error):
            raise InputError(said) from None
        if said := told(error):
            raise RunError(said) from None
        raise


def mistake(error: Exception) -> str:
    """Return what is wrong with the user's settings of Prefect or with an argument; nothing for another error."""
    if isinstance(error, ValidationError) and error.title.endswith(SETTINGS):
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        return f"Prefect's {error.title}: {place} is {first['input']!r}: {first['msg']}"
    if isinstance(error, tomllib.TOMLDecodeError):
        return f"Prefect's settings: profiles.toml, prefect.toml or pyproject.toml is not TOML: {error}"
    if isinstance(error, UnicodeEncodeError):
        wrong = error.object[error.start : error.end]
        return f"an argument has {wrong!r}, which is no text: a Prefect server takes UTF-8 only"
    return ""


def told(error: Exception) -> str:
    """Return what is wrong with the server, and the remedy; nothing for an error that is no server's."""
    import httpx  # here, as what follows: a run without a server needs neither
    from prefect.exceptions import ObjectNotFound

    if isinstance(error, RuntimeError) and str(error).startswith(UNREACHABLE):
        return (
            f"{error}: start that server; if it runs, {ADDRESS}; to run without one, unset {API}, and stop a "
            "`tapeline serve` that uses it"
        )
    if isinstance(error, JSONDecodeError) and error.doc.lstrip().startswith("<"):
        return f"the Prefect server answers with a web page: {ADDRESS}, and see whether a proxy asks for a login"
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
        return f"rejects the password: set {CLIENT} to the one it was started with"
    if response := getattr(error, "response", None):
        if response.status_code == HTTPStatus.NOT_FOUND:
            return f"answers with 404 Not Found: {ADDRESS}"
        return f"answers with an error, {response.status_code} {response.reason_phrase}: look at its disk and database"
    return f"does not answer: {type(error).__name__}"


def is_refused(error: Exception) -> bool:
    """Return whether a server wants another password."""
    return getattr(getattr(error, "response", None), "status_code", None) == HTTPStatus.UNAUTHORIZED
