"""How long the next loop is: the host shall cost nothing, and yet wake a few times a second."""

from collections.abc import Iterable

SHORT, LONG = 0.2, 0.5
"""Seconds between which a loop should last."""


class Pace:
    """The length of loops in steps: doubled after a short one, halved after a long one."""

    def __init__(self) -> None:
        self.length = 1

    def end(self, start: int, stops: Iterable[int]) -> int:
        """Return where a loop that begins at `start` ends: after `length` steps or at the first stop."""
        return min([start + self.length, *stops])

    def took(self, steps: int, seconds: float) -> None:
        """Adapt to a loop that ran."""
        if seconds < SHORT and steps >= self.length:
            self.length *= 2
        elif seconds > LONG:
            self.length = max(1, self.length // 2)

    def shorten(self, steps: int) -> None:
        """Replay a loop of so many steps at half the length."""
        self.length = max(1, steps // 2)
