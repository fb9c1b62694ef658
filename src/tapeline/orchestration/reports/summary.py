"""The result of a flow run, and a summary for the terminal; `page` renders it as a page."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tapeline.config.project import Project
from tapeline.orchestration.request import Request
from tapeline.orchestration.stages.outcome import Outcome
from tapeline.parsing import json_text
from tapeline.repository.measured import by_split
from tapeline.repository.recorded import Recorded
from tapeline.runtime import files
from tapeline.runtime.errors import InputError, TapelineError


@dataclass(frozen=True)
class StageResult:
    """How one stage went, and how long bringing it up to date took."""

    outcome: Outcome
    seconds: float
    attempts: int = 1


@dataclass(frozen=True)
class Figure:
    """One metric: its value on each split, the tested split first, and the verdict's bound on it."""

    name: str
    values: dict[str, float]
    bound: str = ""
    holds: bool = True


@dataclass
class Report:
    """One run of the training flow, stage by stage in the order in which they ran."""

    pipeline: str
    project: Project
    request: Request | None = None
    """The request, if known."""
    stages: dict[str, StageResult] = field(default_factory=dict)
    branch: str | None = None
    """Where an isolated run was committed."""
    version: str | None = None
    """The tag of the registered version."""
    finished: Recorded | None = None
    """The record of an identical earlier run, so that there was nothing to do."""
    compared: dict[str, dict[str, float]] = field(default_factory=dict)
    """The metrics of other runs, by the run's title."""
    _read_files: dict[Path, dict[str, Any]] = field(default_factory=dict, repr=False)

    def keep(self) -> None:
        """Read the stages' files now: they may be gone when the report is rendered."""
        self.verdict()
        self.figures()

    def current(self, kind: str) -> bool:
        """Return whether the pipeline's stage is up to date, so that its outputs belong to this run."""
        result = self.stages.get(f"{kind}@{self.pipeline}")
        return bool(result and result.outcome.ok)

    @property
    def ok(self) -> bool:
        """Whether no stage has failed."""
        return all(result.outcome.ok for result in self.stages.values())

    def check(self) -> None:
        """Raise `PipelineFailed` if a stage failed."""
        for name, result in self.stages.items():
            if not result.outcome.ok:
                raise PipelineFailed(name, result.outcome, self)

    def headline(self) -> str:
        """Return what happened in a few words: `ran train@digits, validate@digits`."""
        if self.finished:
            return f"{self.finished.name} has the same data, parameters, code and environment"
        words: dict[str, list[str]] = {}
        for name, result in self.stages.items():
            words.setdefault(result.outcome.word, []).append(name)
        unchanged = words.pop("unchanged", [])
        return "; ".join(f"{word} {', '.join(names)}" for word, names in words.items()) or (
            "nothing to do" if unchanged else "no stages"
        )

    def model(self) -> str | None:
        """Return the exported model's path, relative to the project's folder."""
        folder = self.project.model(self.pipeline)
        return str(folder.relative_to(self.project.folder)) if self.current("export") else None

    def verdict(self) -> str | None:
        """Return validate's verdict as one phrase."""
        verdict = self._read("validate", "verdict.json")
        return f"{verdict.get('verdict')}: {verdict.get('reason')}".removesuffix(": ") if verdict else None

    def figures(self) -> list[Figure]:
        """Return all metrics of the stages that are up to date, or of the finished run."""
        verdict, tested = self._read("validate", "verdict.json"), self._read("validate", "metrics.json")
        trained = self._read("train", "metrics.json")
        checks = {check["metric"]: check for check in _checks(verdict)}
        metrics = by_split(tested=tested, trained=trained, split=str(verdict.get("split", "test")))
        return [Figure(name, values, **_check(checks.get(name))) for name, values in metrics.items()]

    def not_finite(self) -> list[str]:
        """Return the metrics of the `val` split that are not finite, and so have no figure."""
        measured = self._read("train", "metrics.json").get("val")
        return [name for name, value in measured.items() if value is None] if isinstance(measured, dict) else []

    def _read(self, kind: str, file: str) -> dict[str, Any]:
        path: Path = self.project.run(self.pipeline, kind) / file
        if self.finished:
            return self.finished.json(path.relative_to(self.project.folder).as_posix())
        if not self.current(kind):
            return {}
        if path not in self._read_files:
            self._read_files[path] = _content(path)
        return self._read_files[path]


def _content(path: Path) -> dict[str, Any]:
    """Return the content of a JSON output. Raises `InputError` if it was altered, although DVC accepted it."""
    try:
        return json_text.mapping(files.read_bytes(path))
    except json_text.NotJson as error:
        raise InputError(f"{path} is not JSON, so it was altered: {error}") from None


def _checks(verdict: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a verdict's well-formed checks: those with a metric, its bounds and the result."""
    checks = verdict.get("checks")
    found = [check for check in checks if isinstance(check, dict)] if isinstance(checks, list) else []
    return [
        check
        for check in found
        if isinstance(check.get("metric"), str)
        and all(key in check and isinstance(check[key], int | float | None) for key in ("min", "max"))
        and "holds" in check
    ]


class PipelineFailed(TapelineError):
    """A stage failed, and the flow with it; `outcome` says how, `report` what came before."""

    def __init__(self, stage: str, outcome: Outcome, report: Report) -> None:
        super().__init__(outcome.message)
        self.stage, self.status, self.outcome, self.report = stage, outcome.status, outcome.word, report


def _check(check: dict[str, Any] | None) -> dict[str, Any]:
    if check is None:
        return {}
    bounds = [f"{sign} {check[side]:g}" for sign, side in (("≥", "min"), ("≤", "max")) if check[side] is not None]
    return {"bound": ", ".join(bounds), "holds": check["holds"]}


def as_json(report: Report) -> dict[str, Any]:
    """Return the report for a program that started the run."""
    return {
        "pipeline": report.pipeline,
        "branch": report.branch,
        "version": report.version,
        "nothing_new": report.finished.name if report.finished else None,
        "verdict": report.verdict(),
        "metrics": {figure.name: figure.values for figure in report.figures()},
        "stages": {name: result.outcome.word for name, result in report.stages.items()},
        **({"not_finite": names} if (names := report.not_finite()) else {}),
    }


def summary(report: Report) -> str:
    """Return the report as a few lines for a terminal."""
    width = max(map(len, report.stages), default=0)
    lines = [f"{name:{width}}  {_how(result)}" for name, result in report.stages.items()]
    if report.finished:
        lines.append(f"nothing new: {report.headline()}")
    if report.branch:
        lines.append(f"branch {report.branch}")
    if report.version:
        lines.append(f"version {report.version}")
    if verdict := report.verdict():
        figures = [f"{figure.name} {next(iter(figure.values.values())):.4g}" for figure in _tested(report)]
        lines.append("  ".join([f"verdict {verdict}", *figures]))
    if model := report.model():
        lines.append(f"model {model}")
    return "\n".join(lines)


def _how(result: StageResult) -> str:
    if result.outcome.word == "unchanged":
        return "unchanged"
    return f"{word(result):9}  {result.seconds:7.1f} s"


def word(result: StageResult) -> str:
    """Return how a stage went, and the attempt if it was not the first."""
    return result.outcome.word + (f", attempt {result.attempts}" if result.attempts > 1 else "")


def _tested(report: Report) -> list[Figure]:
    """Return the metrics with bounds in the verdict, else the first few."""
    figures = report.figures()
    return [figure for figure in figures if figure.bound] or figures[:3]
