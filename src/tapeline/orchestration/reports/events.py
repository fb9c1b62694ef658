"""Events for automations: a pipeline was trained or missed its bounds, a model was promoted, or data have changed.

A run's event has the resource `tapeline.pipeline.NAME` with the metrics, the verdict and the branch. The event of a
promotion, or of a promotion that its gate refused, has `tapeline.model.NAME` with the version and the stage.
`data_changes` uses `tapeline.dataset.NAME`. Each has the project's name, too: two projects on a server may have the
same pipeline.
"""

from collections.abc import Mapping
from typing import Any, Literal

from prefect.client.orchestration import SyncPrefectClient
from prefect.events import Event, Resource, emit_event

from tapeline.config.project import STATE, Project
from tapeline.orchestration.reports.summary import Report

TRAINED = "tapeline.trained"
GATE_FAILED = "tapeline.gate-failed"
PROMOTED = "tapeline.promoted"
DATA_CHANGED = "tapeline.data-changed"
Kind = Literal["pipeline", "model", "dataset"]

PROJECT = "tapeline.project"
"""The label with the name of the project's folder."""


def tell(report: Report) -> None:
    """Emit a run's result: nothing for a run that changed nothing, or failed before the gate."""
    words = {name: result.outcome.word for name, result in report.stages.items()}
    payload: dict[str, Any] = {
        "metrics": {figure.name: figure.values for figure in report.figures()},
        "verdict": report.verdict(),
        "branch": report.branch,
        "version": report.version,
        "stages": words,
    }
    if words.get(f"export@{report.pipeline}") == "verdict":
        emit(report.project, GATE_FAILED, kind="pipeline", name=report.pipeline, payload=payload)
    elif report.current("export") and set(words.values()) != {"unchanged"}:
        emit(report.project, TRAINED, kind="pipeline", name=report.pipeline, payload=payload)


def tell_promoted(
    project: Project, model: str, *, version: str, stage: str, replaced: str | None, metrics: Mapping[str, float]
) -> None:
    """Emit that a version of a model has taken a stage; `replaced` is the version that had it before."""
    payload = {"version": version, "stage": stage, "replaced": replaced, "metrics": dict(metrics)}
    emit(project, PROMOTED, kind="model", name=model, payload=payload)


def tell_refused(project: Project, model: str, *, version: str, stage: str, reason: str) -> None:
    """Emit that the gate of a stage has refused a version of a model, and why."""
    emit(project, GATE_FAILED, kind="model", name=model, payload={"version": version, "stage": stage, "reason": reason})


def emit(project: Project, event: str, *, kind: Kind, name: str, payload: Mapping[str, Any]) -> None:
    """Emit an event in the background: finished work must not fail because the server is unreachable."""
    emit_event(event, resource=resource(project, kind, name), payload=dict(payload))


def send(
    client: SyncPrefectClient, project: Project, event: str, *, kind: Kind, name: str, payload: Mapping[str, Any]
) -> None:
    """Send an event and wait until the server has it. Raises httpx's errors."""
    content = Event(event=event, resource=Resource(resource(project, kind, name)), payload=dict(payload)).model_dump(
        mode="json"
    )
    client.request("POST", "/events", json=[content]).raise_for_status()


def resource(project: Project, kind: Kind, name: str) -> dict[str, str]:
    """Return an event's resource, as triggers match it."""
    return {
        "prefect.resource.id": f"tapeline.{kind}.{name}",
        "prefect.resource.name": name,
        PROJECT: _name(project),
    }


def _name(project: Project) -> str:
    """Return the name of a project's folder, for a worktree that of the main checkout."""
    return (project.shared.parent if project.shared.name == STATE else project.shared).name
