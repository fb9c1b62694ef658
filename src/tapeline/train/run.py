"""One run: assemble, resume, train, write the outputs."""

from collections.abc import Collection
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from tapeline.dataset.columns import Dataset
from tapeline.recipe import loading
from tapeline.recipe.predicting import Answer
from tapeline.runtime import closure, files, files_read, own_files, processes
from tapeline.runtime.errors import InputError, Interrupted, RunError, TapelineError
from tapeline.runtime.records import Hook, Note, Record, Saved
from tapeline.train import outputs, starting
from tapeline.train.assembly import Assembled, assemble, assemble_twice
from tapeline.train.checkpoints import class_rows, disk, fingerprint, initial
from tapeline.train.checkpoints.saving import Saving
from tapeline.train.checks import python_state, rehearsal, repeatability
from tapeline.train.engine.host import Engine
from tapeline.train.engine.stopping import Stopper
from tapeline.train.engine.validation import Validation
from tapeline.train.hooks import Watched, own_hooks
from tapeline.train.job import Job
from tapeline.train.limit import TimeLimit


def run(job: Job, dataset: Dataset) -> None:
    """Train as `train.stage.train` says; the dataset was opened and verified there."""
    with files_read.watched() as read:
        rows = _class_rows(job, dataset)
        covered = _covered(job, dataset, rows)
        folder = job.checkpoints / fingerprint.fingerprint(covered)
        parts, answers = _assembled(job, dataset, folder)
    known = [job.recipe, *closure.own(job.recipe), job.data, job.checkpoints, job.out, job.traces]
    own_files.check(job.recipe, read, job.needs, known=[*known, *([job.weights] if job.weights else [])])
    with ExitStack() as stack:
        audience = Audience(job, parts, stack)
        say = audience.say
        stack.enter_context(processes.exclusive(folder / disk.LOCK, waiting=say))
        repeatability.check_recorded(job.recipe, folder, parts.made, fresh=job.options.fresh)
        if answers is not None:
            rehearsal.record(folder, answers)
        starting.start(parts.state, folder, covered, options=job.options, weights=job.weights, rows=rows, say=say)
        if parts.unchecked:
            lines = ", ".join(map(str, parts.unchecked))
            say(f"under `compile: xla` the assertions in line {lines} are not checked; `compile: graph` checks them")
        if dropped := parts.batches.dropped:
            say(f"each epoch drops {dropped} examples of its permutation, which do not fill a batch")
        writer = disk.Writer(folder, keep=job.settings.checkpoint.keep, on_saved=audience.saved, on_failed=say)
        stack.enter_context(closing(writer))
        stopped = _trained(job, parts, audience, writer)
        if stopped and job.settings.best:
            say(outputs.early_stop(job.settings.best, parts.state.best or {}, parts.state.history))
        outputs.write(job.out, parts.state, {**covered, "settings": job.settings.recorded()}, stopped=stopped)
        try:
            disk.keep_final(folder, parts.state.snapshot())
        except (OSError, TapelineError) as error:
            say(f"wrote the outputs, but not the final state, so --extend cannot be used: {error}")


class Audience:
    """Who is told of a run, in this order: observers, the recipe's hooks, the caller's hooks."""

    def __init__(self, job: Job, parts: Assembled, stack: ExitStack) -> None:
        watched = Watched(job.recipe, parts.recipe, parts.state, eager=job.settings.compile == "eager")
        own = own_hooks(watched)
        self.hooks: list[Hook] = []
        self.hooks += [*stack.enter_context(job.observers(job, self.tell)), *own, *job.hooks]

    def tell(self, record: Record) -> None:
        """Pass a record to all, in order."""
        for hook in self.hooks:
            hook(record)

    def say(self, text: str) -> None:
        """Report a note to the user."""
        self.tell(Note(text=text))

    def saved(self, step: int, path: Path, seconds: float) -> None:
        """Report a checkpoint."""
        self.tell(Saved(step=step, path=path, seconds=seconds))


