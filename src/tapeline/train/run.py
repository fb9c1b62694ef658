"""One run: assemble, resume, train, write the outputs."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import tensorflow as tf

from tapeline.dataset.columns import Dataset
from tapeline.recipe import loading, variables
from tapeline.runtime import files, processes
from tapeline.runtime.environment import machine
from tapeline.runtime.errors import InputError, Interrupted, RunError, TapelineError
from tapeline.train import starting
from tapeline.train.assembly import Assembled, assemble, assemble_twice
from tapeline.train.checkpoints import class_rows, disk, fingerprint, initial
from tapeline.train.checkpoints.saving import Saving
from tapeline.train.checks import python_state, rehearsal, repeatability
from tapeline.train.engine.host import Engine
from tapeline.train.engine.records import Hook, Note, Record, Saved
from tapeline.train.engine.state import State
from tapeline.train.engine.stopping import Stopper
from tapeline.train.engine.validation import Validation
from tapeline.train.job import Job
from tapeline.train.limit import TimeLimit
from tapeline.train.observers import history, profiling
from tapeline.train.observers.console import Console
from tapeline.train.observers.observing import Observer
from tapeline.train.observers.pictures import Pictures
from tapeline.train.observers.profiling import Profile
from tapeline.train.observers.progress import reporting
from tapeline.train.observers.tensorboard import TensorBoard


def run(job: Job, dataset: Dataset) -> None:
    """Train as `train.stage.train` says; the dataset was opened and verified there."""
    rows = _class_rows(job, dataset)
    covered = _covered(job, dataset, rows)
    folder = job.checkpoints / fingerprint.fingerprint(covered)
    parts = _assembled(job, dataset, is_known=(folder / repeatability.RECORD).exists() and not job.options.fresh)
    with ExitStack() as stack:
        hooks = Hooks(job, parts, stack)
        stack.enter_context(processes.exclusive(folder / "lock", waiting=hooks.say))
        repeatability.check_recorded(job.recipe, folder, parts.made, fresh=job.options.fresh)
        starting.start(parts.state, folder, covered, options=job.options, weights=job.weights, rows=rows, say=hooks.say)
        if job.settings.replicas > (cores := machine()["threads"]):
            hooks.say(f"train.replicas is {job.settings.replicas}, more than there are cores here: {cores}")
        if dropped := parts.batches.dropped:
            hooks.say(f"each epoch leaves out {dropped} examples of its permutation: they fill no batch")
        writer = disk.Writer(folder, keep=job.settings.checkpoint.keep, on_saved=hooks.saved, on_failed=hooks.say)
        stack.enter_context(closing(writer))
        hooks.begin(writer)
        stopped = _trained(job, parts, hooks, writer)
        if stopped and job.settings.best:
            hooks.say(history.early_stop(job.settings.best, parts.state.best or {}, parts.state.history))
        _write_outs(job.out, parts.state, covered, stopped=stopped)
        try:
            disk.keep_final(folder, parts.state.snapshot())
        except (OSError, RunError) as error:
            hooks.say(f"the outputs are written; the state at the end is not, so --extend cannot use it: {error}")


def _class_rows(job: Job, dataset: Dataset) -> list[class_rows.ClassRows] | None:
    """Return what `initial.take` needs to know of classes; before the recipe is built, because it may build another."""
    if job.weights is None or not any(feature.classes for feature in dataset.features.values()):
        return []
    known = job.weights_classes
    return None if known is None else class_rows.find(job.recipe, job.params, dataset, known)


def _covered(job: Job, dataset: Dataset, rows: list[class_rows.ClassRows] | None) -> dict[str, Any]:
    """Return all that decides the bits of the result."""
    covered = fingerprint.parts(
        settings=job.settings.deciding(), params=job.params, data=dataset.fingerprint(), recipe=job.recipe
    )
    if job.weights:
        covered["weights"] = initial.content(job.weights)
    if rows:
        covered["weights_classes"] = {label.label: list(label.then) for label in rows}
    if job.needs:
        covered["needs"] = files.sha256_of_tree(job.needs)
    return covered


def _assembled(job: Job, dataset: Dataset, *, is_known: bool) -> Assembled:
    """Build and trace the recipe, and refuse what would fail later. is_known: whether a start of it is on record."""
    answers: dict[str, str] | None = None

    def rehearse(first: Assembled) -> None:
        nonlocal answers
        answers = rehearsal.answers(first.recipe, job.recipe) if job.expect else None

    if is_known:
        parts = assemble(job.recipe, job.params, job.settings, dataset)
    else:
        parts = assemble_twice(job.recipe, job.params, job.settings, dataset, first_look=rehearse)
    with loading.blaming(job.recipe, InputError, "fails in evaluate"):
        examples = dataset.examples("val") if parts.evaluation else 0
        tried = repeatability.prove_evaluate(parts.recipe, parts.evaluation, examples=examples)
        target = parts.recipe.target
        classes = dataset.features[target].classes if target else None
        rehearsal.check(
            parts.recipe, job.settings, parts.evaluation, tried, answers, job.expect, classes=classes, examples=examples
        )
    return parts


def _trained(job: Job, parts: Assembled, hooks: "Hooks", writer: disk.Writer) -> bool:
    """Train to the end, and return whether that was before the last epoch."""
    engine = Engine(
        settings=job.settings,
        state=parts.state,
        loop=parts.loop,
        feed=parts.feed,
        steps_per_epoch=parts.batches.steps_per_epoch,
        hooks=hooks.hooks,
        save=writer.write_last,
        pace=job.pace,
        watch=python_state.Watch(parts.recipe, "train_step") if job.settings.compile == "eager" else None,
    )
    if job.options.profile:
        profiling.check(*job.options.profile, start=parts.state.step, total=engine.total)
    stopper = Stopper(
        ask=lambda: parts.loop.stop.assign(0),
        save=lambda number: writer.truthful(engine.abandon(number)),
        leave=job.leave,
    )
    try:
        with stopper, loading.blaming(job.recipe, RunError, "fails in a step"):
            engine.run(stopper)
    except (TapelineError, Interrupted) as error:
        raise writer.truthful(error) from error.__cause__
    writer.wait()
    return parts.state.step < engine.total


class Hooks:
    """The hooks called after each loop, in order: validation, checkpoints and limits first, then observers."""

    def __init__(self, job: Job, parts: Assembled, stack: ExitStack) -> None:
        settings = job.settings
        self._parts, self._settings = parts, settings
        console = stack.enter_context(closing(Console(log_every=settings.log_every, batch_size=settings.batch_size)))
        self.hooks: list[Hook] = [console]
        self._observe(stack, "pictures", Pictures, job.traces / "pictures")
        if settings.tensorboard:
            self._observe(stack, "scalars for TensorBoard", TensorBoard, job.traces / "tensorboard")
        if job.options.profile:
            begin = partial(Profile, *job.options.profile, tell=self.tell)
            self._observe(stack, "profiles", begin, job.traces / "profile")
        self.hooks += [reporting(job.report), *job.hooks]

    def _observe(self, stack: ExitStack, name: str, begin: Callable[[Path], Any], folder: Path) -> None:
        observer = Observer(partial(begin, folder), folder, name=name, say=self.say)
        self.hooks.append(stack.enter_context(closing(observer)))

    def begin(self, writer: disk.Writer) -> None:
        """Put first what acts on the state, which is now the one that training starts from."""
        parts, settings = self._parts, self._settings
        first: list[Hook] = []
        if parts.evaluation:
            steps = parts.batches.steps_per_epoch
            first.append(Validation(parts.evaluation, parts.state, settings, steps_per_epoch=steps, tell=self.tell))
        first.append(Saving(settings.checkpoint, parts.state, writer))
        if settings.max_time:
            first.append(TimeLimit(settings.max_time))
        self.hooks[:0] = first

    def tell(self, record: Record) -> None:
        """Pass a record to every hook."""
        for hook in self.hooks:
            hook(record)

    def say(self, text: str) -> None:
        """Report a note to the user."""
        self.tell(Note(text=text))

    def saved(self, step: int, path: Path, seconds: float) -> None:
        """Report a checkpoint."""
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
    # Code is tracked by `engine.lock` and `dvc.lock`; without it here, equivalent code writes identical bytes.
    files.write_json(out / "run.json", {name: covered[name] for name in covered.keys() - {"machine", "code"}})
