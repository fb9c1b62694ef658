"""One run: build the recipe, prove that its state is complete, go on from a checkpoint, train, write the outs."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from tapeline import files, processes
from tapeline.dataset import Dataset
from tapeline.errors import RunError
from tapeline.recipe import loading, variables
from tapeline.report import Report
from tapeline.train import checkpoints as stored
from tapeline.train import fingerprint, history
from tapeline.train.assembly import assemble
from tapeline.train.console import Console
from tapeline.train.engine import Engine, Stops
from tapeline.train.limit import TimeLimit
from tapeline.train.pace import Pace
from tapeline.train.records import Hook, Note, Record, Saved
from tapeline.train.saving import Saving
from tapeline.train.settings import TrainSettings
from tapeline.train.state import State
from tapeline.train.stopping import Stopper
from tapeline.train.telling import reporting
from tapeline.train.validation import Validation


def run(
    *,
    recipe: Path,
    params: Mapping[str, Any],
    settings: TrainSettings,
    dataset: Dataset,
    out: Path,
    checkpoints: Path,
    fresh: bool,
    report: Report,
    hooks: Sequence[Hook],
    pace: Pace,
    leave: Callable[[int], None],
) -> None:
    """See `tapeline.train.stage.train`; the dataset was opened and verified there."""
    parts = assemble(recipe, params, settings, dataset)
    console = Console(log_every=settings.log_every)
    every_hook: list[Hook] = [console, reporting(report), *hooks]

    def tell(record: Record) -> None:
        for hook in every_hook:
            hook(record)

    def say(text: str) -> None:
        tell(Note(text=text))

    covered = fingerprint.parts(settings=settings.deciding(), params=params, data=dataset.fingerprint(), recipe=recipe)
    folder = checkpoints / fingerprint.fingerprint(covered)
    with processes.exclusive(folder / "lock", waiting=say):
        _resume(parts.state, folder, covered, fresh=fresh, say=say)
        if dropped := parts.batches.dropped:
            say(f"each epoch leaves out {dropped} examples of its permutation: they fill no batch")
        writer = stored.Writer(
            folder,
            keep=settings.checkpoint.keep,
            on_saved=lambda step, path, seconds: tell(Saved(step=step, path=path, seconds=seconds)),
        )
        stops: list[Stops] = [parts.loop.next_stop]
        if settings.max_time:
            every_hook.insert(0, TimeLimit(settings.max_time))
        saving = Saving(settings.checkpoint, parts.state, writer)
        every_hook.insert(0, saving)
        stops.append(saving.next_stop)
        if parts.evaluation:
            validation = Validation(
                parts.evaluation, parts.state, settings, steps_per_epoch=parts.batches.steps_per_epoch, tell=tell
            )
            every_hook.insert(0, validation)
            stops.append(validation.next_stop)
        engine = Engine(
            settings=settings,
            state=parts.state,
            loop=parts.loop,
            feed=parts.feed,
            steps_per_epoch=parts.batches.steps_per_epoch,
            stops=stops,
            hooks=every_hook,
            save=writer.write,
            pace=pace,
        )
        stopper = Stopper(
            ask=lambda: parts.loop.stop.assign(True), save=lambda: writer.write(engine.snapshot), leave=leave
        )
        try:
            with stopper, loading.blaming(recipe, RunError, "fails in a step"):
                engine.run(stopper)
        finally:
            writer.close()
            console.close()
        _write_outs(out, parts.state, covered)
        stored.remove_all(folder)


def _resume(state: State, folder: Path, covered: Mapping[str, Any], *, fresh: bool, say: Callable[[str], None]) -> None:
    """Restore the newest whole checkpoint of this fingerprint, or say why the run starts at step 0."""
    if fresh:
        stored.remove_all(folder)
    snapshot = stored.newest(folder, state.expected, say)
    if snapshot is not None:
        state.restore(snapshot)
        say(f"going on from step {state.step}")
    elif reason := _why_fresh(folder, covered):
        say(f"starting at step 0: a checkpoint of another run is there, which differs in {reason}")
    files.write_json(folder / "fingerprint.json", covered)


def _why_fresh(folder: Path, covered: Mapping[str, Any]) -> str:
    others = sorted(folder.parent.glob("*/fingerprint.json"), key=lambda path: path.stat().st_mtime)
    others = [path for path in others if path.parent != folder and stored.saved(path.parent)]
    if not others:
        return ""
    changed = fingerprint.difference(json.loads(others[-1].read_bytes()), covered)
    return ", ".join(changed[:5]) + (f" and {len(changed) - 5} more" if len(changed) > 5 else "")


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
