"""Choose the length of the next loop, so that the host costs next to nothing and yet wakes up a few times a second."""

from collections.abc import Iterable

AIM, LONG = 0.4, 0.5
"""Seconds that a loop should take, and above which it is too long."""
GROWTH = 8
"""Limit on a loop's length relative to the previous one: the first loops include compiling, so their times mislead."""


class Pace:
    """The length of loops in steps."""

    def __init__(self) -> None:
        self.length = 1

    def end(self, start: int, stops: Iterable[int]) -> int:
        """Return where a loop that starts at `start` ends: after `length` steps or at the first stop."""
        return min([start + self.length, *stops])

    def took(self, steps: int, seconds: float) -> None:
        """Adapt to a finished loop. A loop cut short by a stop does not shorten the next ones."""
        if seconds > LONG or steps >= self.length:
            fitting = steps * AIM / max(seconds, 1e-6)
            self.length = max(1, int(min(fitting, self.length * GROWTH)))

    def shorten(self, steps: int) -> None:
        """Set the length to half of `steps`, for a replay."""
        self.length = max(1, steps // 2)
