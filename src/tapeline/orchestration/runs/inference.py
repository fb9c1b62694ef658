"""Answer files with a model of the registry, in a child that has TensorFlow; the caller has it not."""

import os
import signal
import subprocess
import sys

from tapeline.orchestration.monitors.monitor import Monitor
from tapeline.runtime import exit_status, leash
from tapeline.runtime.interpreter import with_this_code


def answer(
    model: str, files: list[str], out: str, batch_size: int | None, monitor: Monitor, outputs: str | None = None
) -> str:
    """Run `tapeline predict`, which dies with this process, and return what was done.

    batch_size, outputs: as its `--batch-size` and `--outputs`.
    Raises `InputError` for what does not fit the model, `RunError` for what fails on the way; `out` is then left as it
    was.
    """
    command = [sys.executable, "-P", "-m", "tapeline", "predict", f"--out={out}"]
    if batch_size is not None:
        command.append(f"--batch-size={batch_size}")
    if outputs is not None:
        command.append(f"--outputs={outputs}")
    environment = {**os.environ, **with_this_code()}
    leashed = [*leash.launcher(signal.SIGKILL), *command, "--", model, *files]
    done = subprocess.run(leashed, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise exit_status.error(done.returncode, done.stderr.splitlines())
    for line in done.stderr.splitlines():
        if line.startswith("note: "):
            monitor.warn(line)
    return done.stdout.strip()
