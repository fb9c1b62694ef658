"""The gate: is the challenger good enough, and not worse than the champion? Pure: answers in, checks out."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapeline.config.registry import GateSettings, SliceSettings
from tapeline.config.validate import Bound
from tapeline.registry.gate import paired
from tapeline.registry.gate.measures import Target
from tapeline.runtime.errors import InputError
from tapeline.validate import finite

MOST_SLICES = 100
OTHER_DATA = (
    "change of {} is unknown: it was recorded on other test data than the champion's, and is not measured again"
)
NO_TARGET = (
    "no paired test is possible, since no feature is known to be predicted from the test data: set `gate.target`, or "
    "`paired: null`, as for a model whose inputs are not features"
)


@dataclass(frozen=True)
class Contender:
    """One version at the gate: its recorded metrics, and its answers on the test data (none without a target)."""

    name: str
    recorded: Mapping[str, float]
    answers: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    tested_on: str = ""
    """The test data of the recorded metrics: the MD5 and the split."""

    def measured(self, target: Target | None) -> dict[str, float]:
        """Return the metrics that can be measured now, on the same examples for both versions."""
        return target.metrics(self.answers) if target and self.answers else {}

    def metrics(self, target: Target | None) -> dict[str, float]:
        """Return all metrics: those measured now override the recorded ones."""
        return {**self.recorded, **self.measured(target)}


def judge(
    settings: GateSettings,
    challenger: Contender,
    champion: Contender | None,
    target: Target | None,
    features: Mapping[str, NDArray[Any]],
) -> list[dict[str, Any]]:
    """Return every check with its numbers and whether it `holds`.

    features: the columns that slices name, shape (examples,). Non-finite answers fail. Without a champion, only the
    absolute bounds are checked. With one, what cannot be compared fails: a change of a metric recorded on other test
    data, a paired test without a target. Raises `InputError` for a bound on a metric that was not measured.
    """
    ours = challenger.metrics(target)
    checks: list[dict[str, Any]] = [
        {"kind": "infra", "said": f"{challenger.name} fails: {fault}", "holds": False}
        for fault in finite.faults(challenger.answers)
    ]
    checks += [_bound("bound", name, _known(ours, name), bound) for name, bound in sorted(settings.bounds.items())]
    if champion:
        checks += _changes(settings, challenger, champion, target)
    for asked in settings.slices:
        if target is None:
            raise InputError(f"gate.slices requires {asked.metric} by {asked.feature}, but no feature is predicted")
        checks += _slices(asked, challenger, champion, target, features[asked.feature])
    if champion and settings.paired and target is None:
        checks.append({"kind": "paired", "said": NO_TARGET, "holds": False})
    elif champion and settings.paired and target:
        compare = paired.mcnemar if target.classifier else paired.bootstrap
        scores = target.scores(champion.answers), target.scores(challenger.answers)
        checks.append({"kind": "paired", **compare(*scores, settings.paired)})
    return checks


def _changes(
    settings: GateSettings, challenger: Contender, champion: Contender, target: Target | None
) -> Iterator[dict[str, Any]]:
    ours, theirs = challenger.metrics(target), champion.metrics(target)
    same_data = challenger.tested_on == champion.tested_on
    measured = challenger.measured(target).keys() & champion.measured(target).keys()
    for name, bound in sorted(settings.change.items()):
        change = _known(ours, name) - _known(theirs, name)
        if not same_data and name not in measured:
            yield {"kind": "change", "metric": name, "said": OTHER_DATA.format(name), "holds": False}
        else:
            both = {"champion": theirs[name], "challenger": ours[name]}
            yield _bound("change", name, change, bound) | both


def _slices(
    asked: SliceSettings,
    challenger: Contender,
    champion: Contender | None,
    target: Target,
    values: NDArray[Any],
) -> Iterator[dict[str, Any]]:
    found = np.unique(values)
    if values.ndim != 1 or len(found) > MOST_SLICES:
        raise InputError(
            f"gate.slices: {asked.feature} has shape {values.shape} and {len(found)} values; at most {MOST_SLICES}"
        )
    _known(challenger.measured(target), asked.metric)
    classes = target.classes if asked.feature == target.name else ()
    for number, label in enumerate(classes):
        if number not in found:
            yield _unjudged(asked, label, "no test example is of it")
    for value in found:
        chosen = values == value
        part = target.part(chosen)
        ours = part.metrics({name: answer[chosen] for name, answer in challenger.answers.items()})
        theirs = part.metrics({name: a[chosen] for name, a in champion.answers.items()}) if champion else {}
        label = classes[int(value)] if classes else str(value)
        if asked.metric not in ours:
            yield _unjudged(asked, label, "one test example alone has none")
            continue
        count = int(chosen.sum())
        about = {"slice": f"{asked.feature}={label}", "examples": count}
        judged = count >= asked.at_least
        if asked.bound:
            yield _bound("slice", asked.metric, ours[asked.metric], asked.bound, judged) | about
        if asked.change and champion:
            change = ours[asked.metric] - _known(theirs, asked.metric)
            both = {"champion": theirs[asked.metric], "challenger": ours[asked.metric]}
            yield _bound("slice change", asked.metric, change, asked.change, judged) | about | both


def _unjudged(asked: SliceSettings, label: str, why: str) -> dict[str, Any]:
    of = f"{asked.feature}={label}"
    said = f"{asked.metric} of {of} is not judged: {why}"
    return {"kind": "slice", "slice": of, "said": said, "judged": False, "holds": True}


def _bound(kind: str, metric: str, value: float, bound: Bound, judged: bool = True) -> dict[str, Any]:
    limits, holds = {"min": bound.min, "max": bound.max}, bound.holds(value) or not judged
    return {"kind": kind, "metric": metric, "value": value, **limits, "judged": judged, "holds": holds}


def _known(metrics: Mapping[str, float], name: str) -> float:
    if name not in metrics:
        raise InputError(
            f"the gate requires {name!r}, which was not measured: choose from {', '.join(sorted(metrics))}"
        )
    return metrics[name]
