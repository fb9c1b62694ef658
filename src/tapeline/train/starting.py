"""Where a run starts: from its newest checkpoint, the end of a shorter run, given weights, or at step 0."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tapeline.parsing import json_text
from tapeline.runtime import files, processes
from tapeline.runtime.errors import InputError
from tapeline.train.checkpoints import disk, fingerprint, initial
from tapeline.train.checkpoints.class_rows import ClassRows
from tapeline.train.engine.state import State
from tapeline.train.options import Options

RECORD = "fingerprint.json"


def start(
    state: State,
    folder: Path,
    covered: Mapping[str, Any],
    *,
    options: Options,
    weights: Path | None,
    rows: Sequence[ClassRows] | None = (),
    say: Callable[[str], None],
) -> None:
    """Restore the state to start from, and report which one it is.

    folder: of this fingerprint. covered: what the fingerprint covers. weights: the folder of `train.init_from`.
    rows: as for `initial.take`.
    Raises `InputError` if there is no run to extend, and for an intact checkpoint that does not fit.
    """
    disk.remove_partial(folder)
    if options.fresh:
        disk.remove_all(folder)
    snapshot = disk.newest(folder, state.expected, say)
    if snapshot is not None:
        state.restore(snapshot)
        say(f"resuming from step {state.step}")
    elif options.extend:
        shorter = _shorter(folder, covered)
        with processes.exclusive(shorter / disk.LOCK, waiting=say):
            _extend(state, shorter, covered["settings"]["validate_every"], say)
    else:
        if reason := _why_fresh(folder, covered):
            say(f"starting at step 0: the existing checkpoint is of another run, which differs in {reason}")
        if weights:
            take(weights, state, rows=rows, say=say)
    files.write_json(folder / RECORD, covered)


def take(weights: Path, state: State, *, rows: Sequence[ClassRows] | None = (), say: Callable[[str], None]) -> None:
    """Start from the weights of `train.init_from`. Arguments and errors are those of `initial.take`."""
    own = {name: state.variables[name] for name in state.weights}
    averages = state.average.state if state.average else {}
    others = {name: variable for name, variable in state.variables.items() if name not in {**own, **averages}}
    initial.take(weights, own, say, rows, others)
    if state.average:
        state.average.reset()


def _extend(state: State, shorter: Path, validate_every: int, say: Callable[[str], None]) -> None:
    """Restore the newest state of a run of fewer epochs, whose lock is held.

    Raises `InputError` if its end was validated, where a longer run is not: that validation may have chosen weights.
    """
    remedy = "train without --extend"
    snapshot = disk.newest(shorter, state.expected, say, remedy=remedy)
    snapshot = snapshot or disk.final(shorter, state.expected, remedy=remedy)
    if snapshot is None:
        raise InputError(f"--extend: no usable checkpoint of the shorter run in {shorter}")
    state.restore(snapshot)
    last = state.history[-1] if state.history else {}
    if (
        last.get("step") == state.step
        and last["epoch"] % validate_every
        and any(name.startswith("val_") for name in last)
    ):
        raise InputError(
            f"--extend: the shorter run was validated after its last epoch, {last['epoch']:g}, but a longer one would "
            f"not be, since train.validate_every is {validate_every}: {remedy}"
        )
    say(f"extending a run with fewer epochs from step {state.step}")


def _others(folder: Path) -> list[Path]:
    """Return the records of this pipeline's other runs that left a checkpoint, oldest first."""
    records = sorted(folder.parent.glob(f"*/{RECORD}"), key=lambda path: path.stat().st_mtime)
    return [path for path in records if path.parent != folder and disk.any_saved(path.parent)]


def _shorter(folder: Path, covered: Mapping[str, Any]) -> Path:
    """Return the folder of the longest shorter run that differs only in its epochs."""
    differing: list[str] = []
    found: list[tuple[int, Path]] = []
    for record in _others(folder):
        other = _covered(record)
        differing = fingerprint.difference(other, covered)
        epochs = other["settings"].get("epochs") if differing == ["settings.epochs"] else None
        if isinstance(epochs, int) and epochs < covered["settings"]["epochs"]:
            found.append((epochs, record.parent))
    if not found:
        why = f"the last one differs in {_listed(differing)}" if differing else "there is none"
        raise InputError(f"--extend continues a run with fewer epochs and no other change, but {why}")
    return max(found)[1]


def _covered(record: Path) -> dict[str, Any]:
    """Return what the fingerprint of another run covers; empty if its record is unreadable."""
    try:
        return json_text.mapping(files.read_bytes(record))
    except json_text.NotJson:
        return {}


def _why_fresh(folder: Path, covered: Mapping[str, Any]) -> str:
    others = [path for path in _others(folder) if disk.saved(path.parent)]
    return _listed(fingerprint.difference(_covered(others[-1]), covered)) if others else ""


def _listed(changed: list[str]) -> str:
    return ", ".join(changed[:5]) + (f" and {len(changed) - 5} more" if len(changed) > 5 else "")
