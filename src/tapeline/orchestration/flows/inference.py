"""Answer files with a model of the registry, in a child that has TensorFlow; the flow has it not.

tapeline infer --model 'digits#prod' --out answers.csv images.npy
"""

from prefect import flow, task
from prefect.cache_policies import NO_CACHE

from tapeline.orchestration.flows.monitor import PrefectMonitor
from tapeline.orchestration.runs.inference import answer
from tapeline.orchestration.schedules.liveness import begin

begin()


@flow(name="inference")
def inference(model: str, files: list[str], out: str, batch_size: int | None = None, outputs: str | None = None) -> str:
    """Write the answers of a model such as `digits#prod` to a file, and return what was done.

    out, batch_size, outputs: as `--out`, `--batch-size` and `--outputs` of `tapeline predict`.
    A run that is repeated answers with the version that is live then. Raises `InputError` for what does not fit the
    model, `RunError` for what fails on the way; `out` is then left as it was.
    """
    said: str = answered(model, files, out, batch_size, outputs)
    return said


@task(cache_policy=NO_CACHE)
def answered(model: str, files: list[str], out: str, batch_size: int | None, outputs: str | None) -> str:
    """Run `tapeline predict`, which dies with this process."""
    monitor = PrefectMonitor()
    said = answer(model, files, out, batch_size, monitor, outputs)
    monitor.say(said)
    return said
