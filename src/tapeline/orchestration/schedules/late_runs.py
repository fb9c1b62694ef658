"""Collapse late runs: after downtime every missed run is late, and one is enough, so the first cancels the others."""

from uuid import UUID

import httpx
from prefect import get_run_logger, runtime
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterDeploymentId,
    FlowRunFilterExpectedStartTime,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import StateType
from prefect.client.schemas.sorting import FlowRunSort
from prefect.states import Cancelled
from prefect.types import DateTime

PAGE = 200


def cancel_late_runs() -> None:
    """Cancel other late runs that this one covers. A server that does not answer must not end the run."""
    try:
        if not runtime.deployment.id:  # which asks the server, too
            return
        with get_client(sync_client=True) as client:
            if taken := collapse(client, UUID(str(runtime.flow_run.id))):
                get_run_logger().info(f"{taken} more late runs cancelled: this one covers them")
    except httpx.HTTPError as error:
        get_run_logger().warning(f"could not cancel late runs: {error!r}")


def collapse(client: SyncPrefectClient, flow_run: UUID) -> int:
    """Cancel the overdue scheduled runs of this run's deployment, and return how many there were.

    Does nothing unless this run was created by a schedule; cancels only such runs with the same parameters.
    """
    this = client.read_flow_run(flow_run)
    if not this.auto_scheduled or this.deployment_id is None:
        return 0
    waiting = FlowRunFilter(
        deployment_id=FlowRunFilterDeploymentId(any_=[this.deployment_id]),
        state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.SCHEDULED])),
        expected_start_time=FlowRunFilterExpectedStartTime(before_=DateTime.now("UTC")),
    )
    cancelled = 0
    for run in client.read_flow_runs(flow_run_filter=waiting, limit=PAGE, sort=FlowRunSort.EXPECTED_START_TIME_ASC):
        if run.auto_scheduled and run.parameters == this.parameters and run.id != this.id:
            client.set_flow_run_state(run.id, Cancelled(message=f"late: covered by run {this.name}"))
            cancelled += 1
    return cancelled
