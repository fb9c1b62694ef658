"""The order of turns: A B C, C B A, …, so that drift of the machine affects all alike."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

Speeds = dict[str, list[float]]
"""Contender → steps per second, one value per round."""
Answer = Mapping[str, float]
"""The `steps` of a turn and the `seconds` that they took."""


class Runner(Protocol):
    """Anything that can train for some seconds on request."""

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
    """Run each once as an uncounted warm-up, then all in turn, `repeats` times.

    Every other round is reversed, so that none always follows the slowest. calm: runs a turn, and repeats it if it was
    disturbed.
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
