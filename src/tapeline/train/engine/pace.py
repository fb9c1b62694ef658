"""How long the next loop is: the host shall cost nothing, and yet wake a few times a second."""

from collections.abc import Iterable

AIM, LONG = 0.4, 0.5
"""Seconds that a loop should last, and beyond which it is too long."""
GROWTH = 8
"""At most so many times the loop before: the first ones, which compile, tell little."""


class Pace:
    """The length of loops in steps."""

    def __init__(self) -> None:
        self.length = 1

    def end(self, start: int, stops: Iterable[int]) -> int:
        """Return where a loop that begins at `start` ends: after `length` steps or at the first stop."""
        return min([start + self.length, *stops])

    def took(self, steps: int, seconds: float) -> None:
        """Adapt to a loop that ran. One that a stop has cut short says how fast steps are, not that loops are short."""
        if seconds > LONG or steps >= self.length:
            fitting = steps * AIM / max(seconds, 1e-6)
            self.length = max(1, int(min(fitting, self.length * GROWTH)))

    def shorten(self, steps: int) -> None:
        """Replay a loop of so many steps at half the length."""
        self.length = max(1, steps // 2)
