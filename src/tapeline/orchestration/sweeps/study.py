"""Optuna proposes what to try, and records the results: `.tapeline/sweeps/NAME/journal`.

with study(project, request, commit, say=print) as trials:
    trial = trials.ask()              # what a killed sweep left unfinished comes first
    trials.tell(trial, value=0.97, branch="runs/brave-otter", gate="yes")
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

from tapeline.config.project import Project
from tapeline.orchestration.sweeps.request import Range, SweepRequest, Value
from tapeline.runtime import files, processes
from tapeline.runtime.errors import InputError

DEFINITION = "definition"
FOLDER = "sweeps"
SEEDS = 2**32
"""How many seeds the sampler has; a larger one counts from 0 again."""


@dataclass(frozen=True)
class Tried:
    """One trial that has ended with a value."""

    number: int
    values: dict[str, Value]
    value: float
    branch: str
    gate: str
    commit: str = ""
    """What it trained, as all trials of its sweep did."""


class Study:
    """The trials of one sweep, all at one commit."""

    def __init__(self, study: optuna.Study, request: SweepRequest, folder: Path) -> None:
        self._study, self._request, self.folder = study, request, folder
        self.commit: str = study.user_attrs[DEFINITION]["commit"]
        # A different seed for each call: else the sampler would repeat the first call's values.
        study.sampler = optuna.samplers.TPESampler(seed=(request.seed + len(study.trials)) % SEEDS)
        for trial in study.get_trials(states=[TrialState.RUNNING]):  # of a sweep that was killed
            study.tell(trial.number, state=TrialState.FAIL)
            study.enqueue_trial(trial.params)

    def ask(self) -> optuna.Trial:
        """Return the next trial, with its values chosen."""
        trial = self._study.ask()
        for key, dimension in self._request.over.items():
            if not isinstance(dimension, Range):
                trial.suggest_categorical(key, dimension)
            elif isinstance(dimension.low, int) and isinstance(dimension.high, int):
                trial.suggest_int(key, dimension.low, dimension.high, log=dimension.log)
            else:
                trial.suggest_float(key, dimension.low, dimension.high, log=dimension.log)
        return trial

    def tell(self, trial: optuna.Trial, *, value: float, branch: str, gate: str) -> None:
        """Record the result of a trial."""
        trial.set_user_attr("branch", branch)
        trial.set_user_attr("gate", gate)
        self._study.tell(trial, value)

    def failed(self, trial: optuna.Trial) -> None:
        """Record that a trial has no value."""
        self._study.tell(trial, state=TrialState.FAIL)

    def ranked(self) -> list[Tried]:
        """Return the completed trials, best first; among equals, the earlier first."""
        sign = -1 if self._request.goal == "max" else 1
        tried = [_tried(trial, self.commit) for trial in self._study.get_trials(states=[TrialState.COMPLETE])]
        return sorted(tried, key=lambda trial: (sign * trial.value, trial.number))


@contextmanager
def study(project: Project, request: SweepRequest, commit: str, *, say: Callable[[str], None]) -> Iterator[Study]:
    """Yield the sweep's study, new or resumed: a resumed one keeps its commit if the request names no ref.

    The study is locked against other processes. Raises `InputError` if one of the same name has another definition.
    """
    folder = project.shared / FOLDER / request.name
    journal = folder / "journal"
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with processes.exclusive(folder / "lock", waiting=say):
        _mend(journal, say)
        journal.with_name("journal.lock").unlink(missing_ok=True)  # left by a process that was killed while writing
        yield Study(_found(JournalStorage(JournalFileBackend(str(journal))), request, commit, folder), request, folder)


def _mend(journal: Path, say: Callable[[str], None]) -> None:
    """Make the journal, and remove the beginning of a line that a full disk or a kill has left at its end.

    Optuna would write on behind it, and could read no line after that. It would also wait for a FIFO, or follow a link:
    raises `InputError` as `files.own` does.
    """
    with os.fdopen(files.own(journal, os.O_RDWR | os.O_CREAT), "r+b") as file:
        content = file.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            file.truncate(whole)
            say(f"{journal}: removed its last line, which was truncated")


def _found(storage: JournalStorage, request: SweepRequest, commit: str, folder: Path) -> optuna.Study:
    """Return the study of the request: a resumed one, or a new one, which replaces one without results."""
    wanted: dict[str, Any] = json.loads(json.dumps(request.definition(commit)))
    found = _created(storage, request)
    before = found.user_attrs.get(DEFINITION)
    ended = bool(found.get_trials(states=[TrialState.COMPLETE]))
    if ended and before and not request.ref:
        wanted["commit"] = before["commit"]
    if before == wanted:
        return found
    if ended:
        other = ", ".join(key for key in wanted if (before or {}).get(key) != wanted[key])
        raise InputError(
            f"sweep {request.name!r} was started with another {other}: give this one another name, or delete {folder}"
        )
    optuna.delete_study(study_name=request.name, storage=storage)
    found = _created(storage, request)
    found.set_user_attr(DEFINITION, wanted)
    return found


def _created(storage: JournalStorage, request: SweepRequest) -> optuna.Study:
    return optuna.create_study(
        storage=storage,
        study_name=request.name,
        direction="maximize" if request.goal == "max" else "minimize",
        load_if_exists=True,
    )


def _tried(trial: FrozenTrial, commit: str) -> Tried:
    assert trial.value is not None, "a complete trial has a value"
    attributes = trial.user_attrs
    return Tried(trial.number, dict(trial.params), trial.value, attributes["branch"], attributes["gate"], commit)
