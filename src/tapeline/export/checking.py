"""Check the written model in a process that has run nothing else, and has TensorFlow alone.

It imports TensorFlow while this one does, or is a fork of this one where that has imported it and done nothing with it.
"""

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from tapeline.export import check
from tapeline.runtime import forks, leash, processes
from tapeline.runtime.errors import RunError
from tapeline.runtime.interpreter import HASH_SEED, isolated, packages


class Checker:
    """Runs `check.py` as a separate program: TensorFlow and NumPy, no Tapeline code."""

    def __init__(self, process: "subprocess.Popen[str] | Forked") -> None:
        self._process = process

    def compare(
        self,
        model: Path,
        inputs: Mapping[str, Path],
        predictions: Path,
        tolerance: float,
        batch_size: int = check.BATCH,
    ) -> None:
        """Compare a SavedModel's outputs with recorded ones; call only once. Raises `RunError` if they differ.

        batch_size: that of the recorded ones.
        """
        asked = {
            "model": str(model),
            "inputs": {name: str(path) for name, path in inputs.items()},
            "predictions": str(predictions),
            "tolerance": tolerance,
            "batch_size": batch_size,
        }
        out, err = self._process.communicate(json.dumps(asked))
        status = self._process.returncode
        assert status is not None, "it has ended"
        if status < 0:
            raise RunError(f"the process that checks the exported model was killed by signal {-status}: run again")
        if status:
            said = (err or out).strip().splitlines()
            raise RunError(f"the exported model failed its check: {said[-1] if said else f'status {status}'}")


class Forked:
    """`check.py` in a fork of this process, with what `subprocess.Popen` has of one."""

    def __init__(self) -> None:
        self.returncode: int | None = None
        reader, self._asked = os.pipe()
        self._said, writer = os.pipe()
        parent = os.getpid()
        print(end="", flush=True)  # what it has not printed yet is not to be printed twice
        self._pid = forks.fork()
        if self._pid == 0:
            processes.die_with_parent(signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)
            for source, target in ((reader, 0), (writer, 1), (writer, 2)):
                os.dup2(source, target)
            os.closerange(3, os.sysconf("SC_OPEN_MAX"))
            forks.alone(Path(check.__file__), seeing=packages())
        os.close(reader)
        os.close(writer)

    def communicate(self, asked: str) -> tuple[str, str]:
        """Send its input, and return what it prints until it ends."""
        with suppress(BrokenPipeError), os.fdopen(self._asked, "w") as file:  # it was killed while it waited
            file.write(asked)
        with os.fdopen(self._said, errors="replace") as said:
            lines = said.read()
        self._asked = self._said = -1
        self.returncode = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        return lines, ""

    def kill(self) -> None:
        """End it, if it has not ended."""
        if self.returncode is None:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        for descriptor in (self._asked, self._said):
            if descriptor >= 0:
                os.close(descriptor)


@contextmanager
def checker() -> Iterator[Checker]:
    """Start the program with the current environment; it ends with the block or with this process.

    Call it before the first operation of TensorFlow.
    """
    if os.environ.pop(forks.FRESH, "") == str(os.getpid()):
        process = Forked()
        try:
            yield Checker(process)
        finally:
            process.kill()
        return
    # As `-I`, which would ignore the hash seed too.
    others = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    with subprocess.Popen(
        [*leash.launcher(signal.SIGKILL), *isolated(check.__file__, options=("-s", "-P"))],
        env={"TF_CPP_MIN_LOG_LEVEL": "1", **others, **HASH_SEED},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as started:
        try:
            yield Checker(started)
        finally:
            started.kill()
