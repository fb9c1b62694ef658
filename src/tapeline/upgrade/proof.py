"""Rebuild the stages of pipelines with this engine, each once, and compare what comes out with what is recorded."""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tapeline.config.engine_lock import LOCK as ENGINE_LOCK
from tapeline.config.project import DVC_YAML, Project
from tapeline.parsing import json_text
from tapeline.repository import dvc_lock
from tapeline.repository.dvc_errors import check_dependencies, in_one_line
from tapeline.repository.measured import Metrics, by_split, measured
from tapeline.repository.rebuilding import Cached, Out, dvc
from tapeline.runtime import files
from tapeline.runtime.errors import RunError
from tapeline.runtime.streams import Say
from tapeline.upgrade import results

if TYPE_CHECKING:
    from tapeline.repository.dvc.stage import Input, Stage

SAME, DIFFERS, FAILS, LEFT = "same", "differs", "fails", "left"
NOT_BUILT = "not built"
CHANGED = "has changed since it was built: run `dvc repro` with the older version and commit, or after the upgrade"
OF_A_PIPELINE = ("export", "validate", "train")


@dataclass(frozen=True)
class Proved:
    """What became of a pipeline."""

    name: str
    outcome: str
    """`same`; `differs` and `fails` with this engine; `left`: not rebuilt, for a reason that is not the engine."""
    reason: str = ""
    stages: tuple[str, ...] = ()
    """The stages that its result is made by, in their order."""
    metrics: tuple[str, ...] = ()
    """Where it differs, a line for each metric that does: the old value and the new one."""


