"""The flow that `prefect.yaml` schedules: Tapeline's own. Wrap it in a flow of yours where more is to happen."""

from tapeline.orchestration.flows.training import training

__all__ = ["training"]
