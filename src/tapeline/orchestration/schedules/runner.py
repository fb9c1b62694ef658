"""Run the deployments of `prefect.yaml` in this process' children, without a work pool, for `tapeline serve`.

python -m tapeline.orchestration.schedules.runner
"""

import asyncio
import inspect
import signal
import sys
import tempfile
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast
from uuid import UUID, uuid4

import httpx
import psutil
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import DeploymentUpdate
from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy
from prefect.deployments.runner import DeploymentApplyError, RunnerDeployment
from prefect.events import DeploymentTriggerTypes, TriggerTypes
from prefect.exceptions import PrefectHTTPStatusError, ScriptError
from prefect.flows import Flow, load_flow_from_entrypoint
from prefect.runner import Runner
from prefect.runner.storage import LocalStorage
from prefect.schedules import Schedule as PrefectSchedule
from prefect.utilities.callables import parameter_schema
from prefect.utilities.schema_tools.validation import validate
from pydantic import TypeAdapter, ValidationError

from tapeline.config.project import Project
from tapeline.orchestration.connection.failures import told
from tapeline.orchestration.schedules.deployments import ANCHOR, FILE, Deployment, Limit, Schedule, read
from tapeline.orchestration.schedules.reconciliation import reconciled
from tapeline.runtime.errors import InputError, RunError, TapelineError
from tapeline.runtime.processes import GRACE

PATIENCE = GRACE / 2
"""Seconds that runs have to end in order."""

REFUSED = (httpx.codes.CONFLICT, httpx.codes.UNPROCESSABLE_ENTITY)
"""How a server answers a mistake."""


class _Runner(Runner):
    """Prefect's runner, which ends its runs by SIGKILL at a SIGTERM, before they can say how they ended.

    Its temporary files would be in a folder that all users of the machine share, and that the first of them owns.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._tmp_dir = Path(tempfile.gettempdir()) / f"tapeline-runner-{uuid4()}"

    def handle_sigterm(self, *args: Any, **kwargs: Any) -> None:
        """Wait for the runs, which get the signal from the same process; then end as Prefect's does."""
        psutil.wait_procs(psutil.Process().children(), timeout=PATIENCE)
        sys.exit(0)


def main() -> int:
    """Reconcile the server with the file, and run what is due until a signal. Schedules stay active then."""
    runner = _Runner(name="tapeline", pause_on_shutdown=False)
    signal.signal(signal.SIGTERM, runner.handle_sigterm)  # by itself it does so once it has started
    try:
        checkout = Project.find().folder
        wanted = read(checkout / FILE)
        ready = [served(deployment, checkout) for deployment in wanted]
        with get_client(sync_client=True) as client:
            named = {each.full_name: deployment for each, deployment in zip(ready, wanted, strict=True)}

            def create() -> None:
                for deployment in ready:
                    _register(client, runner, deployment, checkout)

            lines = reconciled(client, named, checkout, create)
    except TapelineError as error:
        print(f"runner: {error}", flush=True)
        return error.status
    except httpx.HTTPError as error:
        return _away(error)
    print("\n".join(lines or ["deployments are unchanged"]), flush=True)
    try:
        asyncio.run(runner.start())
    except httpx.HTTPError as error:
        return _away(error)
    return 0


def _register(client: SyncPrefectClient, runner: Runner, deployment: RunnerDeployment, checkout: Path) -> None:
    """Let the server have a deployment, and the runner run it in the checkout.

    Without the step, Prefect copies the deployment's path into the working directory before each run; it sends the step
    of a deployment that it creates only for a work pool, and the path of one that exists never. Raises `InputError` for
    what the server does not accept, and its errors.
    """
    try:
        identity = cast("UUID", runner.add_deployment(deployment))  # a coroutine in an event loop alone
    except (PrefectHTTPStatusError, DeploymentApplyError) as error:
        cause = error.__cause__ if isinstance(error, DeploymentApplyError) else error
        if isinstance(cause, PrefectHTTPStatusError) and cause.response.status_code in REFUSED:
            raise InputError(
                f"{FILE}: the server rejects {deployment.full_name}: {cause.response.text[:300]}"
            ) from None
        raise cause or error from None
    step = LocalStorage(str(checkout)).to_pull_step()
    client.update_deployment(identity, DeploymentUpdate(path=str(checkout), pull_steps=[step]))


