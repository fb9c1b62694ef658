"""Search over a pipeline's parameters: each trial is an isolated run of the training flow, several at once.

    tapeline sweep --pipeline digits --max accuracy --trials 20 --parallel 2 \\
        --over 'params.learning_rate={low: 0.0005, high: 0.01, log: true}' --over 'train.batch_size=[32, 64, 128]'

`runs.sweep` implements the flow; without a server, `tapeline sweep` calls it directly.
"""

from typing import Any

from prefect import flow, states
from prefect.client.schemas.objects import State

from tapeline.config.project import Project
from tapeline.orchestration.connection import log
from tapeline.orchestration.flows.monitor import Cancelled, PrefectMonitor, failed, hold_own
from tapeline.orchestration.request import Name, Overrides, Ref
from tapeline.orchestration.runs.sweep import search
from tapeline.orchestration.schedules.late_runs import cancel_late_runs
from tapeline.orchestration.schedules.liveness import begin
from tapeline.orchestration.sweeps.request import Goal, Parallel, Seed, Space, SweepRequest, Trials
from tapeline.orchestration.sweeps.study import Tried
from tapeline.runtime.errors import TapelineError

begin()


@flow(name="sweep", retries=0)
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
    seed: Seed = 0,
) -> list[Tried] | State[Any]:
    """Search over a pipeline's parameters, and return the trials, the best first.

    Args:
        pipeline: A name under `pipelines` in params.yaml.
        over: A range, such as {"low": 1, "high": 9}, or a list of choices for each setting.
        metric: The validation metric that ranks the trials.
        goal: Whether to maximize (max) or minimize (min) the metric.
        trials: Total number of trials; run again with a larger number to continue.
        parallel: How many run at once. Empty: a core and 4 GiB of memory for each, at most 8; one where there is a GPU.
        ref: The branch, tag or commit to train. Empty: the main branch as it is when the sweep begins.
        overrides: Values for settings that are not searched over.
        name: The name of the sweep. Empty: that of the pipeline.
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
    """Run the sweep, and return its trials or its final state."""
    log.drop_repetition()
    try:
        request, project = SweepRequest.of(**parameters), Project.find()
        hold_own(project)
        cancel_late_runs()
        monitor = PrefectMonitor()
        ranked = search(request, project, monitor)
        monitor.look(at_once=True)  # a run that is cancelled by now can end as nothing else
    except Cancelled as cancelled:
        return states.Cancelled(message=str(cancelled))
    except (TapelineError, OSError) as error:
        return failed(error)
    return ranked
