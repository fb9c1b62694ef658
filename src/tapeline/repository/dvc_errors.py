"""DVC's refusals as one line. It uses what its files say before it checks it: an altered one can fail as any code."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tapeline.config.project import PARAMS
from tapeline.parsing import yaml_text
from tapeline.repository.dvc_lock import LOCK
from tapeline.runtime import files
from tapeline.runtime.errors import InputError, RunError, TapelineError

READ = ("dvc.yaml", LOCK, PARAMS)


def check_files(folder: Path) -> None:
    """Read what DVC will read in a project's folder. Raises `InputError` for what is no YAML, or would be gigabytes."""
    for name in READ:
        if (folder / name).exists():
            try:
                yaml_text.parsed(files.read_bytes(folder / name))
            except yaml_text.NotYaml as error:
                raise InputError(f"{name}{error.where}: not YAML: {error}") from None


def check_dependencies(stages: Iterable[Any]) -> None:
    """Check what DVC would hash of some of its stages. Raises `InputError` for a FIFO, for which it waits for ever."""
    for path in dict.fromkeys(dep.fspath for stage in stages for dep in stage.deps if dep.protocol == "local"):
        files.check_tree(Path(path))


@contextmanager
def in_one_line(kind: type[TapelineError] = RunError, *, busy: type[Exception] | None = None) -> Iterator[None]:
    """Make an error of ours, of this kind, of whatever DVC raises; what the disk says goes through.

    busy: what to make of its word that another process is at work, when that is something else.
    """
    from dvc.exceptions import DvcException
    from dvc.lock import LockError

    try:
        yield
    except TapelineError:
        raise
    except LockError as error:
        raise (busy or kind)(first_lines(str(error)) if busy else f"DVC: {first_lines(str(error))}") from None
    except DvcException as error:
        raise kind(f"DVC: {first_lines(str(error))}") from None
    except OSError as error:
        if error.errno in files.DISK_ERRORS:
            raise
        raise kind(f"DVC: {first_lines(str(error))}") from None
    except Exception as error:
        reason = f"{type(error).__name__}: {first_lines(str(error))}"
        raise InputError(f"DVC cannot work with its files here ({reason}): look at {', '.join(READ)}") from None


def first_lines(message: str) -> str:
    """Return the first paragraph of one of DVC's messages as one line."""
    return " ".join(line.strip() for line in message.strip().split("\n\n")[0].splitlines())