def _away(error: httpx.HTTPError) -> int:
    print(f"runner: {told(error)}", flush=True)
    return RunError.status


def served(wanted: Deployment, checkout: Path) -> RunnerDeployment:
    """Return a deployment as Prefect serves it: in the checkout, and in no work pool.

    Raises `InputError` for a flow that cannot be loaded, and for parameters that it does not take.
    """
    _check(wanted, checkout)
    schedules = [_schedule(schedule) for schedule in wanted.schedules]
    deployment = RunnerDeployment.from_entrypoint(
        wanted.entrypoint,
        wanted.name,
        schedules=schedules,
        parameters=wanted.parameters,
        description=wanted.description,
        tags=list(wanted.tags),
        concurrency_limit=_limit(wanted.concurrency_limit),
        triggers=_triggers(wanted),
        paused=bool(wanted.paused),
        version=wanted.version,
        enforce_parameter_schema=wanted.enforce_parameter_schema,
    )
    deployment.storage = LocalStorage(str(checkout))
    deployment.work_pool_name = None  # what is not set is not sent
    deployment.work_queue_name = None
    return deployment


def _check(wanted: Deployment, checkout: Path) -> None:
    """Raise `InputError` if a deployment's flow cannot be loaded, or does not take the parameters."""
    about = f"{FILE}: {wanted.full_name}"
    file = wanted.entrypoint.rpartition(":")[0]
    if not (checkout / file).is_file():
        raise InputError(f"{about}: there is no file {file}")
    try:
        flow: Flow[..., Any] = load_flow_from_entrypoint(wanted.entrypoint, use_placeholder_flow=False)
    except (Exception, SystemExit) as error:
        cause = error.user_exc if isinstance(error, ScriptError) else error
        raise InputError(f"{about}: {file} cannot be loaded: {type(cause).__name__}: {str(cause).strip()}") from None
    taken = inspect.signature(flow.fn).parameters
    is_open = any(each.kind is each.VAR_KEYWORD for each in taken.values())
    schema = parameter_schema(flow).model_dump(exclude_unset=True)
    for parameters in (wanted.parameters, *(schedule.parameters for schedule in wanted.schedules)):
        for name in parameters.keys() - (parameters.keys() if is_open else taken.keys()):
            raise InputError(f"{about}: parameters.{name}: the flow has no such parameter: it has {', '.join(taken)}")
        for wrong in validate(parameters, schema, ignore_required=True) if wanted.enforce_parameter_schema else ():
            raise InputError(f"{about}: {'.'.join(('parameters', *map(str, wrong.path)))}: {wrong.message}")


def _schedule(wanted: Schedule) -> PrefectSchedule:
    return PrefectSchedule(
        cron=wanted.cron,
        interval=timedelta(seconds=wanted.interval) if wanted.interval else None,
        anchor_date=datetime.fromisoformat(wanted.anchor_date) if wanted.anchor_date else ANCHOR,
        timezone=wanted.timezone,
        active=wanted.active is not False,
        parameters=wanted.parameters,
        slug=wanted.slug,
    )


def _triggers(wanted: Deployment) -> list[DeploymentTriggerTypes | TriggerTypes]:
    """Return the event triggers of a deployment. Raises `InputError` for those that Prefect does not accept."""
    try:
        return [
            TypeAdapter(DeploymentTriggerTypes).validate_python({"name": f"{wanted.name} {number}"} | trigger)
            for number, trigger in enumerate(wanted.triggers, start=1)
        ]
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"{FILE}: triggers of {wanted.name}: {first['loc'][-1]}: {first['msg']}") from None


def _limit(limit: Limit | int | None) -> ConcurrencyLimitConfig | int | None:
    if not isinstance(limit, Limit):
        return limit
    return ConcurrencyLimitConfig(
        limit=limit.limit,
        collision_strategy=ConcurrencyLimitStrategy(limit.collision_strategy),
        grace_period_seconds=limit.grace_period_seconds,
    )


if __name__ == "__main__":
    sys.exit(main())
