"""A hook that has a thread write checkpoints while training continues."""

import time
from collections.abc import Callable

from tapeline.config.train import CheckpointPolicy
from tapeline.runtime.records import Pause, Record
from tapeline.train.checkpoints import disk
from tapeline.train.engine.state import State


class Saving:
    """Starts a checkpoint when the policy says so; never two at once."""

    def __init__(
        self,
        policy: CheckpointPolicy,
        state: State,
        writer: disk.Writer,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._policy, self._state, self._writer, self._clock = policy, state, writer, clock
        self._step, self._at = state.step, clock()

    def next_stop(self, step: int) -> int:
        """Return the next step at which the policy wants a checkpoint; a loop must end there."""
        every = self._policy.every_steps
        return step - step % every + every if every else step + (1 << 62)

    def __call__(self, record: Record) -> None:
        """Save the state after a loop, unless the last checkpoint is still being written.

        After a failure, the next try depends on `disk.pause` instead of the policy.
        """
        if not isinstance(record, Pause) or self._writer.busy:
            return
        step, now = self._state.step, self._clock()
        if self._writer.failures and now - self._at < disk.pause(self._writer.failures):
            return
        if self._writer.failures or disk.is_due(self._policy, last=self._step, step=step, seconds=now - self._at):
            self._step, self._at = step, now
            self._writer.start(self._state.snapshot())
