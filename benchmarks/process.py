"""The harness's side of a contender's process: start it, send requests, end it."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.workload import ROOT


class Failed(Exception):
    """A contender ended before it answered; the message is its last line of output."""


class Process:
    """A contender in its own process group. Only the requested one runs; the others are stopped by the kernel.

    Blocking on the pipe is not enough: threads that prefetch or spin at a barrier would keep running in others' time.
    """

    def __init__(self, workload: str, contender: str, folder: Path) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        self._child = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker", workload, contender, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=ROOT,
            env=self.environment(),
            start_new_session=True,
        )

    @staticmethod
    def environment() -> dict[str, str]:
        """Return the environment of the suite's processes: this checkout's code, and no GPU."""
        paths = [str(ROOT / "src"), str(ROOT)]
        return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "CUDA_VISIBLE_DEVICES": "-1"}

    def answer(self) -> Mapping[str, Any]:
        """Wait for the next answer. Raises `Failed` if there is none."""
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            self._child.wait()
            self._errors.seek(0)
            said = self._errors.read().decode(errors="replace").strip().splitlines()
            raise Failed(said[-1] if said else f"ended with status {self._child.returncode}")
        answer: Mapping[str, Any] = json.loads(line)
        return answer

    def learned(self) -> Mapping[str, Any]:
        """Wait for the common steps; return `losses`, `first_step`, `peak_mb`."""
        answer = self.answer()
        self._signal(signal.SIGSTOP)
        return answer

    def run(self, seconds: float) -> Mapping[str, Any]:
        """Let the contender train for at least `seconds`; return `steps`, `seconds`, `peak_mb`."""
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps({"seconds": seconds}).encode() + b"\n")
        self._child.stdin.flush()
        self._signal(signal.SIGCONT)
        answer = self.answer()
        self._signal(signal.SIGSTOP)
        return answer

    def close(self) -> None:
        """Kill the process: the rest of its run is not needed."""
        self._signal(signal.SIGKILL)
        self._child.communicate()  # closes the pipes, too
        self._errors.close()

    def _signal(self, number: signal.Signals) -> None:
        """Signal the whole group, including a loader's workers. It may be gone already."""
        with suppress(ProcessLookupError):
            os.killpg(self._child.pid, number)
