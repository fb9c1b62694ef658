"""A program: import TensorFlow and other modules once, then fork a process for each request, which starts after that.

    python -P -m tapeline.runtime.nursery DESCRIPTOR MODULE... PADDING

A request is one message on the socket DESCRIPTOR with a module to run as a program, its arguments, its folder and the
files that it gets. What is forked imports Tapeline and the project's code itself, and becomes a child of the nearest
ancestor that is a subreaper, the flow: exit status, signals and death are as if the flow had started it. No operation
of TensorFlow runs in here, so no thread is lost. The program ends when the socket is closed.

`orchestration.stages.forking` is the other side.
"""

import json
import os
import runpy
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module

from tapeline.runtime import forks, imports, processes, startup

LIMIT = 1 << 16
"""Bytes of a request."""

DESCRIPTORS = 8
"""How many files a request may have: its output, its start, and those that are passed on."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to run: `python -P -m MODULE ARGUMENTS` in a folder.

    descriptors: the files that it gets: standard output and error, one that has a byte once it may start, and those
    whose numbers stand in the arguments as `{0}`, `{1}`. parent: the process whose child it will be.
    """

    module: str
    arguments: list[str]
    folder: str
    parent: int
    descriptors: list[int]


def main(number: int, modules: Sequence[str]) -> Request | None:
    """Serve requests until the socket is closed. Returns one in each forked process, and None in the first."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to all; who asked ends what it asked for
    asked = socket.socket(fileno=number)
    with imports.lasting(), suppress(ImportError):  # what lacks a package will say so itself
        for module in modules:
            import_module(module)
    with startup.quietly(), imports.lasting(), startup.rare_modules_later(), suppress(ImportError):
        import keras  # noqa: F401
        import tensorflow  # noqa: F401
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


def begin(request: Request) -> None:
    """Become what the request asks for, and run it. Ends this process if the parent has gone meanwhile."""
    output, start, *passed = request.descriptors
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
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(output)
    os.chdir(request.folder)
    arguments = [argument.format(*passed) for argument in request.arguments]
    forks.become([sys.executable, "-P", "-m", request.module, *arguments])
    sys.argv[1:] = arguments
    runpy.run_module(request.module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    if asked_for := main(int(sys.argv[1]), sys.argv[2:-1]):
        begin(asked_for)
