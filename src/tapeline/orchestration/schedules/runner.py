"""Run the deployments of `prefect.yaml` in this process' children, without a work pool, for `tapeline serve`.

python -m tapeline.orchestration.schedules.runner
"""

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy
from prefect.deployments.runner import RunnerDeployment
from prefect.events import DeploymentTriggerTypes, TriggerTypes
from prefect.runner import Runner
from prefect.schedules import Schedule as PrefectSchedule
from pydantic import TypeAdapter, ValidationError

from tapeline.config.project import Project
from tapeline.orchestration.schedules.deployments import FILE, Deployment, Limit, Schedule, read
from tapeline.orchestration.schedules.reconciliation import reconciled
from tapeline.runtime.errors import InputError, RunError, TapelineError

ANCHOR = datetime(2020, 1, 1, tzinfo=UTC)
"""Start of all intervals: Prefect's default, the current time, would shift a schedule at each start."""


def main() -> int:
    """Reconcile the server with the file, and run what is due until a signal. Schedules stay active then."""
    runner = Runner(name="tapeline", pause_on_shutdown=False)
    try:
        checkout = Project.find().folder
        wanted = read(checkout / FILE)
        with get_client(sync_client=True) as client:
            found = [served(deployment, checkout) for deployment in wanted]
            lines = reconciled(client, wanted, checkout, lambda: [runner.add_deployment(each) for each in found])
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


def _away(error: httpx.HTTPError) -> int:
    print(
        f"runner: the server does not answer as expected: {type(error).__name__}: {error}".splitlines()[0], flush=True
    )
    return RunError.status


def served(wanted: Deployment, checkout: Path) -> RunnerDeployment:
    """Return a deployment as Prefect serves it."""
    schedules = [_schedule(schedule) for schedule in wanted.schedules]
    return RunnerDeployment.from_entrypoint(
        wanted.entrypoint,
        wanted.name,
        schedules=schedules,
        parameters=wanted.parameters,
        description=wanted.description,
        tags=list(wanted.tags),
        concurrency_limit=_limit(wanted.concurrency_limit),
        triggers=_triggers(wanted),
        paused=wanted.paused,
        version=wanted.version,
        enforce_parameter_schema=wanted.enforce_parameter_schema,
    )


def _schedule(wanted: Schedule) -> PrefectSchedule:
    return PrefectSchedule(
        cron=wanted.cron,
        interval=timedelta(seconds=wanted.interval) if wanted.interval else None,
        anchor_date=datetime.fromisoformat(wanted.anchor_date) if wanted.anchor_date else ANCHOR,
        timezone=wanted.timezone,
        active=wanted.active,
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
