"""Import TensorFlow in half the time, and without its startup messages.

A third of a plain import goes into Keras' scikit-learn wrappers and visualization modules, which import scikit-learn,
SciPy's statistics and matplotlib where these are installed; here they load on first use. A quarter goes into GC runs
that find nothing. The startup messages are about drivers that a machine without a GPU lacks.
"""

import os
import platform
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

from tapeline.runtime import arithmetic, caps, environment, imports, streams
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
    b"Ignored output_format.",  # LiteRT's converter, about settings that nobody has set
    b"Ignored drop_control_dependency.",
    b"INFO: Created TensorFlow Lite XNNPACK delegate for CPU",
)


@contextmanager
def quietly() -> Iterator[None]:
    """Hold back the process's standard error, then pass on all but the startup messages; after a failure, all of it.

    If the process dies in the block, by whatever signal, a waiting shell passes on what was held back.
    Nothing is held back if standard error is closed or no shell can be started.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    try:
        original = os.dup(2)
    except OSError:  # standard error is closed
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
read -r alive || exec cat <&1 >&2"""
"""Stays a child of this process, which waits for it: what nobody waits for would remain as a zombie."""


@contextmanager
def _passed_on_at_death(path: Path) -> Iterator[None]:
    """Have a shell write the file to standard error if this process dies in the block, so that a pipe closes silently.

    Starting the shell costs a millisecond or two.
    """
    reader, writer = os.pipe()
    try:
        with path.open("rb") as again:  # with its own file position
            shell = subprocess.Popen([_SHELL, "-c", _AT_DEATH], stdin=reader, stdout=again)
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
    """Loads a module on the first access to an attribute; other threads wait meanwhile."""

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
            self._begun = False  # the next access raises the same error
            raise


class _RareModules:
    """Finds the rarely used modules that Keras imports, and delays their loading."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name in _RARE else None
        if spec and spec.loader:
            spec.loader = _Later(spec.loader)
        return spec


@contextmanager
def rare_modules_later() -> Iterator[None]:
    """Delay the rarely used modules that Keras imports in the block."""
    sys.meta_path.insert(0, _RareModules)
    try:
        yield
    finally:
        sys.meta_path.remove(_RareModules)


_BACKEND = "KERAS_BACKEND"


@contextmanager
def keras_as_it_comes() -> Iterator[None]:
    """Have Keras, which is imported in the block, compute with TensorFlow and with its own defaults.

    `KERAS_BACKEND` and `~/.keras/keras.json` are for other programs of this user: nothing records them, and no other
    machine has them. Raises `InputError` if Keras was imported before with another backend, or refuses that file.
    """
    asked = os.environ.get(_BACKEND)
    os.environ[_BACKEND] = "tensorflow"
    try:
        try:
            yield
            import keras
        except (ValueError, AssertionError) as error:  # both libraries read the file when they are imported
            why = f": {' '.join(str(error).split())}" if str(error) else ""
            raise InputError(f"Keras rejects a setting in keras.json or in a variable KERAS_…{why}") from error
        if keras.config.backend() != "tensorflow":
            began = f"Keras has already started with the backend {keras.config.backend()}"
            raise InputError(f"{began}: use another process, with {_BACKEND}=tensorflow")
        keras.config.set_floatx("float32")
        keras.config.set_epsilon(1e-7)
        keras.config.set_image_data_format("channels_last")
    finally:
        if asked is None:
            del os.environ[_BACKEND]
        else:
            os.environ[_BACKEND] = asked


ALLOCATOR = {"TF_CPU_ALLOCATOR_USE_BFC": "1", "TF_CPU_BFC_MEM_LIMIT_IN_MB": str(2**24)}
"""TensorFlow's allocator that keeps what is freed, without its limit of 64 GB.

That of the C library gives a tensor of more than 32 MB back to the kernel, which clears each page of the next one: most
of the time of a step with an embedding of that size. oneDNN brings an allocator of its own.
"""


def tensorflow(*, threads: int = arithmetic.THREADS, portable: bool = True) -> None:
    """Import TensorFlow and list its devices, which is when it prints its startup messages.

    threads: those that an operation is cut for; with one, as many operations run at once as there are cores. Without
    `portable`, any other number is the machine's. portable: compute the same bits on any CPU that has AVX2, with any
    number of cores. Raises `InputError` if TensorFlow has already started with other settings, which it cannot change.
    """
    if not portable and "tapeline.runtime.exact" in sys.modules:
        raise InputError(
            "train.bits is native: TensorFlow has already started with portable bits, so train in another process"
        )
    if portable:
        caps.apply()
        caps.note(caps.hold(), why="bits are portable")
    else:
        caps.lift()
    for name, value in ALLOCATOR.items():
        os.environ.setdefault(name, value)
    with quietly(), imports.lasting(), rare_modules_later():
        with keras_as_it_comes():
            import tensorflow as tf

        from tapeline.runtime import tensorflow_private, write_order

        if portable and tensorflow_private.has_onednn():
            raise InputError(
                "TensorFlow was imported before Tapeline could switch off oneDNN, whose bits depend on the CPU: use "
                "another process, such as `!tapeline` in a notebook"
            )
        tensorflow_private.autograph_without_files()
        write_order.as_it_comes()
        try:
            if threads == 1:
                _one_thread_an_operation(tf.config.threading)
            if portable:
                _compute_portably(tf, threads)
        except RuntimeError:
            said = "one thread" if threads == 1 else f"{threads} threads"
            why = f"an operation here has {said}, but TensorFlow has already started with others"
            raise InputError(f"{why}: use another process") from None
        tf.config.list_physical_devices()
        tf.constant(0)


def _one_thread_an_operation(threads: Any) -> None:
    if threads.get_intra_op_parallelism_threads() != 1:
        threads.set_intra_op_parallelism_threads(1)
        threads.set_inter_op_parallelism_threads(environment.cores())


def _compute_portably(tf: Any, threads: int) -> None:
    from tapeline.runtime import exact, tensorflow_private

    exact.replace()
    if not arithmetic.fix(tf, tensorflow_private.make_devices, threads) and platform.machine() == "x86_64":
        said = "Eigen's threads and cache sizes cannot be set in this TensorFlow, so other CPUs have other bits"
        streams.say(f"note: {said}", sys.stderr)
