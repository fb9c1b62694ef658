"""DVC's errors as one line. DVC uses its files before it validates them: an altered one may raise any exception."""

import errno
import itertools
import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tapeline.config.project import DVC_YAML, PARAMS
from tapeline.parsing import yaml_text
from tapeline.repository.dvc_lock import LOCK, check_merged
from tapeline.runtime import files
from tapeline.runtime.errors import InputError, RunError, TapelineError

if TYPE_CHECKING:
    from tapeline.repository.dvc.stage import Stage

READ = (DVC_YAML, LOCK, PARAMS)
ERROR = "ERROR: "
OTHERS = re.compile(r"unable to read: '\.\./")
"""What DVC says of a file of another folder in the same repository, which it reads too."""
IGNORE = "have it mended, or add its folder to .dvcignore beside .dvc"
NO_REPOSITORY = "is not a git repository"
ADVICE = re.compile(r"Is your cache up to date|<?https?://|Having any troubles")


def check_files(folder: Path) -> None:
    """Read the files that DVC will read in a project's folder.

    Raises `InputError` for invalid or oversized YAML, and for a lock with a merge conflict.
    """
    for name in READ:
        if (folder / name).exists():
            content = files.read_bytes(folder / name)
            if name == LOCK:
                check_merged(content)
            try:
                yaml_text.parsed(content)
            except yaml_text.NotYaml as error:
                raise InputError(f"{name}{error.where}: not YAML: {error}") from None


def check_dependencies(stages: "Iterable[Stage]") -> None:
    """Check the dependencies that DVC would hash. Raises `InputError` for a FIFO, for which DVC waits forever."""
    for path in dict.fromkeys(path for stage in stages for path in stage.dependencies):
        files.check_tree(path)


@contextmanager
def in_one_line(kind: type[TapelineError] = RunError, *, busy: type[Exception] | None = None) -> Iterator[None]:
    """Convert any exception of DVC to a `TapelineError` of type `kind`; disk errors pass through.

    busy: the exception to raise instead if another process holds DVC's lock.
    """
    from tapeline.repository.dvc.exceptions import DvcException, LockError

    try:
        yield
    except TapelineError:
        raise
    except LockError as error:
        raise (busy or kind)(first_lines(str(error)) if busy else f"DVC: {first_lines(str(error))}") from None
    except DvcException as error:
        said = first_lines(str(error))
        if said.endswith(NO_REPOSITORY):
            raise InputError(
                f"{said.removesuffix(NO_REPOSITORY)}is in no Git repository: `git init` makes one"
            ) from None
        elsewhere = OTHERS.match(said)
        raise kind(f"DVC: {said}{f'; {IGNORE}' if elsewhere else ''}") from None
    except OSError as error:
        if error.errno in files.DISK_ERRORS:
            raise
        if error.errno == errno.ENOENT and error.filename and (link := Path(error.filename)).is_symlink():
            what = f"{link} is a link to {link.readlink()}, which is gone from DVC's cache"
            raise kind(f"{what}: `dvc fetch` brings the file back, or `dvc repro` makes it again") from None
        raise kind(f"DVC: {first_lines(str(error))}") from None
    except sqlite3.OperationalError as error:  # in DVC's own database, next to the project or to the user's caches
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
            raise RunError("DVC: no space left on the disk: free some and run again") from None
        raise kind(f"DVC's database: {error}") from None
    except Exception as error:
        reason = f"{type(error).__name__}: {first_lines(str(error))}"
        raise InputError(f"DVC cannot use its files here ({reason}): check {', '.join(READ)}") from None


def first_lines(message: str) -> str:
    """Return the first paragraph of a DVC message as one line, without repetition: DVC lists a process for each file.

    >>> first_lines("'x' is busy, it is being blocked by:\\n  (PID 7): dvc repro\\n  (PID 7): dvc repro\\n\\nAdvice")
    "'x' is busy, it is being blocked by: (PID 7): dvc repro"
    """
    return " ".join(dict.fromkeys(line.strip() for line in message.strip().split("\n\n")[0].splitlines()))


def error_line(output: str) -> str:
    """Return what went wrong, in one line, from a DVC command's output: its first error, without the advice.

    >>> error_line("ERROR: failed to pull data\\nIs your cache up to date?\\n<https://error.dvc.org/missing-files>")
    'failed to pull data'
    """
    lines = [line.strip() for line in output.strip().splitlines()]
    at = next((index for index, line in enumerate(lines) if line.startswith(ERROR)), len(lines) - 1)
    said = itertools.takewhile(lambda line: line and not ADVICE.match(line), lines[max(at, 0) :])
    return " ".join(said).removeprefix(ERROR) or "it failed without output"
