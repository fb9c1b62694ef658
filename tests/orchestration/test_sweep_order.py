"""Trials side by side are recorded in the order in which they began, whichever ends first."""

import random
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from tapeline.config.project import Project
from tapeline.orchestration.sweeps.order import InOrder
from tapeline.orchestration.sweeps.request import SweepRequest
from tapeline.orchestration.sweeps.study import study


@dataclass
class Running:
    """A trial without a process, which ends when `done` is set."""

    trial: object
    done: bool = False


def searched(folder, at_once, seed, count=24):
    """Search with trials that end in an order drawn from a seed; return what was tried and how many ran at once."""
    request = SweepRequest.of(pipeline="tiny", over={"params.x": {"low": 0.0, "high": 1.0}}, metric="m", goal="min")
    chance, tried, most = random.Random(seed), [], 0
    with study(Project(folder, folder, folder), request, "0123abc", say=print) as found:
        trials = InOrder(at_once)
        while missing := count - len(found.ranked()):
            while trials.has_room(missing):
                asked = found.ask()
                tried.append(asked.params["params.x"])
                trials.add(Running(asked))
            living = trials.living
            most = max(most, len(living))
            if living:
                chance.choice(living).done = True
            trials.ended()
            if due := trials.due(missing):
                value = (due.trial.params["params.x"] - 0.3) ** 2
                if due.trial.number % 7 == 3:
                    found.failed(due.trial)
                else:
                    found.tell(due.trial, value=value, branch="", gate="")
    return tried, most


@pytest.mark.parametrize("at_once", [1, 2, 3])
def test_the_same_values_are_tried_whichever_trial_ends_first(tmp_path, at_once):
    results = [searched(tmp_path / str(seed), at_once, seed) for seed in range(4)]
    assert all(tried == results[0][0] for tried, _ in results)
    assert {most for _, most in results} == {at_once}
    assert len(results[0][0]) == 28, "four failed"


@pytest.fixture
def pair():
    """Two trials that have begun, of a sweep that runs two at once."""
    trials = InOrder(2)
    first, second = (Running(SimpleNamespace(number=number)) for number in range(2))
    trials.add(first)
    trials.add(second)
    return trials, first, second


def test_each_end_is_told_once_and_as_soon_as_it_comes(pair):
    trials, first, second = pair
    second.done = True
    assert trials.ended() == [second] and trials.ended() == []
    assert trials.due(5) is None, "the first one is not recorded yet"
    assert trials.has_room(5), "a third one keeps the core busy"
    first.done = True
    assert trials.ended() == [first]
    assert trials.due(2) is first and trials.due(1) is second and trials.due(0) is None
    assert trials.rest() == []


def test_what_has_ended_is_recorded_when_the_sweep_ends_early(pair):
    trials, first, second = pair
    second.done = True
    assert trials.rest() == [second] and trials.living == [first]