@dataclass
class Prover:
    """Rebuilds stages in one place; a stage that several pipelines share is rebuilt once."""

    folder: Path
    """The project's folder in the place."""
    recorded: Mapping[str, Any]
    """The stages of the project's `dvc.lock`."""
    say: Say
    _known: dict[str, tuple[str, str]] = field(default_factory=dict)

    def proved(self, names: Iterable[str]) -> list[Proved]:
        """Rebuild what is recorded of the pipelines; which were stale before is found out before anything runs."""
        chains = self._chains(list(names))
        return [
            Proved(name, LEFT, reason, stages) if reason else self._proved(name, stages)
            for name, (stages, reason) in chains.items()
        ]

    def _proved(self, name: str, stages: tuple[str, ...]) -> Proved:
        found = [(SAME, "")]
        for stage in stages:
            if stage not in self._known:
                self._known[stage] = self._rebuilt(stage)
            found.append(self._known[stage])
            if found[-1][0] == FAILS:
                break
        worst = next((one for word in (FAILS, DIFFERS, SAME) for one in found if one[0] == word), found[0])
        return Proved(name, *worst, stages, () if worst[0] == SAME else tuple(self._metrics(name)))

    def _chains(self, names: list[str]) -> dict[str, tuple[tuple[str, ...], str]]:
        """Return the stages of this project that each pipeline is made by, and why it is left alone, if it is."""
        from tapeline.repository.dvc.repository import Dvc

        own, cache = self.folder / DVC_YAML, Cached(self.folder)
        found: dict[str, tuple[tuple[str, ...], str]] = {}
        with in_one_line(), closing(Dvc(self.folder)) as opened, opened.locked():
            for name in names:
                target = next((f"{s}@{name}" for s in OF_A_PIPELINE if f"{s}@{name}" in self.recorded), None)
                if target is None:
                    found[name] = ((), NOT_BUILT)
                    continue
                plan = [one for one in opened.upstream(opened.stage(own, target)) if one.file == own]
                check_dependencies(plan)
                stages = tuple(one.name for one in plan)
                unbuilt = (f"{stage} is not recorded" for stage in stages if stage not in self.recorded)
                stale = (f"{one.name}: {why}" for one in plan for why in _stale(one, cache))
                found[name] = (stages, next(unbuilt, "") or next(stale, ""))
        return found

    def _rebuilt(self, stage: str) -> tuple[str, str]:
        start = time.monotonic()
        try:
            dvc(self.folder, "repro", "--quiet", "--single-item", stage)
        except RunError as error:
            outcome = FAILS, f"{stage} fails: {self._message(stage) or error}"
        else:
            outcome = self._compared(stage)
        self.say(f"{stage}: {outcome[0]}, {time.monotonic() - start:.1f} s")
        return outcome

    def _compared(self, stage: str) -> tuple[str, str]:
        cache, here = Cached(self.folder), self.entries()
        before, after = ({out["path"]: _out(out) for out in of[stage].get("outs", ())} for of in (self.recorded, here))
        for path in dict.fromkeys([*before, *after]):
            if path not in before or path not in after:
                return DIFFERS, f"{stage}: {path} is an output only of the {'new' if path in after else 'old'} version"
            if difference := results.difference(before[path], after[path], cache):
                return DIFFERS, f"{stage}: {difference}"
        return SAME, ""

    def entries(self) -> dict[str, Any]:
        """Return the stages of the place's `dvc.lock`; none if nothing was ever built."""
        file = self.folder / dvc_lock.LOCK
        return dvc_lock.entries(files.read_bytes(file) if file.exists() else "")

    def _message(self, stage: str) -> str:
        """Return what the stage left as its outcome; empty if it did not get so far."""
        kind, _, name = stage.partition("@")
        try:
            outcome = json_text.mapping(files.read_bytes(Project.find(self.folder).outcome(kind, name)))
        except (OSError, json_text.NotJson):
            return ""
        return str(outcome.get("message", ""))

    def _metrics(self, name: str) -> Iterator[str]:
        """Yield a line for each metric: the recorded value, and the one of the rebuilt stages."""
        old, new = self._recorded_metrics(name), measured(Project.find(self.folder), name)
        for metric in dict.fromkeys([*old, *new]):
            splits = dict.fromkeys([*old.get(metric, {}), *new.get(metric, {})])
            for split in splits:
                pair = [metrics.get(metric, {}).get(split) for metrics in (old, new)]
                if pair[0] != pair[1]:
                    shown = ["none" if value is None else f"{value:.6g}" for value in pair]
                    if shown[0] == shown[1]:
                        shown = [repr(value) for value in pair]
                    yield f"{metric} of {split}: {shown[0]} recorded, {shown[1]} now"

    def _recorded_metrics(self, name: str) -> Metrics:
        cache = Cached(self.folder)
        found: dict[str, dict[str, Any]] = {}
        for stage, file in (("validate", "verdict"), ("validate", "metrics"), ("train", "metrics")):
            outs = self.recorded.get(f"{stage}@{name}", {}).get("outs", ())
            path = next((cache(_out(out)) for out in outs if out["path"].endswith(f"{stage}/{file}.json")), None)
            try:
                found[f"{stage}/{file}"] = json_text.mapping(files.read_bytes(path)) if path else {}
            except json_text.NotJson:
                found[f"{stage}/{file}"] = {}
        split = str(found["validate/verdict"].get("split", "test"))
        return by_split(tested=found["validate/metrics"], trained=found["train/metrics"], split=split)


def _out(entry: Mapping[str, Any]) -> Out:
    return Out(entry["path"], str(entry.get("md5")))


def _stale(stage: "Stage", cache: Cached) -> Iterator[str]:
    """Yield why a stage's recorded result is not that of its data, recipe and settings. The engine is no reason."""
    for one in stage.inputs:
        if file := one.parameter_file:
            if file.name != ENGINE_LOCK:
                for key in one.changed_keys():
                    yield f"{key} {CHANGED}"
        elif not one.exists:
            yield f"{one} is neither committed nor in the cache: `dvc fetch`, or `git add` it"
        elif one.has_changed and not _is_of_another_form(one, cache):
            yield f"{one} {CHANGED}"


def _is_of_another_form(one: "Input", cache: Cached) -> bool:
    """Return whether a dependency, a model of another project, is the recorded one in a newer form."""
    if one.recorded is None:
        return False
    recorded, here = (Out(str(one), md5) for md5 in (one.recorded, one.current()))
    return cache(recorded) is not None and cache(here) is not None and not results.difference(recorded, here, cache)
