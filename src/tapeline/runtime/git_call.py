"""Call Git without hooks, prompts, replaced objects or variables that point to another repository: SECURITY.md."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tapeline.runtime import leash
from tapeline.runtime.errors import InputError, RunError

NO_QUESTIONS = {"GIT_TERMINAL_PROMPT": "0", "GIT_SSH_COMMAND": "ssh -oBatchMode=yes", "GIT_OPTIONAL_LOCKS": "0"}
"""A scheduled run has nobody to answer prompts."""

LONG = {"checkout", "clone", "fetch", "pull", "push", "worktree add"}
"""What may wait for a network, or write many files: it ends with this process, which costs an interpreter's start."""

READABLE = {"LC_ALL": "C", "GIT_NO_REPLACE_OBJECTS": "1"}
"""Git's messages are parsed here, and the user's locale may translate them; an object is what its id says."""

OFF = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "commit.gpgSign=false")
"""No hook, no program that says which files changed, and no signature that nobody asked for: SECURITY.md."""


def called(
    folder: Path, *arguments: str, timeout: float | None = None, given: bytes = b""
) -> "subprocess.CompletedProcess[bytes]":
    """Return how Git answers in a folder, whatever its status. given: what it reads; timeout: in seconds.

    Raises `InputError` if there is no Git, `RunError` if it cannot be started there or takes longer.
    """
    command, environment = ["git", *OFF, *arguments], _environment()
    if verb(arguments) == "tag":  # whose date says what is live
        environment.pop("GIT_COMMITTER_DATE", None)
    try:
        if verb(arguments) in LONG or " ".join(arguments[:2]) in LONG:
            return leash.run(command, cwd=folder, env=environment, given=given, timeout=timeout)
        return subprocess.run(
            command, cwd=folder, env=environment, input=given, capture_output=True, timeout=timeout, check=False
        )
    except OSError as error:
        if error.filename == "git":
            raise InputError("there is no git on the PATH: install Git") from None
        raise RunError(f"git cannot be called in {folder}: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise RunError(f"git {verb(arguments)}: did not finish within {timeout:g} s") from None


def verb(arguments: Sequence[str]) -> str:
    """Return which of Git's commands it is, for messages."""
    return next((word for word in arguments if not word.startswith(("-", "user.", "core."))), "")


def _environment() -> dict[str, str]:
    """Return this environment without the variables that a Git hook sets for its own repository."""
    foreign = {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_PREFIX"}
    return NO_QUESTIONS | {name: value for name, value in os.environ.items() if name not in foreign} | READABLE