def _class_rows(job: Job, dataset: Dataset) -> list[class_rows.ClassRows] | None:
    """Return what `initial.take` needs to know of classes; before the recipe is built, because it may build another."""
    if job.weights is None or not any(feature.classes for feature in dataset.features.values()):
        return []
    known = job.weights_classes
    return None if known is None else class_rows.find(job.recipe, job.params, dataset, known)


def _covered(job: Job, dataset: Dataset, rows: list[class_rows.ClassRows] | None) -> dict[str, Any]:
    """Return all that decides the bits of the result."""
    covered = fingerprint.parts(
        settings=job.settings.deciding(),
        params=job.params,
        data=dataset.fingerprint(),
        recipe=job.recipe,
        bits=job.settings.promised_bits,
    )
    if job.weights:
        covered["weights"] = initial.content(job.weights)
    if rows:
        covered["weights_classes"] = {label.label: list(label.then) for label in rows}
    if job.needs:
        covered["needs"] = files.sha256_of_tree(job.needs)
    return covered


def _assembled(job: Job, dataset: Dataset, folder: Path) -> tuple[Assembled, dict[str, Answer] | None]:
    """Build and trace the recipe, and refuse what would fail later.

    folder: with a record of an earlier start, the recipe is built once. Also returns the `rehearsal.answers`, if
    anybody expects something of them.
    """
    answers = rehearsal.recorded(folder) if job.expect else None
    started = (folder / repeatability.RECORD).exists() and not job.options.fresh
    is_known = started and (answers is not None or job.expect is None)
    measured: Collection[str] | None = None

    def rehearse(first: Assembled) -> None:
        nonlocal answers, measured
        if job.expect:
            data = dataset.columns(job.predicted) if job.predicted else None
            answers = rehearsal.answers(first.recipe, job.recipe, data)
        split, size = job.predicted, job.settings.batch_size
        measured = rehearsal.measured(first.recipe, job.recipe, dataset, first.evaluation, split=split, batch_size=size)

    if is_known:
        parts = assemble(job.recipe, job.params, job.settings, dataset)
    else:
        parts = assemble_twice(job.recipe, job.params, job.settings, dataset, first_look=rehearse)
    with loading.blaming(job.recipe, InputError, "fails in evaluate"):
        examples = dataset.examples("val") if parts.evaluation else 0
        if parts.evaluation:
            measured = repeatability.prove_evaluate(parts.recipe, parts.evaluation, examples=examples)
        target = parts.recipe.target
        kind = dataset.features[target] if target else None
        rehearsal.check(
            parts.recipe, job.settings, parts.evaluation, measured, answers, job.expect, kind=kind, examples=examples
        )
    return parts, answers


def _acting(job: Job, parts: Assembled, audience: Audience, writer: disk.Writer) -> list[Hook]:
    """Return the hooks that act on the state, which is now the one that training starts from."""
    acting: list[Hook] = []
    if parts.evaluation:
        steps = parts.batches.steps_per_epoch
        acting.append(
            Validation(parts.evaluation, parts.state, job.settings, steps_per_epoch=steps, tell=audience.tell)
        )
    acting.append(Saving(job.settings.checkpoint, parts.state, writer))
    if job.settings.max_time:
        acting.append(TimeLimit(job.settings.max_time))
    return acting


def _trained(job: Job, parts: Assembled, audience: Audience, writer: disk.Writer) -> bool:
    """Train to the end, and return whether that was before the last epoch."""
    engine = Engine(
        settings=job.settings,
        state=parts.state,
        loop=parts.loop,
        feed=parts.feed,
        steps_per_epoch=parts.batches.steps_per_epoch,
        hooks=[*_acting(job, parts, audience, writer), *audience.hooks],
        save=writer.write_last,
        pace=job.pace,
        watch=python_state.Watch(parts.recipe, "train_step") if job.settings.compile == "eager" else None,
    )
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
