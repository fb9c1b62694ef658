"""A child process, forked before DVC is loaded, that waits for a stage's command and then runs it.

Only what was forked itself from `runtime.nursery` has one: TensorFlow is imported there. The command line of a stage
runs in the process; any other command replaces it, as a shell does.
"""

import json
import os
import re
import runpy
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from tapeline.runtime import checkout_code, forks, interpreter, processes
from tapeline.runtime.errors import InputError
from tapeline.runtime.processes import GUARDIAN

STAGE = re.compile(
    r"""exec env PATH="\$PATH:\.venv/bin:\.\./\.venv/bin" tapeline (ingest|train|validate|export) ([\w.-]+)"""
)
"""A stage's command as `dvc.yaml` has it."""

SEARCHED = (".venv/bin", "../.venv/bin")
OWN = {"PATH", "DVC_ROOT", "DVC_STAGE", GUARDIAN}
"""Variables that no import reads: with any other difference, the command gets a process with its own imports."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """A stage's command, its folder and its whole environment; `shell` is how DVC would run it."""

    command: str
    shell: Sequence[str]
    folder: str
    environment: Mapping[str, str]


class Spare:
    """The waiting process, seen from its parent."""

    def __init__(self, pid: int, orders: int) -> None:
        self._pid, self._orders = pid, orders

    @property
    def waits(self) -> bool:
        """Whether it has not run anything yet."""
        return self._orders >= 0

    def run(self, order: Order) -> int:
        """Have it run a command, and return the exit status, negative for a signal. Call only while it waits."""
        with suppress(BrokenPipeError), os.fdopen(self._orders, "wb") as orders:  # it was killed while it waited
            orders.write(json.dumps(asdict(order)).encode())
        self._orders = -1
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])

    def close(self) -> None:
        """End it if it has not run anything."""
        if self.waits:
            os.kill(self._pid, signal.SIGKILL)  # it may be in the middle of an import
            os.close(self._orders)
            os.waitpid(self._pid, 0)
            self._orders = -1


def forked(stage: str, *, closing: Sequence[int]) -> Spare | None:
    """Fork a process that waits for a stage's command, runs it and ends.

    stage: as in `dvc.yaml`, STAGE@NAME. closing: descriptors that are not the command's. Returns None where TensorFlow
    is not imported: a fork would save nothing.
    """
    if "tensorflow" not in sys.modules:
        return None
    reader, writer = os.pipe()
    if pid := forks.fork():
        os.close(reader)
        return Spare(pid, writer)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    for descriptor in (writer, *closing):
        os.close(descriptor)
    return _wait(reader, stage)


def _wait(orders: int, stage: str) -> NoReturn:
    """Import what the stage's command will, while DVC finds out whether it must run; then become what is ordered."""
    before, folder = dict(os.environ), Path.cwd()
    os.environ.update(forks.set_by_imports())
    if source := _tree_code(folder):
        sys.path.insert(0, source)
    forks.forget()
    with suppress(Exception):  # the command will say so itself
        import_module("tapeline.cli.main").import_for(stage.partition("@")[0])
    imported = {name: value for name, value in os.environ.items() if before.get(name) != value}
    with os.fdopen(orders, "rb") as read:
        content = read.read()
    if not content:
        os._exit(0)
    order = Order(**json.loads(content))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(order.folder)
    os.environ.clear()
    os.environ.update(order.environment)
    asked = STAGE.fullmatch(order.command)
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *SEARCHED])
    program = Path(shutil.which("tapeline", path=path) or "").absolute()
    is_same = _read_by_imports(os.environ) == _read_by_imports(before) and Path.cwd() == folder
    if not asked or not is_same or program.parent != Path(sys.executable).parent:
        processes.restore_signals()
        os.execvpe(order.shell[0], list(order.shell), os.environ)
    os.environ.update(imported)  # as if it had imported them itself
    os.environ["PATH"] = path
    if source:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
    forks.become([sys.executable, str(program), *asked.groups()])
    os.environ[forks.FRESH] = str(os.getpid())
    sys.argv[:] = [str(program), *asked.groups()]
    sys.path.insert(0, str(program.parent))
    runpy.run_module("tapeline", run_name="__main__", alter_sys=True)
    sys.exit()


def _read_by_imports(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name not in OWN}


def _tree_code(folder: Path) -> str:
    """Return the code of the checkout that `folder` belongs to, which the command would start; "" if it is this one."""
    try:
        source = checkout_code.of(folder)
    except InputError:  # the command will say so itself
        return ""
    return str(source) if source and source.resolve() != interpreter.SOURCE else ""
