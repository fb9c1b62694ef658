"""Answer files with a model of the registry, in a child that has TensorFlow; the flow has it not.

tapeline infer --model 'digits#prod' --out answers.csv images.npy
"""

import os
import subprocess
import sys
from pathlib import Path

from prefect import flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE

from tapeline.orchestration.schedules.liveness import begin
from tapeline.runtime import processes
from tapeline.runtime.errors import InputError, RunError
from tapeline.runtime.interpreter import with_this_code

begin()


@flow(name="inference")
def inference(model: str, files: list[str], out: str, batch_size: int = 256) -> str:
    """Write the answers of a model such as `digits#prod` to a `.csv` or `.jsonl` file, and return what was done.

    A run that is repeated answers with the version that is live then. Raises `InputError` for what does not fit the
    model, `RunError` for what fails on the way; `out` is then left as it was.
    """
    said: str = answered(model, files, out, batch_size)
    return said


@task(cache_policy=NO_CACHE)
def answered(model: str, files: list[str], out: str, batch_size: int) -> str:
    """Run `tapeline predict`, which dies with this process."""
    leash = [sys.executable, "-I", str(Path(processes.__file__)), "9", str(os.getpid())]
    command = [sys.executable, "-P", "-m", "tapeline", "predict", f"--batch-size={batch_size}", f"--out={out}"]
    environment = {**os.environ, **with_this_code()}
    answer = subprocess.run(
        [*leash, *command, "--", model, *files], capture_output=True, text=True, env=environment, check=False
    )
    if answer.returncode:
        line = (answer.stderr.strip().splitlines() or ["it printed nothing"])[-1].removeprefix("tapeline: ")
        raise (InputError if answer.returncode == 2 else RunError)(line)
    logger = get_run_logger()
    for line in answer.stderr.splitlines():
        if line.startswith("note: "):
            logger.warning(line)
    logger.info(answer.stdout.strip())
    return answer.stdout.strip()
