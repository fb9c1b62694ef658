"""Child processes that never outlive the flow.

    with Child(["dvc", "repro"], cwd=folder, env=environment) as child:
        for line in child.lines():          # None after a while without output
            ...
    child.returncode

A child leads its own session, so that a terminal's Ctrl-C reaches the flow alone, which then stops its children
cleanly. The kernel signals a child when the thread that started it ends, however it ends (`runtime.processes`);
leaving the `with` block leaves no process of the session behind, not even one whose parent was killed. What the child
prints while it is stopped (where its checkpoint is) goes to `last_words`.
"""

import codecs
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import psutil

from tapeline.orchestration.stages import forking
from tapeline.runtime import forks, leash
from tapeline.runtime.interpreter import HASH_SEED
from tapeline.runtime.processes import GRACE, POLL


class Child:
    """A running command, its output merged into one stream of lines."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        output: int | IO[bytes] = subprocess.PIPE,
        pass_fds: Sequence[int] = (),
        at_our_death: signal.Signals = signal.SIGTERM,
        grace: float = GRACE,
        last_words: Callable[[str], None] | None = None,
    ) -> None:
        process = _leashed(command, cwd=cwd, env=env, output=output, pass_fds=pass_fds, at_our_death=at_our_death)
        self._watch(process, process.stdout, grace, last_words)

    @classmethod
    def of_module(
        cls,
        module: str,
        arguments: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        pass_fds: Sequence[int] = (),
        last_words: Callable[[str], None] | None = None,
        code: Path | None = None,
        ready: bool = False,
    ) -> "Child":
        """Start `python -P -m MODULE ARGUMENTS`, as a fork with TensorFlow and DVC imported where that is possible.

        module: or a `.py` file. arguments: `{0}` stands for the number of the first of `pass_fds`, which is another one
        in a fork. code: a folder whose modules come before those of PYTHONPATH. ready: a fork only where it need not
        wait for imports, since the program itself needs none of them.
        """
        reader, writer = os.pipe()
        with os.fdopen(writer, "wb") as output, ExitStack() as stack:
            pipe = stack.enter_context(os.fdopen(reader, "rb"))
            process = _of_module(
                module, arguments, cwd=cwd, env=env, output=output, pass_fds=pass_fds, code=code, ready=ready
            )
            child = cls.__new__(cls)
            child._watch(process, pipe, GRACE, last_words)
            stack.pop_all()
        return child

    @classmethod
    def of_flow(
        cls, module: str, arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], output: IO[bytes]
    ) -> "Child":
        """Start a module as `of_module` does, that starts programs in the same way; its output goes to a file."""
        child = cls.__new__(cls)
        process = _of_module(module, arguments, cwd=cwd, env=env, output=output, nursery=True)
        child._watch(process, None, GRACE, None)
        return child

    def _watch(
        self,
        process: "subprocess.Popen[bytes] | forking.Forked",
        pipe: IO[bytes] | None,
        grace: float,
        last_words: Callable[[str], None] | None,
    ) -> None:
        self._process = process
        self._pipe = pipe
        if pipe:
            os.set_blocking(pipe.fileno(), False)
        self.session = process.pid
        self._grace = grace
        self._last_words = last_words
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._rest = ""

    @property
    def returncode(self) -> int | None:
        """The exit status, negative for a signal; None while the command runs."""
        return self._process.poll()

    def lines(self, *, quiet: float = 0.5) -> Iterator[str | None]:
        """Yield each line of output without its newline, and None after every `quiet` seconds without output.

        Ends when the command has ended. For a line that was overwritten (a progress bar), the last state is yielded.
        """
        pipe = self._pipe
        assert pipe is not None, "lines are read from a child whose output is a pipe"
        ready = select.poll()
        ready.register(pipe, select.POLLIN | select.POLLHUP)
        while True:
            ended = self.returncode is not None
            if not ready.poll(0 if ended else quiet * 1000):
                if ended:  # the pipe is still open: a process that the command started is alive
                    break
                yield None
                continue
            content = os.read(pipe.fileno(), 1 << 16)
            if not content:
                break
            yield from self._complete(content)
        if self._rest:
            yield _last_state(self._rest)
        self._process.wait()

    def _complete(self, content: bytes) -> Iterator[str]:
        """Yield the lines that `content` completes, and keep the rest for the next call."""
        *complete, rest = (self._rest + self._decoder.decode(content)).split("\n")
        self._rest = rest[rest.rfind("\r", 0, -1) + 1 :]
        yield from map(_last_state, complete)

    def end(self, signum: signal.Signals = signal.SIGINT) -> None:
        """Signal the session, wait, and kill what is left after the grace period. A second interrupt kills at once."""
        self._signal(signum)
        self._leave()

    def _leave(self) -> None:
        try:
            self._wait(self._grace)
        finally:
            self._signal(signal.SIGKILL)
            self._wait(1)

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self.returncode is None:
                self.end()
            elif _members(self.session):  # the command was killed, and the kernel has signalled its children
                self._leave()
        finally:
            if self._pipe:
                self._pipe.close()

    def _signal(self, signum: signal.Signals) -> None:
        for pid in _members(self.session):
            try:
                os.kill(pid, signum)
            except ProcessLookupError:
                continue

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (self.returncode is None or _members(self.session)) and time.monotonic() < deadline:
            self._drain()
            time.sleep(POLL)
        self._drain()

    def _drain(self) -> None:
        """Empty the pipe: a child that writes into a full pipe would wait for us, and we for it."""
        if not self._pipe:
            return
        try:
            content = os.read(self._pipe.fileno(), 1 << 20)
        except BlockingIOError:
            return
        for line in self._complete(content):
            if self._last_words and line.strip():
                self._last_words(line)


def environment() -> dict[str, str]:
    """Return this process's environment with its interpreter first in PATH: a stage's `python` is this one.

    With the hash seed that a stage has anyway: what is forked from a process with another would have to start again.
    """
    binaries = str(Path(sys.executable).parent)
    path = os.environ.get("PATH", os.defpath)
    if path.split(os.pathsep)[0] != binaries:  # a trial's is its sweep's
        path = os.pathsep.join([binaries, path])
    return {**os.environ, **HASH_SEED, "PATH": path, "PYTHONUNBUFFERED": "1"}


def _of_module(
    module: str,
    arguments: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    output: IO[bytes],
    pass_fds: Sequence[int] = (),
    code: Path | None = None,
    nursery: bool = False,
    ready: bool = False,
) -> "subprocess.Popen[bytes] | forking.Forked":
    """Start a module as a fork; where that is not possible, in an interpreter of its own."""
    forked = forking.started(
        module,
        arguments,
        cwd=cwd,
        env=env,
        output=output.fileno(),
        pass_fds=pass_fds,
        code=str(code or ""),
        nursery=nursery,
        ready=ready,
    )
    if forked:
        return forked
    first = {"PYTHONPATH": os.pathsep.join(filter(None, [str(code), env.get("PYTHONPATH")]))} if code else {}
    # `-P`: a folder of the project must not hide a module that the program imports.
    command = [sys.executable, "-P", *([] if module.endswith(".py") else ["-m"]), module]
    command += forks.filled(arguments, pass_fds)
    return _leashed(command, cwd=cwd, env={**env, **first}, output=output, pass_fds=pass_fds)


def _leashed(
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    output: int | IO[bytes],
    pass_fds: Sequence[int],
    at_our_death: signal.Signals = signal.SIGTERM,
) -> "subprocess.Popen[bytes]":
    """Start a command in a session of its own; it gets `at_our_death` when the thread that calls this ends."""
    return subprocess.Popen(
        [*leash.launcher(at_our_death), *command],
        cwd=cwd,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        pass_fds=pass_fds,
        start_new_session=True,
    )


def end_all(children: Sequence[Child], signum: signal.Signals = signal.SIGINT) -> None:
    """End several children at once: all are signalled before any is waited for."""
    living = [child for child in children if child.returncode is None]
    for child in living:
        child._signal(signum)
    for child in living:
        child._leave()


def _last_state(line: str) -> str:
    return line.rstrip("\r").rpartition("\r")[2]


def _members(session: int) -> list[int]:
    """Return the processes of a session, except zombies."""
    members = []
    for pid in psutil.pids():
        try:
            if os.getsid(pid) == session and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                members.append(pid)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return members
