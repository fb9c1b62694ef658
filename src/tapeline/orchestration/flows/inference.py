"""Answer files with a model of the registry, in a child that has TensorFlow; the flow has it not.

tapeline infer --model 'digits#prod' --out answers.csv images.npy
"""

from typing import Any

from prefect import flow, states, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State

from tapeline.config.project import Project
from tapeline.orchestration.flows.monitor import Cancelled, PrefectMonitor, failed, hold_own
from tapeline.orchestration.request import Text
from tapeline.orchestration.runs.inference import answer
from tapeline.orchestration.schedules.liveness import begin
from tapeline.runtime.errors import TapelineError

begin()


@flow(name="inference")
def inference(
    model: Text, files: list[Text], out: Text, batch_size: int | None = None, outputs: Text | None = None
) -> str | State[Any]:
    """Write the answers of a model such as `digits#prod` to a file, and return what was done.

    A run that is repeated answers with the version that is live then, and continues what a stopped one has left. Raises
    `InputError` for what does not fit the model, `RunError` for what fails on the way; `out` is then left as it was.

    Args:
        model: A model of the registry, such as digits#prod.
        files: What is answered: .npy, .npz, CSV, JSON lines, images.
        out: The file of the answers, as `--out` of `tapeline predict`.
        batch_size: As its `--batch-size`.
        outputs: As its `--outputs`.
    """
    try:
        hold_own(Project.find())
        said = answered(model, files, out, batch_size, outputs)
    except TapelineError as error:
        return failed(error)
    return states.Cancelled(message=said.message) if isinstance(said, State) else said


@task(cache_policy=NO_CACHE)
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
