"""Fork a process that has imported libraries, and let the child pass for a program that was started.

Standard library only: flows import this, and import no TensorFlow.
"""

import atexit
import ctypes
import gc
import os
import re
import runpy
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

NURSERY = "TAPELINE_NURSERY"
"""The environment variable with the number of a socket to a `runtime.nursery`, the process it is for, and its own."""

FRESH = "TAPELINE_FRESH"
"""The environment variable with the id of a process that has imported TensorFlow in this way and run no operation."""

PADDING = " " * 1024
"""An argument of the process that is forked: room for the name of what becomes of the child."""

_IMPORTED = "set_by_imports"
"""An attribute of `os.environ`: modules of Tapeline's are forgotten in between."""

UNSAID = 120
"""Python's exit status where all went well but what was printed is lost."""


def fork() -> int:
    """Fork. Python warns of threads; those that an import has started, of linear algebra, survive it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def first_environment() -> dict[str, str]:
    """Return the environment that this process was started with, or the process that it is a fork of."""
    content = os.fsdecode(Path("/proc/self/environ").read_bytes())
    pairs = (entry.partition("=") for entry in content.split("\0") if "=" in entry)
    return {name: value for name, _, value in pairs}


def restore_environment(kept: Collection[str]) -> None:
    """Set the variables back that imports have set, but those that are `kept`: what is started may lack these imports.

    `set_by_imports` returns them afterwards, also to another copy of this module.
    """
    first = first_environment()
    found = {name: value for name, value in os.environ.items() if name not in kept and first.get(name) != value}
    for name in found:
        if name in first:
            os.environ[name] = first[name]
        else:
            del os.environ[name]
    vars(os.environ)[_IMPORTED] = found


def set_by_imports() -> dict[str, str]:
    """Return the variables that `restore_environment` has set back, with what the imports have set."""
    return dict(getattr(os.environ, _IMPORTED, {}))


def filled(arguments: Sequence[str], descriptors: Sequence[int]) -> list[str]:
    """Return the arguments with the number of a descriptor for each that is `{0}`, `{1}` and so on."""
    places = [re.fullmatch(r"\{(\d)\}", argument) for argument in arguments]
    return [str(descriptors[int(m[1])]) if m else argument for m, argument in zip(places, arguments, strict=True)]


def forget() -> None:
    """Forget Tapeline's modules: a program imports its own, which may be of another checkout."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "tapeline"]:
        del sys.modules[name]


def become(command: Sequence[str]) -> None:
    """Draw other random numbers, and call this process by another name, which `ps` shows."""
    if generator := sys.modules.get("random"):
        generator.seed()
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()
    _rename(" ".join(command))
    gc.enable()


def finish(program: Callable[[], object], *, cleanly: bool = True) -> NoReturn:
    """Run a program and end this process as Python does: threads, functions of `atexit`, output and exit status.

    But leave the memory to the kernel: to free the objects of TensorFlow and DVC one by one takes 0.2 s.
    cleanly: False leaves out threads and `atexit`, which are the caller's.
    """
    status = 1
    try:
        status = _status(program)
        if cleanly:
            threading._shutdown()  # type: ignore[attr-defined]  # what Python itself calls
            atexit._run_exitfuncs()
    finally:
        _end(status)


def alone(file: Path, *, seeing: Sequence[str] = ()) -> NoReturn:
    """Run a file in this process as `python -I FILE` would: no module of Tapeline's or of the project's can be found.

    seeing: folders of `PYTHONPATH` that have dependencies. Ends the process, with what the caller has open or would
    still do left alone: call it in a fork.
    """

    def program() -> None:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        forget()
        become([sys.executable, "-I", str(file)])
        _hide_project(but=seeing)
        sys.argv[:] = [str(file)]
        runpy.run_path(str(file), run_name="__main__")

    finish(program, cleanly=False)


def _status(program: Callable[[], object]) -> int:
    """Run a program, and return the exit status; negative for an interrupt, as `subprocess` has it."""
    try:
        program()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 0xFF
        print(end.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        traceback.print_exc()
        return -signal.SIGINT
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _end(status: int) -> NoReturn:
    for file in (sys.stdout, sys.stderr):
        try:
            if file is not None and not file.closed:
                file.flush()
        except (OSError, ValueError):
            status = status or UNSAID
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def _hide_project(*, but: Sequence[str]) -> None:
    """Forget the folders of PYTHONPATH, of the program and of the caller, and the modules that came from there."""
    given = {"", str(Path.cwd()), str(Path(sys.argv[0]).parent), *os.environ.get("PYTHONPATH", "").split(os.pathsep)}
    given -= {path for path in given if str(Path(path).absolute()) in but}
    sys.path[:] = [path for path in sys.path if path not in given]
    folders = tuple(os.path.join(path, "") for path in given if path)  # noqa: PTH118 - with a slash at its end
    libraries = tuple(os.path.join(path, "") for path in sys.path)  # noqa: PTH118 - the same
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        if file.startswith(folders) and not file.startswith(libraries):
            del sys.modules[name]
    sys.modules["tapeline"] = None  # type: ignore[assignment]  # importing it fails, although it is installed


def _rename(name: str) -> None:
    """Write a name over the command line that the kernel has for this process; PADDING makes room for it.

    The kernel ends it at the first zero if the last byte is none (`proc_pid_cmdline_read`).
    """
    with suppress(OSError, ValueError, IndexError):
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        first, end = int(fields[45]), int(fields[46])
        content = name.encode()[: end - first - 2]
        ctypes.memmove(first, content.ljust(end - first - 1, b"\0") + b".", end - first)
