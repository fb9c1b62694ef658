"""One run: assemble, go on from where it was, train, write the outs."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import tensorflow as tf

from tapeline.config.train import TrainSettings
from tapeline.dataset.columns import Dataset
from tapeline.recipe import loading, variables
from tapeline.runtime import files, processes
from tapeline.runtime.environment import machine
from tapeline.runtime.errors import InputError, Interrupted, RunError, TapelineError
from tapeline.runtime.progress import Report
from tapeline.train import starting
from tapeline.train.assembly import Assembled, assemble, assemble_twice
from tapeline.train.checkpoints import class_rows, fingerprint, initial
from tapeline.train.checkpoints import disk as stored
from tapeline.train.checkpoints.saving import Saving
from tapeline.train.checks import python_state, rehearsal, repeatability
from tapeline.train.checks.rehearsal import Expect
from tapeline.train.engine.host import Engine, Stops
from tapeline.train.engine.pace import Pace
from tapeline.train.engine.records import Hook, Note, Record, Saved
from tapeline.train.engine.state import State
from tapeline.train.engine.stopping import Leave, Stopper
from tapeline.train.engine.validation import Validation
from tapeline.train.limit import TimeLimit
from tapeline.train.observers import history, profiling
from tapeline.train.observers.console import Console
from tapeline.train.observers.observing import Observer
from tapeline.train.observers.pictures import Pictures
from tapeline.train.observers.profiling import Profile
from tapeline.train.observers.progress import reporting
from tapeline.train.observers.tensorboard import TensorBoard
from tapeline.train.options import Options


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
    weights_classes: class_rows.Classes | None,
    needs: Path | None,
    expect: Expect | None,
    traces: Path,
    report: Report,
    hooks: Sequence[Hook],
    pace: Pace,
    leave: Leave,
) -> None:
    """See `tapeline.train.stage.train`; the dataset was opened and verified there."""
    rows = _class_rows(recipe, params, dataset, weights, weights_classes)
    covered = fingerprint.parts(settings=settings.deciding(), params=params, data=dataset.fingerprint(), recipe=recipe)
    if weights:
        covered["weights"] = initial.content(weights)
    if rows:
        covered["weights_classes"] = {label.label: list(label.then) for label in rows}
    if needs:
        covered["needs"] = files.sha256_of_tree(needs)
    folder = checkpoints / fingerprint.fingerprint(covered)
    is_known = (folder / repeatability.RECORD).exists() and not options.fresh
    answers: dict[str, str] | None = None

    def rehearse(first: Assembled) -> None:
        nonlocal answers
        answers = rehearsal.answers(first.recipe, recipe) if expect else None

    if is_known:
        parts = assemble(recipe, params, settings, dataset)
    else:
        parts = assemble_twice(recipe, params, settings, dataset, first_look=rehearse)
    with loading.blaming(recipe, InputError, "fails in evaluate"):
        examples = dataset.examples("val") if parts.evaluation else 0
        tried = repeatability.prove_evaluate(parts.recipe, parts.evaluation, examples=examples)
        target = parts.recipe.target
        classes = dataset.features[target].classes if target else None
        rehearsal.check(
            parts.recipe, settings, parts.evaluation, tried, answers, expect, classes=classes, examples=examples
        )
    with ExitStack() as stack:
        told = Hooks(parts, settings, options, traces, stack)
        told.hooks += [reporting(report), *hooks]
        stack.enter_context(processes.exclusive(folder / "lock", waiting=told.say))
        repeatability.check_recorded(recipe, folder, parts.made, fresh=options.fresh)
        starting.start(parts.state, folder, covered, options=options, weights=weights, rows=rows, say=told.say)
        if settings.replicas > (cores := machine()["threads"]):
            told.say(f"train.replicas is {settings.replicas}, more than there are cores here: {cores}")
        if dropped := parts.batches.dropped:
            told.say(f"each epoch leaves out {dropped} examples of its permutation: they fill no batch")
        writer = stored.Writer(folder, keep=settings.checkpoint.keep, on_saved=told.saved, on_failed=told.say)
        stack.enter_context(closing(writer))
        told.begin(writer)
        if options.profile:
            total = settings.epochs * parts.batches.steps_per_epoch
            profiling.check(*options.profile, start=parts.state.step, total=total)
        engine = Engine(
            settings=settings,
            state=parts.state,
            loop=parts.loop,
            feed=parts.feed,
            steps_per_epoch=parts.batches.steps_per_epoch,
            stops=told.stops,
            hooks=told.hooks,
            save=writer.write_last,
            pace=pace,
            watch=python_state.Watch(parts.recipe, "train_step") if settings.compile == "eager" else None,
        )
        stopper = Stopper(
            ask=lambda: parts.loop.stop.assign(0),
            save=lambda number: writer.truthful(engine.abandon(number)),
            leave=leave,
        )
        try:
            with stopper, loading.blaming(recipe, RunError, "fails in a step"):
                engine.run(stopper)
        except (TapelineError, Interrupted) as error:
            raise writer.truthful(error) from error.__cause__
        writer.wait()
        stopped = parts.state.step < engine.total
        if stopped and settings.best:
            told.say(history.early_stop(settings.best, parts.state.best or {}, parts.state.history))
        _write_outs(out, parts.state, covered, stopped=stopped)
        try:
            stored.keep_final(folder, parts.state.snapshot())
        except (OSError, RunError) as error:
            told.say(f"the outputs are written; the state at the end is not, so --extend cannot use it: {error}")


def _class_rows(
    recipe: Path,
    params: Mapping[str, Any],
    dataset: Dataset,
    weights: Path | None,
    known: class_rows.Classes | None,
) -> list[class_rows.ClassRows] | None:
    """Return what `initial.take` needs to know of classes; before the recipe is built, because it may build another."""
    if weights is None or not any(feature.classes for feature in dataset.features.values()):
        return []
    return None if known is None else class_rows.find(recipe, params, dataset, known)


class Hooks:
    """What is called after each loop, in order: validation, checkpoints and limits first, then who only looks."""

    def __init__(
        self, parts: Assembled, settings: TrainSettings, options: Options, traces: Path, stack: ExitStack
    ) -> None:
        self._parts, self._settings = parts, settings
        console = stack.enter_context(closing(Console(log_every=settings.log_every, batch_size=settings.batch_size)))
        self.hooks: list[Hook] = [console]
        self.stops: list[Stops] = [parts.loop.next_stop, console.next_stop]
        self._observe(stack, "pictures", Pictures, traces / "pictures")
        if settings.tensorboard:
            self._observe(stack, "scalars for TensorBoard", TensorBoard, traces / "tensorboard")
        if options.profile:
            begin = partial(Profile, *options.profile, tell=self.tell)
            profile = self._observe(stack, "profiles", begin, traces / "profile")
            self.stops.append(profile.next_stop)

    def _observe(self, stack: ExitStack, name: str, begin: Callable[[Path], Any], folder: Path) -> Observer:
        observer = stack.enter_context(closing(Observer(partial(begin, folder), folder, name=name, say=self.say)))
        self.hooks.append(observer)
        return observer

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


def _write_outs(out: Path, state: State, covered: Mapping[str, Any], *, stopped: bool) -> None:
    weights = state.best_weights or state.kept()
    kept = int(state.best["step"]) if state.best else state.step
    with files.replacing(out / "weights") as folder:
        variables.write_bundle(folder / variables.BUNDLE, weights)
    history.write_history(out / "history.csv", state.history)
    parameters = sum(int(tf.size(value)) for value in weights.values())
    history.write_metrics(
        out / "metrics.json",
        state.history,
        kept_step=kept,
        skipped=state.skipped,
        parameters=parameters,
        stopped=stopped,
    )
    # The code is in `engine.lock` and in `dvc.lock`: another that computes the same leaves the same bytes.
    files.write_json(out / "run.json", {name: covered[name] for name in covered.keys() - {"machine", "code"}})
