"""Trials side by side are recorded in the order in which they began, whichever ends first."""

import random
from dataclasses import dataclass
from types import SimpleNamespace

import psutil
import pytest

from tapeline.config.project import Project
from tapeline.orchestration.sweeps import order
from tapeline.orchestration.sweeps.order import InOrder, usual
from tapeline.orchestration.sweeps.request import SweepRequest
from tapeline.orchestration.sweeps.study import study
from tapeline.runtime import environment


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


def test_each_end_is_told_once_and_as_soon_as_it_comes():
    trials = InOrder(2)
    first, second = (Running(SimpleNamespace(number=number)) for number in range(2))
    trials.add(first)
    trials.add(second)
    second.done = True
    assert trials.ended() == [second] and trials.ended() == []
    assert trials.due(5) is None, "the first one is not recorded yet"
    assert trials.has_room(5), "a third one keeps the core busy"
    first.done = True
    assert trials.ended() == [first]
    assert trials.due(2) is first and trials.due(1) is second and trials.due(0) is None
    assert trials.rest() == []


def test_what_has_ended_is_recorded_when_the_sweep_ends_early():
    trials = InOrder(2)
    first, second = (Running(SimpleNamespace(number=number)) for number in range(2))
    trials.add(first)
    trials.add(second)
    second.done = True
    assert trials.rest() == [second] and trials.living == [first]


@pytest.mark.parametrize(
    ("cores", "memory", "limit", "gpus", "at_once"),
    [
        (2, 64, "max", (), 2),
        (1, 64, "max", (), 1),
        (64, 256, "max", (), 8),
        (8, 16, "max", (), 4),
        (8, 2, "max", (), 1),
        (8, 64, str(9 << 30), (), 2),
        (8, 64, None, (), 8),
        (8, 64, "max", ("nvidia0",), 1),
        (8, 64, "max", ("kfd",), 1),
        (8, 64, "max", ("nvidiactl",), 8),
    ],
)
def test_how_many_run_at_once_unless_it_is_said(monkeypatch, tmp_path, cores, memory, limit, gpus, at_once):
    for name in gpus:
        (tmp_path / name).touch()
    if limit:
        (tmp_path / "memory.max").write_text(f"{limit}\n")
    monkeypatch.setattr(order, "DEVICES", tmp_path)
    monkeypatch.setattr(order, "CGROUP_LIMIT", tmp_path / "memory.max")
    monkeypatch.setattr(environment, "cores", lambda: cores)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=memory << 30))
    assert usual() == at_once
