"""Run with an interpreter that has the dependencies, and with this code.

`dvc repro` without an activated environment finds the system's `python`. A hash seed that is another in each process
gives sets another order, and a locale that is not of UTF-8 gives files other names. Standard library only.
"""

import importlib.util
import os
import site
import sys
import sysconfig
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]

HASH_SEED = {"PYTHONHASHSEED": "0"}
"""The environment variable that gives a set of texts the same order in each process."""
UTF8 = {"PYTHONUTF8": "1"}
"""The one that makes files' names, and texts, UTF-8 in any locale: classes of images are named by their folders."""


def use_project_interpreter() -> None:
    """Replace this process with the checkout's `.venv` interpreter if this one lacks the dependencies.

    Exits with status 2 and one line if there is no such environment either.
    """
    if importlib.util.find_spec("pydantic") and importlib.util.find_spec("dvc"):
        return
    python = SOURCE.parent / ".venv" / "bin" / "python"
    if not python.exists() or Path(sys.prefix) == python.parents[1]:
        sys.exit(_refuse(f"{sys.executable} has none of tapeline's dependencies, and there is no {python}: run `make`"))
    os.execv(python, [str(python), "-m", "tapeline", *sys.argv[1:]])


def is_fork() -> bool:
    """Return whether this process is a fork of one that has imported TensorFlow (`runtime.nursery`)."""
    return "tapeline.runtime.nursery" in sys.orig_argv


def begin_anew() -> None:
    """Start this command again in an interpreter of its own, which is not a fork."""
    os.execv(sys.executable, [sys.executable, "-P", "-m", "tapeline", *sys.argv[1:]])


def fix_interpreter(*, computing: bool) -> None:
    """Start this command again with `UTF8` in a locale with another encoding; the process stays the same.

    computing: also with `HASH_SEED`, if Python was started without. Exits with status 2 and one line if Python is told
    to ignore them.
    """
    needed = HASH_SEED if computing and sys.flags.hash_randomization else {}
    if sys.getfilesystemencoding() != "utf-8":
        needed = needed | UTF8
    if not needed:
        return
    if os.environ.items() >= needed.items():
        what = "file names must be UTF-8" if "PYTHONUTF8" in needed else "the order of sets must be the same each time"
        sys.exit(_refuse(f"{what}: start Python without -I, -E, -R and -X utf8=0"))
    os.environ.update(needed)
    if is_fork():
        begin_anew()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def with_this_code() -> dict[str, str]:
    """Return the environment variables that make a Python process import this `tapeline`, whatever is installed."""
    if Path(sysconfig.get_path("purelib")) == SOURCE:
        return {}  # this code is the installed one
    path = os.environ.get("PYTHONPATH", "")
    if path.split(os.pathsep)[0] == str(SOURCE):
        return {"PYTHONPATH": path}
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(SOURCE), path]))}


def packages() -> tuple[str, ...]:
    """Return the folders of NumPy and TensorFlow that an isolated interpreter does not look into.

    Those are where `pip install --user` puts packages, and the folders of `PYTHONPATH`.
    """
    user = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    hidden = {str(Path(path).absolute()) for path in (*user, *os.environ.get("PYTHONPATH", "").split(os.pathsep))}
    specs = (PathFinder.find_spec(name) for name in ("tensorflow", "numpy"))
    found = (str(Path(spec.origin).absolute().parents[1]) for spec in specs if spec and spec.origin)
    return tuple(dict.fromkeys(folder for folder in found if folder in hidden))


_SEEING = """import runpy, sys
folders, file = sys.argv[1].split(":"), sys.argv[2]
del sys.argv[:2]
first = next((place for place, path in enumerate(sys.path) if path.endswith("-packages")), len(sys.path))
sys.path[first:first] = folders
runpy.run_path(file, run_name="__main__")"""
"""Runs a file as Python does, with folders before those of the installed packages, where they were found first."""


def isolated(file: str, *arguments: str, options: Sequence[str] = ("-I",)) -> list[str]:
    """Return the command that runs a file apart from the environment and the user, but with the same dependencies."""
    folders = packages()
    program = ("-c", _SEEING, os.pathsep.join(folders), file) if folders else (file,)
    return [sys.executable, *options, *program, *arguments]


def _refuse(message: str) -> int:
    print(f"tapeline: {message}", file=sys.stderr)
    return 2
