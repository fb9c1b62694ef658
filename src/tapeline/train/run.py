"""One run: assemble, go on from where it was, train, write the outs."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import tensorflow as tf

from tapeline import files, processes
from tapeline.dataset import Dataset
from tapeline.environment import machine
from tapeline.errors import RunError
from tapeline.recipe import loading, variables
from tapeline.report import Report
from tapeline.train import checkpoints as stored
from tapeline.train import fingerprint, history, initial, starting
from tapeline.train.assembly import Assembled, assemble
from tapeline.train.console import Console
from tapeline.train.engine import Engine, Stops
from tapeline.train.limit import TimeLimit
from tapeline.train.options import Options
from tapeline.train.pace import Pace
from tapeline.train.pictures import Pictures
from tapeline.train.profiling import Profile
from tapeline.train.records import Hook, Note, Record, Saved
from tapeline.train.saving import Saving
from tapeline.train.settings import TrainSettings
from tapeline.train.state import State
from tapeline.train.stopping import Leave, Stopper
from tapeline.train.telling import reporting
from tapeline.train.tensorboard import TensorBoard
from tapeline.train.validation import Validation


def run(
    *,
    recipe: Path,
    params: Mapping[str, Any],
    settings: TrainSettings,
    dataset: Dataset,
    out: Path,
    checkpoints: Path,
    options: Options,
    weights: Path | None,
    needs: Path | None,
    traces: Path,
    report: Report,
    hooks: Sequence[Hook],
    pace: Pace,
    leave: Leave,
) -> None:
    """See `tapeline.train.stage.train`; the dataset was opened and verified there."""
    parts = assemble(recipe, params, settings, dataset)
    covered = fingerprint.parts(settings=settings.deciding(), params=params, data=dataset.fingerprint(), recipe=recipe)
    if weights:
        covered["weights"] = initial.content(weights)
    if needs:
        covered["needs"] = files.sha256_of_tree(needs)
    folder = checkpoints / fingerprint.fingerprint(covered)
    with ExitStack() as stack:
        told = Hooks(parts, settings, options, traces, stack)
        told.hooks += [reporting(report), *hooks]
        stack.enter_context(processes.exclusive(folder / "lock", waiting=told.say))
        starting.start(parts.state, folder, covered, options=options, weights=weights, say=told.say)
        if settings.replicas > (cores := machine()["threads"]):
            told.say(f"train.replicas is {settings.replicas}, more than there are cores here: {cores}")
        if dropped := parts.batches.dropped:
            told.say(f"each epoch leaves out {dropped} examples of its permutation: they fill no batch")
        writer = stack.enter_context(closing(stored.Writer(folder, keep=settings.checkpoint.keep, on_saved=told.saved)))
        told.begin(writer)
        engine = Engine(
            settings=settings,
            state=parts.state,
            loop=parts.loop,
            feed=parts.feed,
            steps_per_epoch=parts.batches.steps_per_epoch,
            stops=told.stops,
            hooks=told.hooks,
            save=writer.write,
            pace=pace,
        )
        stopper = Stopper(ask=lambda: parts.loop.stop.assign(0), save=engine.abandon, leave=leave)
        with stopper, loading.blaming(recipe, RunError, "fails in a step"):
            engine.run(stopper)
        writer.wait()
        _write_outs(out, parts.state, covered)
        stored.keep_final(folder, parts.state.snapshot())


class Hooks:
    """What is called after each loop, in order: validation, checkpoints and limits first, then who only looks."""

    def __init__(
        self, parts: Assembled, settings: TrainSettings, options: Options, traces: Path, stack: ExitStack
    ) -> None:
        self._parts, self._settings = parts, settings
        console = stack.enter_context(closing(Console(log_every=settings.log_every, batch_size=settings.batch_size)))
        self.hooks: list[Hook] = [console, Pictures(traces / "pictures")]
        self.stops: list[Stops] = [parts.loop.next_stop, console.next_stop]
        if settings.tensorboard:
            self.hooks.append(stack.enter_context(closing(TensorBoard(traces / "tensorboard"))))
        if options.profile:
            profile = stack.enter_context(closing(Profile(*options.profile, traces / "profile", tell=self.tell)))
            self.hooks.append(profile)
            self.stops.append(profile.next_stop)

    def begin(self, writer: stored.Writer) -> None:
        """Put first what acts on the state, which is now the one that training starts from."""
        parts, settings = self._parts, self._settings
        first: list[Hook] = []
        if parts.evaluation:
            validation = Validation(
                parts.evaluation, parts.state, settings, steps_per_epoch=parts.batches.steps_per_epoch, tell=self.tell
            )
            first.append(validation)
            self.stops.append(validation.next_stop)
        saving = Saving(settings.checkpoint, parts.state, writer)
        first.append(saving)
        self.stops.append(saving.next_stop)
        if settings.max_time:
            first.append(TimeLimit(settings.max_time))
        self.hooks[:0] = first

    def tell(self, record: Record) -> None:
        """Give a record to every hook."""
        for hook in self.hooks:
            hook(record)

    def say(self, text: str) -> None:
        """Tell what the user should know."""
        self.tell(Note(text=text))

    def saved(self, step: int, path: Path, seconds: float) -> None:
        """Tell of a checkpoint."""
        self.tell(Saved(step=step, path=path, seconds=seconds))


def _write_outs(out: Path, state: State, covered: Mapping[str, Any]) -> None:
    weights = state.best_weights or state.kept()
    kept = int(state.best["step"]) if state.best else state.step
    with files.replacing(out / "weights") as folder:
        variables.write_bundle(folder / variables.BUNDLE, weights)
    history.write_history(out / "history.csv", state.history)
    parameters = sum(int(tf.size(value)) for value in weights.values())
    history.write_metrics(
        out / "metrics.json", state.history, kept_step=kept, skipped=state.skipped, parameters=parameters
    )
    files.write_json(out / "run.json", {name: part for name, part in covered.items() if name != "machine"})
