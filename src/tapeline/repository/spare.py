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
from pathlib import Path
from typing import NoReturn

from tapeline.runtime import forks, interpreter
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

    def run(self) -> NoReturn:
        """Become the command."""
        signal.signal(signal.SIGINT, signal.default_int_handler)
        imported_with = {name: value for name, value in os.environ.items() if name not in OWN}
        os.chdir(self.folder)
        os.environ.clear()
        os.environ.update(self.environment)
        asked = STAGE.fullmatch(self.command)
        path = os.pathsep.join([os.environ.get("PATH", os.defpath), *SEARCHED])
        program = Path(shutil.which("tapeline", path=path) or "").absolute()
        same = {name: value for name, value in os.environ.items() if name not in OWN} == imported_with
        if not asked or not same or program.parent != Path(sys.executable).parent:
            os.execvpe(self.shell[0], list(self.shell), os.environ)
        os.environ["PATH"] = path
        _use_tree_code(Path.cwd())
        forks.become([sys.executable, str(program), *asked.groups()])
        os.environ[forks.FRESH] = str(os.getpid())
        sys.argv[:] = [str(program), *asked.groups()]
        sys.path.insert(0, str(program.parent))
        runpy.run_module("tapeline", run_name="__main__", alter_sys=True)
        sys.exit()


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
            os.close(self._orders)
            os.waitpid(self._pid, 0)
            self._orders = -1


def forked(closing: Sequence[int]) -> "Spare | Order | None":
    """Fork: return the process in its parent, and its order in the process itself, which ends without one.

    closing: descriptors that are not the command's. None where TensorFlow is not imported: a fork would save nothing.
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
    with os.fdopen(reader, "rb") as orders:
        content = orders.read()
    if not content:
        os._exit(0)
    return Order(**json.loads(content))


def _use_tree_code(folder: Path) -> None:
    """Import the code of the checkout that `folder` belongs to, as `interpreter.use_tree_code` would start it."""
    source = interpreter.tree_code(folder)
    if source and source.resolve() != interpreter.SOURCE:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(source), os.environ.get("PYTHONPATH")]))
        sys.path.insert(0, str(source))
