"""Who runs when: A B C A B C …, so that a machine that drifts slows all of them alike."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

Speeds = dict[str, list[float]]
"""Contender → steps per second, one of each round."""
Answer = Mapping[str, float]
"""The `steps` of a turn and the `seconds` that they took."""


class Runner(Protocol):
    """Anything that can be asked to train for some seconds."""

    def run(self, seconds: float) -> Answer:
        """Return `steps` and the `seconds` that they took."""
        ...


def interleaved(
    runners: Mapping[str, Runner],
    *,
    repeats: int,
    seconds: float,
    warm_up: float,
    calm: Callable[[Callable[[], Answer]], Answer] = lambda turn: turn(),
    told: Callable[[str, int, float], None] = lambda name, number, speed: None,
) -> Speeds:
    """Run each once to warm up, which does not count, then all in turn, `repeats` times.

    Every other round goes backwards: nobody is always the one after the slowest. calm: takes a turn that counts, and
    again where it was disturbed.
    """
    speeds: Speeds = {name: [] for name in runners}
    for runner in runners.values():
        runner.run(warm_up)
    for number in range(repeats):
        for name in in_turn(list(runners), number):
            answer = calm(partial(runners[name].run, seconds))
            speeds[name].append(answer["steps"] / answer["seconds"])
            told(name, number, speeds[name][-1])
    return speeds


def in_turn(names: Sequence[str], number: int) -> Sequence[str]:
    """Return the order of round `number`."""
    return names if number % 2 == 0 else names[::-1]
