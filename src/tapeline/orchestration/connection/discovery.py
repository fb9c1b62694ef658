"""Find the Prefect server that runs are shown on, without importing Prefect where there is none.

server(project)              # "http://127.0.0.1:4200/api", or "" if runs are to do without
with serving(project, url, ours=True):  # `tapeline serve`: the project's runs are shown on its server from now on
    ...
"""

import fcntl
import http.client
import os
import sys
import tomllib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tapeline.config.project import Project
from tapeline.orchestration.connection import credentials
from tapeline.orchestration.connection.failures import API, in_a_line
from tapeline.runtime import files, streams
from tapeline.runtime.errors import InputError
from tapeline.runtime.locks import MOMENT, take

LOOPBACK = "127.0.0.1"
HOSTS = (LOOPBACK, "localhost")
"""How the loopback address is written."""

SERVED = Path(credentials.FOLDER) / "served"
"""In the project's shared state: the address of the server that `tapeline serve` uses, locked while it serves.

A second line says that it is Tapeline's own: only that one is told the password of `credentials`.
"""

OURS = "ours"

HANGS = 10.0
"""Seconds after which a server that takes connections, but does not answer, is done without."""


def server(project: Project) -> str:
    """Return the API's address: the environment's, that of `tapeline serve` here, or Prefect's own setting; else ""."""
    return os.environ.get(API) or _answering(*_served(project)) or _configured()


def served(project: Project) -> str:
    """Return the address of the server that a running `tapeline serve` of this project uses; else ""."""
    return _served(project)[0]


def _answering(url: str, ours: bool) -> str:
    """Return the address of a server that `tapeline serve` uses, "" if ours hangs, as a stopped process does; say so.

    Another may be behind a proxy, or need a certificate: Prefect's client knows.
    """
    if not ours:
        return url
    there = urlsplit(url)
    connection = http.client.HTTPConnection(there.hostname or LOOPBACK, there.port, timeout=HANGS)
    with closing(connection):
        try:
            connection.request("GET", f"{there.path}/health")
            connection.getresponse().read()
        except TimeoutError:
            said = f"note: the server of `tapeline serve` at {url} has not answered for {HANGS:g} s: not shown there"
            streams.say(said, sys.stderr)
            return ""
        except (OSError, http.client.HTTPException):  # Prefect's client says what is wrong
            return url
    return url


def auth_for(project: Project, url: str) -> str:
    """Return the password for a server: "" unless it is the one that `tapeline serve` has started here and holds."""
    address, ours = _served(project)
    return credentials.auth(project.shared) if ours and same(url, address) else ""


def same(one: str, other: str) -> bool:
    """Return whether two addresses are the same server's, however the loopback address is written."""
    plain = [url.rstrip("/").lower().replace("//localhost", f"//{LOOPBACK}", 1) for url in (one, other)]
    return plain[0] == plain[1]


@contextmanager
def used(project: Project, url: str) -> Iterator[None]:
    """Let Prefect use a server in the block. Raises `InputError` as `use` does, `RunError` as `failures.in_a_line`."""
    use(url, auth_for(project, url))
    with in_a_line():
        yield


def use(url: str, auth: str = "") -> None:
    """Let Prefect, which must not be imported yet, use a server; a proxy is not asked for the loopback address.

    auth: the password of a server of ours. For any other, what the user has set stays. Raises `InputError` for what is
    no address.
    """
    if not _is_address(url):
        raise InputError(f"{API} is {url!r}: write http://HOST:PORT/api")
    os.environ[API] = url
    if auth:
        os.environ[credentials.CLIENT] = auth
    for name, other in (("NO_PROXY", "no_proxy"), ("no_proxy", "NO_PROXY")):  # urllib reads the second, where it is set
        known = os.environ.get(name, os.environ.get(other, "")).split(",")
        more = () if known == ["*"] else (host for host in HOSTS if host not in known)  # it is all hosts only alone
        os.environ[name] = ",".join(filter(None, [*known, *more]))


def _is_address(url: str) -> bool:
    try:
        there = urlsplit(url)
        return there.scheme in ("http", "https") and bool(there.hostname) and there.port != 0
    except ValueError:  # the port is none
        return False


def use_configured(project: Project) -> None:
    """Let Prefect use, as `use` does, the server that the user has set in the environment or in Prefect's own files."""
    if url := os.environ.get(API) or _configured():
        use(url, auth_for(project, url))


@contextmanager
def serving(project: Project, url: str, *, ours: bool = False) -> Iterator[bool]:
    """Announce a server to the project's runs; the kernel ends this with the process. The first of several counts.

    Yields whether this is the first.

    Raises `InputError` if the project's folder for servers is another user's, and as `files.own` does.
    """
    credentials.private_folder(project.shared)
    with os.fdopen(files.own(project.shared / SERVED, os.O_RDWR | os.O_CREAT), "r+", encoding="utf-8") as file:
        locked = take(file.fileno(), patience=MOMENT)
        if locked:
            file.truncate(0)
            file.write(f"{url}\n{OURS}\n" if ours else f"{url}\n")
            file.flush()
        yield locked


def _served(project: Project) -> tuple[str, bool]:
    """Return the address of the server that is served here, and whether it is ours. Another user's does not count."""
    try:
        with os.fdopen(files.own(project.shared / SERVED, os.O_RDONLY), encoding="utf-8", errors="replace") as file:
            if os.fstat(file.fileno()).st_uid != os.geteuid() or take(file.fileno(), fcntl.LOCK_SH):
                return "", False
            url, _, owner = file.read().strip().partition("\n")
            return url, owner == OURS
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return "", False


def _configured() -> str:
    """Return the address in Prefect's own files. Only Prefect can read them all: it is asked if one may have one.

    Raises `InputError` for what is wrong with them.
    """
    if not any(_mentions_server(path) for path in _files()):
        return ""
    with in_a_line():
        from prefect.settings import get_current_settings

        return get_current_settings().api.url or ""


def _files() -> Iterator[Path]:
    home = os.environ.get("PREFECT_HOME") or "~/.prefect"
    profiles = os.environ.get("PREFECT_PROFILES_PATH") or os.path.join(home, "profiles.toml")  # noqa: PTH118 - below
    yield Path(os.path.expanduser(profiles))  # noqa: PTH111 - that of a Path raises where there is no home
    yield from (Path(".env"), Path("prefect.toml"), Path("pyproject.toml"))


def _mentions_server(path: Path) -> bool:
    """Return whether one of Prefect's files may name a server: a profile counts if it is the active one."""
    if os.environ.get("PREFECT_PROFILE"):
        return True
    try:
        text = files.read_bytes(path).decode("utf-8", errors="replace")
        if path.name == ".env":
            return API in text.upper()
        content = tomllib.loads(text)
    except FileNotFoundError:
        return False
    except (OSError, InputError, tomllib.TOMLDecodeError):
        return True  # Prefect says what is wrong with it
    if path.name == "pyproject.toml":
        return "prefect" in content.get("tool", {})
    if path.name == "prefect.toml":
        return True
    active = content.get("profiles", {}).get(content.get("active", ""), {})
    return API in active
