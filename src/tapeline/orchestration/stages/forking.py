"""Start programs as forks of one process that has imported TensorFlow and DVC, which takes seconds.

    process = forking.started(module, arguments, cwd=…, env=…, output=…, pass_fds=…)     # None: start it otherwise

`runtime.nursery` is that process. It is started with the first program, or before it by `prepare`, ends with this
process, and is not needed: whatever it cannot do, or if it has died, the caller starts a program of its own, with the
same result. A process that was forked with `nursery` has one from its start.
"""

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tapeline.runtime import forks, processes
from tapeline.runtime.processes import GUARDIAN

PROGRAM = "tapeline.runtime.nursery"
IMPORTED = [
    "tapeline.repository.dvc.repository",
    "tapeline.config.params",
    # What DVC and Tapeline import when they read their files. One that is gone is imported then.
    *("dvc.cachemgr", "dvc.data_cloud", "dvc.repo.plots", "dvc.scm", "dvc_data.hashfile.status", "networkx"),
    *("dulwich.index", "pydantic.json_schema", "pyparsing", "ruamel.yaml", "scmrepo.git"),
]
"""What is imported there besides TensorFlow, for the libraries: Tapeline's own modules are forgotten again."""

LATER = ["sklearn.metrics"]
"""What is imported there while the first stage runs: validation takes a second for it."""

OFF = "TAPELINE_FORK"
"""The environment variable that keeps everything a process of its own if it is 0."""

POLL = 0.02
"""Seconds between two looks at a process that is waited for."""


class Forked:
    """A child process that this process did not start itself, with what `subprocess.Popen` has of one."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """Return the exit status, negative for a signal; None while the process runs."""
        with self._lock:
            if self.returncode is None:
                try:
                    ended, status = os.waitpid(self.pid, os.WNOHANG)
                except ChildProcessError:  # somebody has waited for all children: as `Popen`, which cannot know either
                    ended, status = self.pid, 0
                self.returncode = os.waitstatus_to_exitcode(status) if ended else None
        return self.returncode

    def wait(self) -> int:
        """Wait for the end, and return the exit status."""
        while (status := self.poll()) is None:
            time.sleep(POLL)
        return status

    def kill(self) -> None:
        """Kill it, if it runs."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


class Nursery:
    """The process that is forked, as long as it lives."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._environment: dict[str, str] | None = None
        self._process: subprocess.Popen[bytes] | Forked | None = None
        self._folder: Path | None = None
        self._imported = False

    def started(
        self,
        module: str,
        arguments: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        output: int,
        pass_fds: Sequence[int] = (),
        code: str = "",
        nursery: bool = False,
        ready: bool = False,
    ) -> Forked | None:
        """Run a module as a program in a fork that leads its own session; None if it must be started otherwise.

        module: or a `.py` file. arguments: `{0}` is the number of the first of `pass_fds`. output: gets standard output
        and error. code: a folder that is put before `env`'s PYTHONPATH. nursery: whether the program starts others so.
        ready: it is not worth waiting for the imports, so none are begun for it.
        """
        if ready and not self._imported and forks.NURSERY not in os.environ:
            return None
        asked = {
            "module": module,
            "arguments": list(arguments),
            "folder": str(cwd.resolve()),
            "parent": os.getpid(),
            "code": code,
            "nursery": nursery,
        }
        reader, writer = os.pipe()
        try:
            with self._lock, suppress(OSError, ValueError):
                if self._has_its_code(env, cwd.resolve()) and (
                    pid := self._asked(json.dumps(asked).encode(), dict(env), [output, reader, *pass_fds])
                ):
                    os.write(writer, b"1")
                    return Forked(pid)
        finally:
            os.close(reader)
            os.close(writer)  # a process that has no byte to read by then ends
        return None

    def prepare(self, env: Mapping[str, str]) -> None:
        """Begin the imports for programs that will be started with `env`, and do not wait for them."""
        with self._lock:
            if os.environ.get(OFF) != "0":
                self._begin(dict(env))

    @property
    def pid(self) -> int | None:
        """Its process; None before the first start."""
        return self._process.pid if self._process else None

    def close(self) -> None:
        """End it. What was started with it goes on."""
        with self._lock:
            if self._environment is None:
                self._take_over()
            self._end()

    def _has_its_code(self, env: Mapping[str, str], folder: Path) -> bool:
        """Return whether PYTHONPATH means the same there: Python has made its folders absolute when it started."""
        return not _is_relative(env) or folder == (self._folder or Path.cwd())

    def _asked(self, content: bytes, env: dict[str, str], descriptors: list[int]) -> int:
        """Ask for a fork, and return its id; 0 without one."""
        if os.environ.get(OFF) == "0":
            return 0
        self._begin(env)
        if self._environment != _read_by_imports(env) or self._socket is None:
            return 0
        try:
            with processes.subreaper():
                socket.send_fds(self._socket, [content], descriptors)
                answer = self._socket.recv(64)
        except OSError:
            answer = b""
        if not answer:  # it has died
            self._socket.close()
            self._socket = None
            return 0
        self._imported = True
        return int(answer)

    def _begin(self, env: dict[str, str]) -> None:
        if self._environment is not None:
            return
        if not Path("/proc/self/environ").exists():  # not Linux, whose `prctl` makes a fork's child one of this process
            self._environment = _read_by_imports(env)
            return
        self._take_over()
        first = _read_by_imports(forks.first_environment())
        if self._socket and first == _read_by_imports(env) and not _is_relative(env):
            self._environment, self._imported = first, True
            return
        self._end()
        self._start(env)

    def _take_over(self) -> None:
        """Make what this process was forked with, if anything, this object's own, and its process one to wait for."""
        given = os.environ.pop(forks.NURSERY, "").split()
        if len(given) != 3 or given[1] != str(os.getpid()):  # none, or that of the process which started this one
            return
        number, _, pid = map(int, given)
        self._process = Forked(pid)
        try:
            found = socket.socket(fileno=number)
        except OSError:  # closed, by the start of another program in this process
            return
        if (found.family, found.type) == (socket.AF_UNIX, socket.SOCK_SEQPACKET):
            self._socket = found
        else:
            found.detach()  # somebody else's, with the same number

    def _end(self) -> None:
        if self._socket:
            self._socket.close()
            self._socket = None
        if self._process:
            self._process.kill()
            self._process.wait()

    def _start(self, env: dict[str, str]) -> None:
        self._environment, self._folder = _read_by_imports(env), Path.cwd()
        if not processes.can_be_subreaper():
            return
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        number = theirs.fileno()
        first = [sys.executable, "-P", "-m", PROGRAM, str(number), str(os.getpid())]
        command = [*first, *IMPORTED, "--", *LATER, forks.PADDING]
        with theirs:
            nothing = subprocess.DEVNULL  # what fails in it fails again in a process of its own, which says it
            self._process = subprocess.Popen(
                command, env=env, stdin=nothing, stdout=nothing, stderr=nothing, pass_fds=[number]
            )
        self._socket = ours


def _is_relative(env: Mapping[str, str]) -> bool:
    """Return whether PYTHONPATH depends on the folder in which a program starts, as an empty part of it does too."""
    path = env.get("PYTHONPATH", "")
    return bool(path) and not all(Path(part).is_absolute() for part in path.split(os.pathsep))


def _read_by_imports(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that imports may have read: these say nothing but which process is whose."""
    return {name: value for name, value in env.items() if name not in (GUARDIAN, forks.NURSERY)}


_nursery = Nursery()
atexit.register(_nursery.close)
started = _nursery.started
prepare = _nursery.prepare
