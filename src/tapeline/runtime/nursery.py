"""A program: import TensorFlow and other modules once, then fork a process for each request, which starts after that.

    python -P -m tapeline.runtime.nursery DESCRIPTOR PARENT MODULE... -- MODULE... PADDING

A request is one message on the socket DESCRIPTOR with a module to run as a program, its arguments, its folder and the
files that it gets. What is forked imports Tapeline and the project's code itself, and becomes a child of the nearest
ancestor that is a subreaper, the flow while it asks: exit status, signals and death are as if the flow had started it.
No operation of TensorFlow runs in here, so no thread is lost. Modules behind `--` are imported when it has served one
request and the next one has not come. The program ends when the socket is closed; while it imports, with the process
PARENT.

A fork that is a flow itself, a trial of a sweep, gets such a process of its own: another fork, made before it runs
anything, whose socket is in the environment variable `forks.NURSERY`.

`orchestration.stages.forking` is the other side.
"""

import ctypes
import json
import os
import runpy
import select
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import NoReturn

from tapeline.runtime import forks, imports, processes, startup
from tapeline.runtime.errors import InputError

LIMIT = 1 << 16
"""Bytes of a request."""

DESCRIPTORS = 8
"""How many files a request may have: its output, its start, and those that are passed on."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to run: `python -P -m MODULE ARGUMENTS` in a folder.

    descriptors: the files that it gets: standard output and error, one that has a byte once it may start, and those
    whose numbers stand in the arguments as `{0}`, `{1}`. parent: the process whose child it will be.
    code: a folder in which it looks for modules first. nursery: whether it will start programs in the same way.
    """

    module: str
    arguments: list[str]
    folder: str
    parent: int
    code: str
    nursery: bool
    descriptors: list[int]


def main(number: int, parent: int, modules: Sequence[str], later: Sequence[str]) -> Request | None:
    """Serve requests until the socket is closed. Returns one in each forked process, and None in the first."""
    processes.wait_for_children()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to all; who asked ends what it asked for
    asked = socket.socket(fileno=number)
    with _ending_with(parent):
        for module in modules:
            _import(module)
        # A broken installation is the program's to report, which imports them again.
        with startup.quietly(), imports.lasting(), startup.rare_modules_later(), suppress(ImportError, InputError):
            with startup.keras_as_it_comes():
                import keras  # noqa: F401 - for the forks
                import tensorflow  # noqa: F401 - for the forks
    return serve(asked, later)


@contextmanager
def _ending_with(parent: int) -> Iterator[None]:
    """End in the block when the thread of `parent` does that has started this process: it waits for the first answer.

    Imports take seconds, in which a closed socket is not seen.
    """
    libc = ctypes.CDLL(None)
    libc.prctl(processes.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)
    yield
    libc.prctl(processes.PR_SET_PDEATHSIG, 0)


def _import(module: str) -> None:
    with imports.lasting(), suppress(ImportError):  # what lacks a package will say so itself
        import_module(module)


def serve(asked: socket.socket, later: Sequence[str] = ()) -> Request | None:
    """Fork a process for each request until the socket is closed. Returns one in each of these, and None in this."""
    more = select.poll()  # whatever the socket's number is: `select.select` takes none above 1023
    more.register(asked, select.POLLIN)
    while True:
        content, descriptors, *_ = socket.recv_fds(asked, LIMIT, DESCRIPTORS)
        if not content:
            return None
        request = Request(**json.loads(content), descriptors=descriptors)
        if (pid := _forked_apart()) == 0:
            asked.close()
            return request
        for descriptor in descriptors:
            os.close(descriptor)
        asked.send(str(pid).encode())
        while later and not more.poll(0):
            first, *later = later
            _import(first)


def _forked_apart() -> int:
    """Fork a process whose parent is not this one; return its id, and 0 in it."""
    reader, writer = os.pipe()
    between = forks.fork()
    if between:
        os.close(writer)
        with os.fdopen(reader, "rb") as answer:
            pid = int(answer.read())
        os.waitpid(between, 0)
        return pid
    if pid := forks.fork():
        os.write(writer, str(pid).encode())
        os._exit(0)
    os.close(reader)
    os.close(writer)
    return 0


def begin(request: Request) -> NoReturn:
    """Become what the request asks for, run it and end. Ends this process if the parent has gone meanwhile."""
    _become_child(request)
    while request.nursery and (inner := _nursery()):
        request = inner
        _become_child(request)
    forks.finish(partial(run, request))


def _become_child(request: Request) -> None:
    """Lead a session as the child of the process that asks, with its output, in its folder."""
    output, start, *_ = request.descriptors
    if not os.read(start, 1):
        os._exit(0)
    os.close(start)
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.pop(processes.GUARDIAN, None)
    processes.die_with_parent(signal.SIGTERM)
    if os.getppid() != request.parent:
        os._exit(0)
    os.environ[processes.GUARDIAN] = str(os.getpid())
    nothing = os.open(os.devnull, os.O_RDWR)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(output)
    os.chdir(request.folder)


def _nursery() -> Request | None:
    """Fork a process that serves this one. Returns None in this process, and a request in each that it forks."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if pid := forks.fork():
        theirs.close()
        os.environ[forks.NURSERY] = f"{ours.detach()} {os.getpid()} {pid}"
        return None
    ours.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for descriptor in (1, 2):  # the output of the program ends with it
        os.dup2(0, descriptor)
    if request := serve(theirs):
        return request
    os._exit(0)


def run(request: Request) -> None:
    """Run the program in this process."""
    arguments = forks.filled(request.arguments, request.descriptors[2:])
    is_file = request.module.endswith(".py")
    forks.restore_environment(kept={processes.GUARDIAN, forks.NURSERY})
    forks.forget()
    forks.become([sys.executable, "-P", *([] if is_file else ["-m"]), request.module, *arguments])
    sys.argv[1:] = arguments
    if request.code:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [request.code, os.environ.get("PYTHONPATH")]))
        sys.path.insert(0, request.code)
    if is_file:
        runpy.run_path(request.module, run_name="__main__")
    else:
        runpy.run_module(request.module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    now = sys.argv.index("--")
    if asked_for := main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:now], sys.argv[now + 1 : -1]):
        begin(asked_for)
