"""The outside: plain Python that wakes a few times a second to report, validate, save and stop."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from tapeline.errors import Interrupted, LimitReached, RunError
from tapeline.recipe.evaluation import Evaluation, means
from tapeline.train import checkpoints, guard
from tapeline.train.feed import Chunk, Feed
from tapeline.train.loop import EPOCHS_PER_LOOP, Loop
from tapeline.train.pace import Pace
from tapeline.train.records import Hook, LoopEnded, Record, Saved, Skipped, Validated
from tapeline.train.settings import TrainSettings
from tapeline.train.state import State
from tapeline.train.stopping import Stopper


class Engine:
    """Runs a loop over a feed until the last epoch, early stopping, a limit or a signal."""

    def __init__(
        self,
        *,
        settings: TrainSettings,
        state: State,
        loop: Loop,
        feed: Feed,
        steps_per_epoch: int,
        evaluation: Evaluation | None,
        writer: checkpoints.Writer,
        hooks: Sequence[Hook],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings, self.state, self.loop, self.feed = settings, state, loop, feed
        self.steps_per_epoch, self.total = steps_per_epoch, settings.epochs * steps_per_epoch
        self.evaluation, self.writer, self.hooks, self.clock = evaluation, writer, hooks, clock
        self.pace, self.began = Pace(), clock()
        self.snapshot = state.snapshot()
        self._saved_step, self._saved_at = state.step, clock()

    def run(self, stopper: Stopper) -> None:
        """Train to the end. Raises `Interrupted`, `LimitReached` or `RunError`, with the checkpoint saved."""
        self._settle(stopper)
        for chunk in self._chunks():
            while self.state.step < chunk.end and not self.finished:
                start = self.state.step
                end = self.pace.end(start, (chunk.end, *self._stops(start)))
                began = self.clock()
                reached, table = self.loop(chunk, start, end, tf.constant(self.state.sums))
                seconds, sums = self.clock() - began, table.numpy()
                if not guard.is_finite(self.state.variables, sums):
                    self._go_back(start, end, sums)
                else:
                    self.state.book(reached, sums, self.steps_per_epoch)
                    self.pace.took(reached - start, seconds)
                    self._tell(self._loop_record(start, seconds))
                self._settle(stopper)
            if self.finished:
                break
        self.writer.wait()

    @property
    def finished(self) -> bool:
        """Whether all epochs are done, or patience ran out."""
        best, patience = self.state.best, self.settings.best and self.settings.best.patience
        return self.state.step >= self.total or bool(best and patience and best["stale"] >= patience)

    def _chunks(self) -> Iterator[Chunk]:
        yield from self.feed.chunks(self.state.step, self.total)

    def _stops(self, step: int) -> Iterator[int]:
        """Yield the steps at which a loop that begins at `step` must end."""
        epoch = step // self.steps_per_epoch
        yield (epoch + EPOCHS_PER_LOOP) * self.steps_per_epoch
        if self.evaluation:
            yield (epoch // self.settings.validate_every + 1) * self.settings.validate_every * self.steps_per_epoch
        if every := self.settings.checkpoint.every_steps:
            yield self._saved_step + every if self._saved_step + every > step else step + every

    def _settle(self, stopper: Stopper) -> None:
        """Do what is due between two loops: a snapshot, validation, a checkpoint, the end."""
        self.snapshot = self.state.snapshot()
        if self._validation_due() and stopper.signum is None:
            self._validate()
            self.snapshot = self.state.snapshot()
        waited = self.clock() - self._saved_at
        if checkpoints.is_due(self.settings.checkpoint, steps=self.state.step - self._saved_step, seconds=waited):
            self._save_soon()
        if stopper.signum is not None:
            self._save_now()
            raise Interrupted(
                f"stopped at step {self.state.step} of {self.total}; its checkpoint is saved", signum=stopper.signum
            )
        limit = self.settings.max_time
        if limit is not None and self.clock() - self.began > limit and not self.finished:
            self._save_now()
            raise LimitReached(
                f"train.max_time of {limit} s is over at step {self.state.step} of {self.total}; run again to go on"
            )

    def _validation_due(self) -> bool:
        if self.evaluation is None or not self.state.history or self.state.step % self.steps_per_epoch:
            return False
        row, epoch = self.state.history[-1], self.state.step // self.steps_per_epoch
        asked = epoch % self.settings.validate_every == 0 or epoch == self.settings.epochs
        return asked and row["step"] == self.state.step and not any(name.startswith("val_") for name in row)

    def _validate(self) -> None:
        assert self.evaluation is not None
        measured = self.evaluation()
        improved = self.state.judge(measured, self.settings.best)
        epoch = self.state.step // self.steps_per_epoch
        self._tell(Validated(step=self.state.step, epoch=epoch, metrics=measured, improved=improved))

    def _go_back(self, start: int, end: int, sums: np.ndarray) -> None:
        """Return to the state at `start`, to replay it in shorter loops, or to skip it when it is the step."""
        reason = guard.describe(self.state.variables, self.state.metrics, sums)
        self.state.restore(self.snapshot)
        if end - start > 1:
            self.pace.shorten(end - start)
            return
        if len(self.state.skipped) >= self.settings.max_skipped:
            self._save_now()
            raise RunError(
                f"step {start}: {reason}, and train.max_skipped is {self.settings.max_skipped}; "
                f"the state before it is saved: lower the learning rate, clip the gradients, or allow more skips"
            )
        self.state.skipped.append(start)
        self.state.step = start + 1
        self._close_skipped_epoch(start)
        self._tell(Skipped(step=start, reason=reason))

    def _close_skipped_epoch(self, skipped: int) -> None:
        """Book the epoch's end when the step that was skipped is its last."""
        if self.state.step % self.steps_per_epoch == 0:
            self.state.step = skipped
            table = np.stack([self.state.sums, np.zeros_like(self.state.sums)])
            self.state.book(skipped + 1, table, self.steps_per_epoch)

    def _save_soon(self) -> None:
        if not self.writer.busy:
            self._saved_step, self._saved_at = self.state.step, self.clock()
            self.writer.start(self.snapshot)

    def _save_now(self) -> None:
        self.snapshot = self.state.snapshot()
        self.writer.wait()
        self.writer.write(self.snapshot)

    def _loop_record(self, start: int, seconds: float) -> LoopEnded:
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

    def _tell(self, record: Record) -> None:
        for hook in self.hooks:
            hook(record)


def saved_hook(hooks: Sequence[Hook]) -> Callable[[int, Path, float], None]:
    """Return what a writer calls after each checkpoint: it tells the hooks, one thread at a time."""
    lock = threading.Lock()

    def tell(step: int, path: Path, seconds: float) -> None:
        with lock:
            for hook in hooks:
                hook(Saved(step=step, path=path, seconds=seconds))

    return tell
