"""Predict on files with a registered model, in a child process, so that the flow itself does not import TensorFlow.

tapeline infer --model 'digits#prod' --out answers.csv images.npy
"""

from typing import Any

from prefect import flow, states, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State

from tapeline.config.project import Project
from tapeline.orchestration.connection import log
from tapeline.orchestration.flows.monitor import Cancelled, PrefectMonitor, failed, hold_own
from tapeline.orchestration.request import BatchSize, Text
from tapeline.orchestration.runs.inference import answer
from tapeline.orchestration.schedules.late_runs import cancel_late_runs
from tapeline.orchestration.schedules.liveness import begin
from tapeline.runtime.errors import TapelineError

begin()


@flow(name="inference", retries=0)
def inference(
    model: Text, files: list[Text], out: Text, batch_size: BatchSize | None = None, outputs: Text | None = None
) -> str | State[Any]:
    """Write the predictions of a model such as `digits#prod` to a file, and return what was done.

    A run that is repeated uses the version that is live then, and resumes what an interrupted one left. Raises
    `InputError` for files that do not fit the model and `RunError` for other failures; `out` is then left unchanged.

    Args:
        model: A registered model, such as digits#prod.
        files: The files to predict on: .npy, .npz, CSV, JSON lines, images.
        out: The file for the predictions, as `--out` of `tapeline predict`.
        batch_size: As `--batch-size` of `tapeline predict`.
        outputs: As `--outputs` of `tapeline predict`.
    """
    log.drop_repetition()
    try:
        hold_own(Project.find())
        cancel_late_runs()
        said = answered(model, files, out, batch_size, outputs)
    except (TapelineError, OSError) as error:
        return failed(error)
    return states.Cancelled(message=said.message) if isinstance(said, State) else said


@task(cache_policy=NO_CACHE, retries=0)
def answered(model: str, files: list[str], out: str, batch_size: int | None, outputs: str | None) -> str | State[Any]:
    """Run `tapeline predict`, which dies with this process."""
    monitor = PrefectMonitor()
    try:
        said = answer(model, files, out, batch_size, monitor, outputs)
        monitor.look(at_once=True)
    except Cancelled as cancelled:
        return states.Cancelled(message=str(cancelled))
    monitor.say(said)
    return said
