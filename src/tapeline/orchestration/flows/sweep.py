"""Search over a pipeline's parameters: each trial is an isolated run of the training flow, several at once.

    tapeline sweep --pipeline digits --max accuracy --trials 20 --parallel 2 \\
        --over 'params.learning_rate={low: 0.0005, high: 0.01, log: true}' --over 'train.batch_size=[32, 64, 128]'

`runs.sweep` is what the flow does, and `tapeline sweep` does the same where there is no server.
"""

from typing import Any

from prefect import flow, states
from prefect.client.schemas.objects import State

from tapeline.config.project import Project
from tapeline.orchestration.connection import log
from tapeline.orchestration.flows.monitor import Cancelled, PrefectMonitor, failed, hold_own
from tapeline.orchestration.request import Name, Overrides, Ref
from tapeline.orchestration.runs.sweep import search
from tapeline.orchestration.schedules.liveness import begin
from tapeline.orchestration.sweeps.request import Goal, Parallel, Space, SweepRequest, Trials
from tapeline.orchestration.sweeps.study import Tried
from tapeline.runtime.errors import TapelineError

begin()


@flow(name="sweep")
def sweep(
    pipeline: Name,
    over: Space,
    metric: str,
    goal: Goal,
    trials: Trials = 20,
    parallel: Parallel | None = None,
    ref: Ref = "",
    overrides: Overrides | None = None,
    name: str = "",
    seed: int = 0,
) -> list[Tried] | State[Any]:
    """Search over a pipeline's parameters, and return what was tried, the best first.

    Args:
        pipeline: A name under `pipelines` in params.yaml.
        over: For each setting a range, such as {"low": 1, "high": 9}, or a list of choices.
        metric: The metric of the validation split by which trials are ranked.
        goal: Whether more of it is better (max) or less (min).
        trials: Total number of trials; call again with a larger number to continue.
        parallel: How many run at once. Empty: a core and 4 GiB of memory for each, at most 8; one where there is a GPU.
        ref: The branch, tag or commit that is trained. Empty: the main branch as it is when the sweep begins.
        overrides: Other values for settings that are not searched over.
        name: What the sweep is called. Empty: as the pipeline.
        seed: Seed of the sampler.
    """
    return _ended(
        pipeline=pipeline,
        over=over,
        metric=metric,
        goal=goal,
        trials=trials,
        parallel=parallel,
        ref=ref,
        overrides=overrides or {},
        name=name,
        seed=seed,
    )


def _ended(**parameters: Any) -> list[Tried] | State[Any]:
    """Do what the flow is for, and return the trials or its failure."""
    log.drop_repetition()
    try:
        request, project = SweepRequest.of(**parameters), Project.find()
        hold_own(project)
        monitor = PrefectMonitor()
        ranked = search(request, project, monitor)
        monitor.look(at_once=True)  # a run that is cancelled by now can end as nothing else
    except Cancelled as cancelled:
        return states.Cancelled(message=str(cancelled))
    except TapelineError as error:
        return failed(error)
    return ranked
