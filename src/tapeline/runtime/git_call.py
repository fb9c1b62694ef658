"""Call Git without hooks, prompts, replaced objects or variables that point to another repository: SECURITY.md."""

import errno
import os
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from tapeline.runtime import leash
from tapeline.runtime.errors import InputError, RunError

NO_QUESTIONS = {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
"""A scheduled run has nobody to answer prompts."""

SSH = "ssh -oBatchMode=yes"
"""As which Git calls `ssh` if this user has named no other program."""

LONG = {"checkout", "clone", "fetch", "ls-remote", "pull", "push", "worktree add"}
"""What may wait for a network, or write many files: it ends with this process, which costs an interpreter's start."""

READABLE = {"LC_ALL": "C", "GIT_NO_REPLACE_OBJECTS": "1"}
"""Git's messages are parsed here, and the user's locale may translate them; an object is what its id says."""

OFF = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "commit.gpgSign=false")
"""No hook, no program that says which files changed, and no signature that nobody asked for: SECURITY.md."""

PLAIN = ("-c", "log.showSignature=false", "-c", "trailer.separators=:")
"""A log that is parsed here says nothing else, and the trailers of a run's commit are found."""

FOREIGN = frozenset(
    f"GIT_{name}"
    for name in (
        *("DIR", "WORK_TREE", "IMPLICIT_WORK_TREE", "COMMON_DIR", "INDEX_FILE", "PREFIX", "INTERNAL_SUPER_PREFIX"),
        *("OBJECT_DIRECTORY", "ALTERNATE_OBJECT_DIRECTORIES", "SHALLOW_FILE", "GRAFT_FILE", "NAMESPACE"),
        *("LITERAL_PATHSPECS", "GLOB_PATHSPECS", "NOGLOB_PATHSPECS", "ICASE_PATHSPECS"),
    )
)
"""What a Git hook inherits for its own repository and command: another one, or another meaning of paths."""


def called(
    folder: Path, *arguments: str, timeout: float | None = None, given: bytes = b""
) -> "subprocess.CompletedProcess[bytes]":
    """Return how Git answers in a folder, whatever its status. given: what it reads; timeout: in seconds.

    Raises `InputError` if there is no Git, `RunError` if it cannot be started there or takes longer.
    """
    command, environment, words = ["git", *OFF, *PLAIN, *arguments], _environment(), _words(arguments)
    if words[:1] == ["tag"]:  # whose date says what is live
        environment.pop("GIT_COMMITTER_DATE", None)
    try:
        environment |= _ssh(folder, environment)  # for short ones too: a partial clone fetches what it lacks
        if words[0] in LONG or " ".join(words[:2]) in LONG:
            return leash.run(command, cwd=folder, env=environment, given=given, timeout=timeout)
        return subprocess.run(
            command, cwd=folder, env=environment, input=given, capture_output=True, timeout=timeout, check=False
        )
    except OSError as error:
        if error.filename == "git" and error.errno != errno.E2BIG:
            raise InputError("git is not on the PATH: install Git") from None
        raise RunError(f"git cannot be called in {folder}: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise RunError(f"git {verb(arguments)}: did not finish within {timeout:g} s") from None


def verb(arguments: Sequence[str]) -> str:
    """Return which of Git's commands it is, for messages."""
    return _words(arguments)[0]


def _words(arguments: Sequence[str]) -> list[str]:
    """Return Git's command and what follows it, at least an empty word."""
    words = list(arguments)
    while words and words[0].startswith("-"):
        del words[: 2 if words[0] == "-c" else 1]
    return words or [""]


def _environment() -> dict[str, str]:
    """Return this environment without the variables that a Git hook sets for its own repository."""
    return NO_QUESTIONS | {name: value for name, value in os.environ.items() if name not in FOREIGN} | READABLE


def _ssh(folder: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Return how Git is to call `ssh`: as this user has set it, but not as the repository has, which others may write.

    `GIT_SSH_COMMAND` comes before each of Git's own settings, so these are looked up.
    """
    if environment.keys() & {"GIT_SSH_COMMAND", "GIT_SSH"}:
        return {}
    return {"GIT_SSH_COMMAND": _set_by_user(folder, tuple(environment.get(name) for name in CONFIGURED))}


CONFIGURED = ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
"""Variables that say which files are a user's settings of Git."""


@cache
def _set_by_user(folder: Path, _configured: tuple[str | None, ...]) -> str:
    for place in ("--global", "--system"):
        command = ("git", "config", "--includes", place, "core.sshCommand")
        found = subprocess.run(command, cwd=folder, env=_environment(), capture_output=True, check=False)
        if found.returncode == 0:
            return os.fsdecode(found.stdout).removesuffix("\n")
    return SSH
