"""Answer files with a model of the registry, in a child that has TensorFlow; the caller has it not."""

import os
import signal
import subprocess
import sys
from contextlib import suppress

from tapeline.orchestration.monitors.monitor import Monitor
from tapeline.runtime import exit_status, leash
from tapeline.runtime.interpreter import with_this_code

POLL = 0.5
"""Seconds between two looks at whether the run has been cancelled."""


def answer(
    model: str, files: list[str], out: str, batch_size: int | None, monitor: Monitor, outputs: str | None = None
) -> str:
    """Run `tapeline predict`, which dies with this process, and return what was done.

    batch_size, outputs: as its `--batch-size` and `--outputs`.
    Raises `InputError` for what does not fit the model, `RunError` for what fails on the way; `out` is then left as it
    was, as it is by a signal.
    """
    command = [sys.executable, "-P", "-m", "tapeline", "predict", f"--out={out}"]
    if batch_size is not None:
        command.append(f"--batch-size={batch_size}")
    if outputs is not None:
        command.append(f"--outputs={outputs}")
    environment = {**os.environ, **with_this_code()}
    leashed = [*leash.launcher(signal.SIGKILL), *command, "--", model, *files]
    with subprocess.Popen(leashed, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as child:
        try:
            said, noted = _ended(child, monitor)
        except BaseException:
            child.terminate()
            raise
    if child.returncode:
        raise exit_status.error(child.returncode, noted.splitlines())
    for line in noted.splitlines():
        if line.startswith("note: "):
            monitor.warn(line)
    return said.strip()


def _ended(child: "subprocess.Popen[str]", monitor: Monitor) -> tuple[str, str]:
    """Return what a process has printed to stdout and to stderr by its end."""
    while True:
        monitor.look()
        with suppress(subprocess.TimeoutExpired):
            return child.communicate(timeout=POLL)
