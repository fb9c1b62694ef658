"""The outside: plain Python that wakes up a few times a second.

What it does then (validation, checkpoints, limits, progress) is in hooks: callables that take a frozen record.
"""

import re
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tapeline.config.train import TrainSettings
from tapeline.recipe import variables
from tapeline.recipe.metrics import means
from tapeline.runtime.errors import InputError, Interrupted, NotRepeatable, RunError, TapelineError
from tapeline.runtime.records import Hook, LoopEnded, Record, Skipped, Started, Stopping
from tapeline.train.data.feed import Chunk, Feed
from tapeline.train.engine import guard
from tapeline.train.engine.loop import Loop
from tapeline.train.engine.pace import Pace
from tapeline.train.engine.state import Snapshot, State
from tapeline.train.engine.stopping import Stopper


class Engine:
    """Runs a loop over a feed until the last epoch, early stopping, an error or a signal."""

    def __init__(
        self,
        *,
        settings: TrainSettings,
        state: State,
        loop: Loop,
        feed: Feed,
        steps_per_epoch: int,
        hooks: Sequence[Hook],
        save: Callable[[Snapshot], None],
        pace: Pace,
        watch: Callable[[], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings, self.state, self.loop, self.feed = settings, state, loop, feed
        self.steps_per_epoch, self.total = steps_per_epoch, settings.epochs * steps_per_epoch
        self.hooks, self.save, self.pace, self.clock = hooks, save, pace, clock
        self._stops = [loop.next_stop, *(hook.next_stop for hook in hooks if isinstance(hook, Stopping))]
        self.watch = watch or (lambda: None)
        self.snapshot = state.snapshot()
        self._saving, self._abandoned = threading.Lock(), False
        self._is_finite = guard.non_finite(state.variables) is None

    def run(self, stopper: Stopper) -> None:
        """Train to the end. On an expected failure, a limit or a signal, save a checkpoint and raise."""
        try:
            if (skipped := self._unforeseen()) > self.settings.max_skipped:
                raise InputError(
                    f"this run has skipped {skipped} steps, but train.max_skipped is {self.settings.max_skipped}: "
                    "raise it, or train with --fresh"
                )
            self.tell(self._started())
            proven = False
            for chunk in self.feed.chunks(self.state.step, self.total):
                while self.state.step < chunk.end and not self.finished:
                    if not proven and self.state.step not in self.settings.skip:
                        self._prove(chunk)
                        proven = True
                    self._check_signal(stopper)
                    self.snapshot = self.state.snapshot()
                    if record := self._advance(chunk):
                        self.tell(record)
                if self.finished:
                    break
            self._check_signal(stopper)
        except InputError:  # the recipe, its data or its settings are wrong: nothing to resume from
            raise
        except (TapelineError, Interrupted):
            with self._saving:
                if not self._abandoned:  # else that snapshot is saved and named, and the process is about to end
                    self.snapshot = self.state.snapshot()
                    self.save(self.snapshot)
            raise

    def _started(self) -> Started:
        history = tuple(dict(row) for row in self.state.history)
        return Started(step=self.state.step, total=self.total, steps_per_epoch=self.steps_per_epoch, history=history)

    @property
    def finished(self) -> bool:
        """Whether all epochs are done or patience has run out."""
        best, patience = self.state.best, self.settings.best and self.settings.best.patience
        return self.state.step >= self.total or bool(best and patience and best["stale"] >= patience)

    def tell(self, record: Record) -> None:
        """Pass a record to every hook, in order."""
        for hook in self.hooks:
            hook(record)

    def abandon(self, signum: int) -> Interrupted:
        """Save the last snapshot, from another thread and during a loop; return the exception to report."""
        with self._saving:
            self._abandoned = True
            self.save(self.snapshot)
            return self._interrupted(self.snapshot.step, signum)

    def _check_signal(self, stopper: Stopper) -> None:
        if stopper.signum is not None and not self.finished:
            raise self._interrupted(self.state.step, stopper.signum)

    def _interrupted(self, step: int, signum: int) -> Interrupted:
        said = f"stopped at step {step} of {self.total}; its checkpoint is saved: run again to resume"
        return Interrupted(said, signum=signum)

    def _prove(self, chunk: Chunk) -> None:
        """Run the next steps twice from the same state. Raises `NotRepeatable` if a bit differs."""
        start = self.state.step
        end = min(start + 2, *self._ends(chunk))
        self.snapshot, found = self.state.snapshot(), []
        for _ in range(2):
            try:
                reached, table, _ = self.loop(chunk, start, end, tf.constant(self.state.sums))
            except (tf.errors.InvalidArgumentError, tf.errors.InternalError) as error:
                raise _not_compiled(error) from None
            found.append([table.numpy().tobytes(), *variables.bits(self.state.variables)])
            self.state.restore(self.snapshot)
            if reached < end:  # asked to stop, so it proves nothing
                found.clear()
                break
        self.watch()
        if len(found) == 2 and found[0] != found[1]:
            names = ["the metrics", *self.state.variables]
            first = next(name for name, one, other in zip(names, *found, strict=True) if one != other)
            raise NotRepeatable(
                f"train_step gave two results for {first} from the same state and batch: draw random numbers from "
                "context.seed, and keep state in tf.Variables that are attributes of the recipe; if it already does, "
                "an operation adds in varying order: set train.threads to 1"
            )
        if not self.feed.is_repeatable(start):
            raise NotRepeatable(
                "prepare gave two results for the same step: draw random numbers from context.seed, and do not keep "
                "state"
            )

    def _advance(self, chunk: Chunk) -> LoopEnded | Skipped | None:
        """Run one loop; go back if it left a non-finite value. None if it was stopped before its first step."""
        start = self.state.step
        if start in self.settings.skip:
            return self._skip("train.skip names it")
        alone = () if self._is_finite else (start + 1,)  # it is for the first step to set, whatever a loop's length
        end = self.pace.end(start, (*self._ends(chunk), *alone))
        began = self.clock()
        reached, table, finite = self.loop(chunk, start, end, tf.constant(self.state.sums))
        seconds, sums = self.clock() - began, table.numpy()
        if reached == start:  # its table is empty, and a variable may start non-finite
            return None
        if not finite:
            return self._go_back(chunk, start, end, sums)
        self._is_finite = True
        self.watch()
        self.state.book(reached, sums, self.steps_per_epoch)
        self.pace.took(reached - start, seconds)
        return self._record(start, seconds)

    def _ends(self, chunk: Chunk) -> tuple[int, ...]:
        """Return steps by which a loop that starts now must end."""
        start = self.state.step
        told = (step for step in self.settings.skip if step > start)
        return (chunk.end, *told, *(stop(start) for stop in self._stops))

    def _go_back(self, chunk: Chunk, start: int, end: int, sums: NDArray[np.float64]) -> LoopEnded | Skipped | None:
        """Restore the state at `start` and replay in shorter loops; skip the step if it is the only one left.

        Raises `InputError` if the state was not finite before the step either.
        """
        reason = guard.describe(self.state.variables, self.loop.trained, sums)
        self.state.restore(self.snapshot)
        if end - start > 1:
            self.pace.shorten(end - start)
            return self._advance(chunk)
        if name := guard.non_finite(self.state.variables):
            raise InputError(
                f"{name} is not finite before step {start}, so that nothing after it is either ({reason}): initialize "
                "it with a large finite number, such as -1e9 in a mask, or make it a tf.constant if it never changes"
            )
        if self._unforeseen() >= self.settings.max_skipped:
            raise RunError(
                f"step {start}: {reason}, and train.max_skipped is {self.settings.max_skipped}; its checkpoint is "
                "saved: raise train.max_skipped to resume, or start again with a lower learning rate or with gradients "
                "clipped"
            )
        return self._skip(reason)

    def _unforeseen(self) -> int:
        """Return how many steps were skipped that `skip` does not name."""
        return len(set(self.state.skipped) - set(self.settings.skip))

    def _skip(self, reason: str) -> Skipped:
        start = self.state.step
        self.state.skip(self.steps_per_epoch)
        return Skipped(start=start, step=self.state.step, epoch=self.state.step // self.steps_per_epoch, reason=reason)

    def _record(self, start: int, seconds: float) -> LoopEnded:
        state, at_end = self.state, self.state.step % self.steps_per_epoch == 0
        row = state.history[-1] if at_end and state.history else None
        running = {n: row[n] for n in state.metrics if n in row} if row else means(list(state.metrics), state.sums)
        return LoopEnded(
            start=start,
            step=state.step,
            total=self.total,
            epoch=state.step // self.steps_per_epoch,
            metrics=running,
            seconds=seconds,
            examples=(state.step - start) * self.settings.batch_size,
        )


_OF_LOOPS = re.compile(r"TensorList|TensorArray|(Stateless)?While$")
"""The operations of a loop, and of what it keeps of each turn for a gradient."""


def _not_compiled(error: Any) -> Exception:
    """Return an `InputError` that names the operations XLA lacks, or else the error itself."""
    fixed = re.search(r"with op (\w+) must be a compile-time constant", error.message)
    if "requires a fixed tensor list size" in error.message or (fixed and _OF_LOOPS.match(fixed[1])):
        return InputError(
            "train.compile is xla, where the length of a loop must be known at compile time: use graph, or unroll the "
            "loop (a Python loop over a range, `unroll=True` of a Keras layer)"
        )
    if fixed:
        return InputError(
            f"train.compile is xla, where {fixed[1]} needs an index or a size that is known at compile time: use graph"
        )
    if "RET_CHECK failure" in error.message and "variable.var()" in error.message:  # the only other resource in a step
        return InputError("train.compile is xla, which does not support lookup tables: use graph")
    named = re.findall(r"(\w+) \(No registered", error.message)
    if "Detected unsupported operations" not in error.message or not named:
        unknown: Exception = error
        return unknown
    return InputError(f"train.compile is xla, which does not support {', '.join(sorted(set(named)))}: use graph")
