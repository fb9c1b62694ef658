"""One trial of a sweep: an isolated run of the training flow in its own process, and its result."""

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import optuna

from tapeline.orchestration.request import settings
from tapeline.orchestration.stages.child import Child, environment
from tapeline.orchestration.sweeps.request import SweepRequest
from tapeline.parsing import json_text
from tapeline.runtime import files
from tapeline.runtime.errors import InputError
from tapeline.runtime.interpreter import with_this_code

VALIDATION = "val"
"""The split that ranks the trials: the test split is kept for the winner's final metrics."""


@dataclass(frozen=True)
class Trial:
    """A running trial; `report` and `log` are the files that it writes."""

    trial: optuna.Trial
    child: Child
    report: Path
    log: Path

    @property
    def done(self) -> bool:
        """Whether the run has ended."""
        return self.child.returncode is not None

    def result(self) -> dict[str, Any] | None:
        """Return the run's report; None if it wrote none."""
        try:
            return json_text.mapping(files.read_bytes(self.report)) if self.report.exists() else None
        except json_text.NotJson:  # the run was killed, or the disk was full
            return None

    def failure(self, metric: str) -> str:
        """Return why the trial has no value of a metric, in a line; empty if it has one, or if nothing measures it."""
        result = self.result()
        if result and metric in result.get("not_finite", ()):
            return f"{metric} is not finite"
        return "" if result and result["metrics"] else self.last_words()

    def last_words(self) -> str:
        """Return the last line of the run's output."""
        lines = files.read_bytes(self.log).decode("utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit status {self.child.returncode}"


def command(request: SweepRequest, commit: str, values: Mapping[str, Any], report: Path) -> list[str]:
    """Return the arguments of `tapeline` for the run that tries these values."""
    run = ["run", "--pipeline", request.pipeline, "--isolated", "--ref", commit]
    return [
        *run,
        *settings({**request.overrides, **values}),
        "--report",
        str(report),
        "--no-page",
        "--tag",
        request.name,
    ]


def start(request: SweepRequest, commit: str, trial: optuna.Trial, *, folder: Path, checkout: Path) -> Trial:
    """Start a trial, whose output goes to `folder/NUMBER.log`."""
    log, report = folder / f"{trial.number}.log", folder / f"{trial.number}.json"
    report.unlink(missing_ok=True)
    with os.fdopen(files.own(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as output:
        return Trial(trial, _child(command(request, commit, trial.params, report), checkout, output), report, log)


def _child(arguments: list[str], checkout: Path, output: IO[bytes]) -> Child:
    return Child.of_flow("tapeline", arguments, cwd=checkout, env={**environment(), **with_this_code()}, output=output)


def value(result: Mapping[str, Any], metric: str) -> float:
    """Return the metric that ranks the trials. Raises `InputError` if the pipeline does not have it."""
    metrics = {name: splits[VALIDATION] for name, splits in result["metrics"].items() if VALIDATION in splits}
    check_metric(metric, result["pipeline"], metrics)
    return float(metrics[metric])


def check_metric(metric: str, pipeline: str, known: Collection[str]) -> None:
    """Raise `InputError` if a pipeline's validation does not measure the metric that ranks the trials."""
    if metric not in known:
        has = f"it has {', '.join(known)}" if known else "it has no metrics of a validation split"
        raise InputError(f"metric is {metric!r}, which {pipeline} does not measure in validation: {has}")
