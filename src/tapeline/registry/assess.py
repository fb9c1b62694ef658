"""Decide whether a version may go into a stage: both models predict, each in a fresh process, and the gate judges."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapeline.config.project import PARAMS
from tapeline.config.registry import CheckSettings, GateSettings
from tapeline.registry.gate import classes, columns, decision, examples, probing
from tapeline.registry.gate.decision import Contender
from tapeline.registry.gate.examples import Examples
from tapeline.registry.gate.measures import Target
from tapeline.registry.gate.probing import Answer
from tapeline.registry.gate.verdict import Verdict
from tapeline.registry.model import SAVED_MODEL, Model
from tapeline.registry.registry import Registry
from tapeline.registry.tags.state import Version
from tapeline.repository.places import may_write
from tapeline.runtime import scratch
from tapeline.runtime.errors import InputError
from tapeline.runtime.saved_models import DEFAULT
from tapeline.validate import finite
from tapeline.validate.verdict import judge


def assess(registry: Registry, version: Version, stage: str) -> Verdict:
    """Return the verdict, and write it to a file where this user may. Changes nothing that is live.

    Raises `InputError` for missing or altered bytes, and for a gate that requires what cannot be measured.
    """
    wanted = registry.settings.stages[registry.stage(stage)]
    asked = registry.settings.model(version.name)
    live = registry.state(version.name).live(stage)
    champion = registry.version_numbered(version.name, live.version) if live else None
    is_live = champion is not None and champion.number == version.number
    if is_live:
        champion = None
    model = Model.of(registry, version)  # checks that every byte is there, even without a gate or a check
    data: dict[str, Any] = {}
    checks: list[dict[str, Any]] = []
    figures: dict[str, Any] = {}
    if wanted.gate or wanted.check:
        with scratch.folder("assess") as made:
            trial = _Trial(registry, version, model, champion if wanted.gate else None, made, asked.gate, asked.check)
            checks += trial.failures()
            if wanted.check:
                checks += trial.infra()
                figures = trial.figures()
            if wanted.gate and not trial.answer.failures:
                checks += trial.gate()
                checks += trial.thresholds()
                checks += trial.split()
                data = trial.data()
    number = champion.number if champion else None
    verdict = Verdict(version.name, version.number, stage, number, data, tuple(checks), figures, is_live)
    if may_write(registry.work / "verdicts" / "any"):
        verdict.write(registry.work)
    return verdict


class _Trial:
    """One challenger and its champion on the challenger's test data."""

    def __init__(
        self,
        registry: Registry,
        version: Version,
        model: Model,
        champion: Version | None,
        folder: Path,
        gate_settings: GateSettings,
        check: CheckSettings,
    ) -> None:
        self._registry, self._version, self._model = registry, version, model
        self._champion, self._folder, self._gate, self._check = champion, folder, gate_settings, check
        recorded = registry.recorded(version)
        self._examples = Examples.open(registry.store, recorded.data(self._model.dataset), self._model.split)
        self._inputs = self._examples.inputs(self._model.signatures[DEFAULT], self._model.own_inputs)
        predictions = registry.store.bring(recorded.predictions)
        self.answer = self._ask(version, self._model, self._inputs or {}, tried=True, recorded=predictions)

    def _ask(
        self, version: Version, model: Model, inputs: Mapping[str, Path], *, tried: bool, recorded: Path | None
    ) -> Answer:
        folder = self._folder / version.number
        folder.mkdir()
        found = self._registry.contents(version)
        self._registry.store.write(found.md5, folder, sums=found.sums)
        return probing.run(
            folder / SAVED_MODEL,
            model.signatures if tried else {},
            inputs,
            recorded=recorded,
            tolerance=self._registry.deciding.pipeline(version.name).export.tolerance,
            settings=self._check,
        )

    def figures(self) -> dict[str, Any]:
        return {**self.answer.figures, "size_mb": self._model.bytes / 2**20}

    def failures(self) -> list[dict[str, Any]]:
        """Return a failed check for each of the model's failures."""
        return [{"kind": "infra", "said": line, "holds": False} for line in self.answer.failures]

    def infra(self) -> list[dict[str, Any]]:
        """Return a check that the model loads and answers, unless it failed, and the checks of its figures."""
        sizes = ", ".join(str(size) for size in self.answer.figures.get("batch_sizes", ()))
        sandbox = self.answer.figures.get("sandbox", "")
        said = f"loads, and answers batches of {sizes} as recorded; sandbox: {sandbox}"
        checks = [] if self.answer.failures else [{"kind": "infra", "said": said, "holds": True}]
        return [*checks, *within(self._check, self.figures())]

    def gate(self) -> list[dict[str, Any]]:
        target = self._target()
        answers, _ = self._by_name(self._version, self._model, self.answer, target)
        challenger = self._contender(self._version, self._model, answers)
        champion, failures = self._opponent(target)
        features = {asked.feature: np.asarray(self._examples.column(asked.feature)) for asked in self._gate.slices}
        return failures + decision.judge(self._gate, challenger, champion, target, features)

    def thresholds(self) -> list[dict[str, Any]]:
        """Return the pipeline's thresholds once more, by the trust policy's ref: the model's commit may have others."""
        if self._registry.authority is None:
            return []
        asked = self._registry.deciding.pipeline(self._version.name).validate_.thresholds
        return [{"kind": "threshold", **check} for check in judge(self._model.metrics, asked)["checks"]]

    def split(self) -> list[dict[str, Any]]:
        """Return a failed check for a version that was validated, and so is tested, on another split than is asked."""
        asked, used = self._registry.deciding.pipeline(self._version.name).validate_.split, self._model.split
        said = f"was validated on {used}, and {PARAMS} asks for {asked}"
        return [] if used == asked else [{"kind": "split", "said": said, "holds": False}]

    def _contender(self, version: Version, model: Model, answers: Mapping[str, NDArray[Any]]) -> Contender:
        tested_on = f"{self._registry.recorded(version).data(model.dataset)} {model.split}"
        return Contender(version.number, model.metrics, answers, tested_on)

    def _opponent(self, target: Target | None) -> tuple[Contender | None, list[dict[str, Any]]]:
        """Return the champion with its answers on the same examples, or a failed check that says why there are none."""
        if self._champion is None:
            return None, []
        model = Model.of(self._registry, self._champion)
        if target is None:
            return self._contender(self._champion, model, {}), []
        try:
            answer = self._ask(
                self._champion, model, self._inputs_of(self._champion, model), tried=False, recorded=None
            )
            if why := next(iter((*answer.failures, *finite.faults(answer.predictions))), None):
                raise InputError(why)
            answer = self._by_column(model, answer, target)
            if target.of_target(answer.predictions) is None:
                raise InputError(f"it does not predict {target.name}")
            answers, notes = self._by_name(self._champion, model, answer, target)
        except InputError as error:
            said = f"the champion {self._champion.tag.name} cannot be compared: {error}"
            return None, [{"kind": "infra", "said": said, "holds": False}]
        return self._contender(self._champion, model, answers), notes

    def _inputs_of(self, version: Version, model: Model) -> dict[str, Path]:
        """Return the examples as the champion takes them: its features, by its table columns, in its order.

        Raises `InputError` where an input of its is no feature of the test data, or means something else there.
        """
        found = {}
        for name in model.signatures[DEFAULT]["inputs"]:
            if name in model.own_inputs:
                raise InputError(f"its input {name} is not the feature {name}")
            if (file := self._examples.files.get(name)) is None:
                raise InputError(f"its input {name} is not a feature of the test data")
            if classes := self._examples.classes(name):
                md5 = self._registry.recorded(version).trained_on(model.dataset)
                known = examples.features(self._registry.store, md5).get(name, {}).get("classes") or ()
                if tuple(known) != classes:
                    raise InputError(f"its input {name} has other classes")
            theirs, ours = self._columns(model, name)
            if theirs == ours:
                found[name] = file
                continue
            found[name] = self._folder / f"champion-{len(found)}.npy"
            np.save(found[name], columns.given(self._examples.column(name), theirs, ours, name))
        return found

    def _columns(self, model: Model, name: str) -> tuple[Sequence[str], Sequence[str]]:
        """Return the table columns of a feature, the champion's and the challenger's; none where one is unknown."""
        theirs, ours = ((one.columns or {}).get(name) for one in (model, self._model))
        return (theirs, ours) if theirs and ours else ((), ())

    def _by_column(self, model: Model, answer: Answer, target: Target) -> Answer:
        """Return the champion's answers with the test data's columns of the target, in its order."""
        theirs, ours = self._columns(model, target.name)
        output = "class" if target.classifier else target.name
        if theirs == ours or output not in answer.predictions:
            return answer
        found = columns.answered(answer.predictions[output], theirs, ours, target.name)
        return replace(answer, predictions={**answer.predictions, output: found})

    def _by_name(
        self, version: Version, model: Model, answer: Answer, target: Target | None
    ) -> tuple[Mapping[str, NDArray[Any]], list[dict[str, Any]]]:
        """Return a version's answers with the test data's class ids, and checks that describe how the classes differ.

        The model itself answers with the class ids of its training data.
        """
        md5 = self._registry.recorded(version).trained_on(model.dataset)
        if target is None or not target.classifier or md5 == self._examples.md5:
            return answer.predictions, []
        known = classes.label(examples.features(self._registry.store, md5), target.name)
        if known is None:
            raise InputError(f"the data that {version.tag.name} was trained on has no class names of {target.name}")
        answers = classes.aligned(answer.predictions, known, target.classes)
        lines = classes.changes(known, target.classes, version.tag.name)
        return answers, [{"kind": "classes", "said": line, "holds": True} for line in lines]

    def _target(self) -> Target | None:
        """Return what both models predict; None for a model of which only recorded metrics can be judged."""
        if self._inputs is None or self.answer.failures:
            return None
        name = self._examples.target(self._model.signatures[DEFAULT], self._gate.target)
        if name is None:
            return None
        actual = np.asarray(self._examples.column(name))
        bins = self._registry.deciding.pipeline(self._version.name).validate_.calibration_bins
        target = Target(name, actual, self._examples.classes(name), bins)
        if target.of_target(self.answer.predictions) is None:
            raise InputError(f"gate.target is {name!r}, and the model answers {', '.join(self.answer.predictions)}")
        return target

    def data(self) -> dict[str, Any]:
        name = next(iter(self._examples.files))
        count = len(self._examples.column(name))
        return {
            "dataset": self._model.dataset,
            "md5": self._examples.md5,
            "split": self._examples.split,
            "examples": count,
        }


def within(asked: CheckSettings, figures: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a check for each figure that has a bound and was measured."""
    latency = figures.get("latency_ms", {})
    for metric, value, most in (
        ("latency_p50_ms", latency.get("p50"), asked.latency_p50_ms),
        ("latency_p99_ms", latency.get("p99"), asked.latency_p99_ms),
        ("memory_mb", figures.get("memory_mb"), asked.memory_mb),  # the peak, which polling can miss
        ("size_mb", figures.get("size_mb"), asked.size_mb),
    ):
        if most is not None and value is not None:
            said = f"{metric} is {value:.4g}, must be at most {most:g}"
            yield {
                "kind": "infra",
                "metric": metric,
                "value": value,
                "max": most,
                "said": said,
                "holds": value <= most,
            }
