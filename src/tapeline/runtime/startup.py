"""Importing TensorFlow in half of its time, and without its greetings.

A third of a plain import goes into Keras' wrappers for scikit-learn and its picture galleries, which import
scikit-learn, SciPy's statistics and matplotlib where these are installed; they load when they are used. A quarter goes
into looking for garbage where there is none. The greetings tell of drivers that a machine without a GPU lacks.
"""

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from tapeline.runtime import imports
from tapeline.runtime.errors import InputError

_RARE = frozenset(
    f"{package}.{part}"
    for package in ("keras", "keras.src", "keras._tf_keras.keras")
    for part in ("visualization", "wrappers")
)
_GREETINGS = (
    b"All log messages before absl::InitializeLog()",
    b"oneDNN custom operations are on",
    b"Could not find cuda drivers",
    b"failed call to cuInit",
    b"This TensorFlow binary is optimized to use available CPU instructions",
    b"To enable the following instructions",
    b"Ignored output_format.",  # LiteRT's converter, of settings that nobody has made
    b"Ignored drop_control_dependency.",
    b"INFO: Created TensorFlow Lite XNNPACK delegate for CPU",
)


@contextmanager
def quietly() -> Iterator[None]:
    """Hold back the process's standard error, then pass on what is not a greeting; all of it after a failure.

    A process that dies in here, by whatever signal, leaves what was held to a shell that has waited for its end.
    Where standard error is closed or no shell can be started, nothing is held back.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    try:
        original = os.dup(2)
    except OSError:  # closed: nobody could read anything
        yield
        return
    if sys.stderr is not None:
        sys.stderr.flush()
    with tempfile.NamedTemporaryFile() as held, ExitStack() as stack:
        try:
            stack.enter_context(_passed_on_at_death(Path(held.name)))
        except OSError:
            os.close(original)
            original = -1
        if original < 0:
            yield
            return
        os.dup2(held.fileno(), 2)
        failed = True
        try:
            yield
            failed = False
        finally:
            if sys.stderr is not None:
                sys.stderr.flush()
            os.dup2(original, 2)
            os.close(original)
            held.seek(0)
            for line in held:
                if failed or not any(greeting in line for greeting in _GREETINGS):
                    _write_all(2, line)


_SHELL = "/bin/sh"
_AT_DEATH = """trap '' HUP INT TERM
(read -r alive || cat <&3 >&2) <&4 4<&- &"""
"""A background process, so that it is nobody's child and what kills this one's children does not reach it."""


@contextmanager
def _passed_on_at_death(path: Path) -> Iterator[None]:
    """Have the file written to standard error if this process ends inside; a pipe that closes without a word says so.

    Starting the shell costs a millisecond or two.
    """
    reader, writer = os.pipe()
    program = f"exec 4<&0 3<&1 0<&- 1>&-\n{_AT_DEATH}"  # dash knows descriptors of one digit alone
    try:
        with path.open("rb") as again:  # with a position of its own
            shell = subprocess.Popen([_SHELL, "-c", program], stdin=reader, stdout=again)
    except OSError:
        os.close(writer)
        raise
    finally:
        os.close(reader)
    try:
        yield
    finally:
        with suppress(BrokenPipeError):  # somebody has killed the shell
            os.write(writer, b"alive\n")
        os.close(writer)
        shell.wait()


def _write_all(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]


class _Later(Loader):
    """Loads a module when somebody asks for something in it; another thread that asks meanwhile waits."""

    def __init__(self, loader: Loader) -> None:
        self._loader, self._lock, self._begun = loader, threading.RLock(), False

    def exec_module(self, module: ModuleType) -> None:
        contents = vars(module)

        def found(name: str) -> Any:
            with self._lock:
                if not self._begun:
                    self._load(module)
            if name in contents:
                return contents[name]
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

        contents["__getattr__"] = found

    def _load(self, module: ModuleType) -> None:
        self._begun = True
        try:
            self._loader.exec_module(module)
        except BaseException:
            self._begun = False  # whoever asks next hears the same
            raise


class _RareModules:
    """Finds what Keras imports and hardly anybody uses."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name in _RARE else None
        if spec and spec.loader:
            spec.loader = _Later(spec.loader)
        return spec


@contextmanager
def _rare_modules_later() -> Iterator[None]:
    sys.meta_path.insert(0, _RareModules)
    try:
        yield
    finally:
        sys.meta_path.remove(_RareModules)


def tensorflow(replicas: int = 1) -> None:
    """Import TensorFlow and look for devices, which is when it greets.

    replicas: as `train.replicas`; of two or more each has a core. Raises `InputError` where TensorFlow has begun
    with other threads, which it cannot change.
    """
    with quietly(), imports.lasting(), _rare_modules_later():
        import tensorflow as tf

        if replicas > 1:
            _one_core_an_operation(tf.config.threading, replicas)
        tf.config.list_physical_devices()
        tf.constant(0)


def _one_core_an_operation(threading: Any, replicas: int) -> None:
    try:
        threading.set_intra_op_parallelism_threads(1)
        threading.set_inter_op_parallelism_threads(replicas)
    except RuntimeError:
        raise InputError(
            f"train.replicas is {replicas}: TensorFlow has begun with other threads, so train in a process of its own"
        ) from None
