"""Mark runs whose process is gone as crashed, which frees their concurrency slots for the next runs."""

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterDeploymentId,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.client.schemas.sorting import FlowRunSort
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelled, Crashed

from tapeline.config.project import Project
from tapeline.orchestration.schedules.liveness import forget, locks, started_here
from tapeline.orchestration.schedules.reconciliation import deployed

STARTING = 180.0
"""Seconds that a run may take from being submitted until a process reports it as running, on another machine too."""

PAGE = 200

UNFINISHED = (StateType.RUNNING, StateType.PENDING, StateType.CANCELLING, StateType.PAUSED)
"""States of a run that has a process; one that is paused waits for a person in it."""


class DeadRuns:
    """Finds a checkout's dead runs; remembers since when it has seen a run pending."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._waiting: dict[UUID, float] = {}

    def mark(self, client: SyncPrefectClient) -> Iterator[str]:
        """Mark the dead runs, and yield a line for each.

        A run that was started and no longer holds its lock is dead. So is a run that has been pending for `STARTING`
        seconds, unless a process here is starting it: many that start at once take minutes. Runs of other machines are
        unknown here and left alone, except those that never began.
        """
        living = set()
        for flow_run, held in locks(self._project):
            if held:
                living.add(flow_run)
                continue
            with suppress(ObjectNotFound, ValueError):  # a run of a server that is gone too
                yield from _crashed(client, client.read_flow_run(UUID(flow_run)), "its process is gone")
            forget(self._project, flow_run)
        # By our own clock: if the server hung, the process that was to start the run learned of it late as well.
        now = time.monotonic()
        pending = {run.id: run for run in _pending(client, self._project.folder) if str(run.id) not in living}
        self._waiting = {waiting: self._waiting.get(waiting, now) for waiting in pending}
        overdue = [waiting for waiting, since in self._waiting.items() if now - since > STARTING]
        begun = started_here() if overdue else set()
        for waiting in overdue:
            if str(waiting) not in begun:
                yield from _crashed(client, pending[waiting], "it never started")


def _pending(client: SyncPrefectClient, checkout: Path) -> list[FlowRun]:
    ids = [deployment.id for deployment in deployed(client, checkout).values()]
    if not ids:
        return []
    wanted = FlowRunFilter(
        deployment_id=FlowRunFilterDeploymentId(any_=ids),
        state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.PENDING])),
    )
    return client.read_flow_runs(flow_run_filter=wanted, limit=PAGE, sort=FlowRunSort.EXPECTED_START_TIME_ASC)


def _crashed(client: SyncPrefectClient, run: FlowRun, why: str) -> Iterator[str]:
    """Mark an unfinished run as cancelled if that was requested, else as crashed."""
    if run.state_type not in UNFINISHED:
        return
    asked = run.state_type == StateType.CANCELLING
    state: State[Any] = (
        Cancelled(message=why)
        if asked
        else Crashed(message=f"{why}: run it again; a training resumes from its checkpoint")
    )
    client.set_flow_run_state(run.id, state, force=True)
    yield f"run {run.name}: {why}: marked {'cancelled' if asked else 'crashed'}"
