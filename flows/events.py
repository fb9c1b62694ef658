"""What automations can react to: a pipeline was trained, or a model missed its bounds.

An event's resource is `tapeline.pipeline.NAME`; its payload has the metrics, the verdict and the branch.
"""

from typing import Any

from prefect.events import emit_event

from flows.report import Report

TRAINED = "tapeline.trained"
GATE_FAILED = "tapeline.gate-failed"


def tell(report: Report) -> None:
    """Emit what a run has come to: nothing for one that changed nothing, or failed before the gate."""
    words = {name: result.outcome.word for name, result in report.stages.items()}
    if words.get(f"export@{report.pipeline}") == "verdict":
        _emit(GATE_FAILED, report)
    elif report.current("export") and set(words.values()) != {"unchanged"}:
        _emit(TRAINED, report)


def _emit(event: str, report: Report) -> None:
    payload: dict[str, Any] = {
        "metrics": {figure.name: figure.values for figure in report.figures()},
        "verdict": report.verdict(),
        "branch": report.branch,
        "stages": {name: result.outcome.word for name, result in report.stages.items()},
    }
    resource = {
        "prefect.resource.id": f"tapeline.pipeline.{report.pipeline}",
        "prefect.resource.name": report.pipeline,
    }
    emit_event(event, resource=resource, payload=payload)
