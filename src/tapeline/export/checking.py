"""Check the written model in a fresh process, which imports TensorFlow while this one does."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tapeline.export import check
from tapeline.runtime import processes
from tapeline.runtime.errors import RunError


class Checker:
    """Runs `check.py` as a separate program: TensorFlow and NumPy, no Tapeline code."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def compare(self, model: Path, inputs: Mapping[str, Path], predictions: Path, tolerance: float) -> None:
        """Compare a SavedModel's outputs with recorded ones; call only once. Raises `RunError` if they differ."""
        asked = {
            "model": str(model),
            "inputs": {name: str(path) for name, path in inputs.items()},
            "predictions": str(predictions),
            "tolerance": tolerance,
        }
        out, err = self._process.communicate(json.dumps(asked))
        status = self._process.returncode
        if status < 0:
            raise RunError(f"the process that checks the exported model was killed by signal {-status}: run again")
        if status:
            said = (err or out).strip().splitlines()
            raise RunError(f"the exported model failed its check: {said[-1] if said else f'status {status}'}")


@contextmanager
def checker() -> Iterator[Checker]:
    """Start the program with the current environment; it ends with the block or with this process."""
    leash = [sys.executable, "-I", str(Path(processes.__file__)), str(int(signal.SIGKILL)), str(os.getpid())]
    with subprocess.Popen(
        [*leash, sys.executable, "-I", str(Path(check.__file__))],
        env={"TF_CPP_MIN_LOG_LEVEL": "1", **os.environ},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Checker(process)
        finally:
            process.kill()
