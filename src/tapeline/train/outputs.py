"""The outputs: the kept weights, the learning curve and the final metrics for DVC's plots, and what they are made of.

No time, host or path is in any of them: the same run writes the same bytes.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from tapeline.config.train import Best
from tapeline.parsing import csv_text, json_text
from tapeline.recipe import bundles
from tapeline.runtime import files
from tapeline.train.engine.state import State

Row = dict[str, float]


def write(out: Path, state: State, made_of: Mapping[str, Any], *, stopped: bool) -> None:
    """Replace `weights/`, `history.csv`, `metrics.json` and `run.json`.

    made_of: what the fingerprint covers, with `TrainSettings.recorded`. stopped: whether training ended before its last
    epoch.
    """
    weights = state.best_weights or state.kept()
    kept = int(state.best["step"]) if state.best else state.step
    (out / "run.json").unlink(missing_ok=True)  # an old one must not stand beside new weights
    with files.replacing(out / "weights") as folder:
        bundles.write(folder / bundles.WEIGHTS, weights)
    write_history(out / "history.csv", state.history)
    parameters = sum(int(tf.size(value)) for value in weights.values())
    write_metrics(
        out / "metrics.json",
        state.history,
        kept_step=kept,
        skipped=state.skipped,
        parameters=parameters,
        stopped=stopped,
    )
    # Code is tracked by `engine.lock` and `dvc.lock`; without it here, equivalent code writes identical bytes.
    files.write_json(out / "run.json", {name: made_of[name] for name in made_of.keys() - {"machine", "code"}})


def write_history(path: Path, rows: Sequence[Row]) -> None:
    """Write one row per epoch: step, epoch, training means, then `val_…`, empty for epochs without validation."""
    names = sorted({name for row in rows for name in row} - {"step", "epoch"}, key=lambda n: (n.startswith("val_"), n))
    columns = ["step", "epoch", *names]
    files.write_text(path, csv_text.table(columns, ([row.get(name, "") for name in columns] for row in rows)))


def write_metrics(
    path: Path, rows: Sequence[Row], *, kept_step: int, skipped: Sequence[int], parameters: int, stopped: bool = False
) -> None:
    """Write the last epoch's training means, the validation metrics of the kept weights, and counts.

    What is not finite becomes null.

    stopped: whether training ended early; then all metrics are from the epoch whose weights are kept.
    """
    last = rows[-1]
    kept = next((row for row in rows if row["step"] == kept_step), last)
    trained = kept if stopped else last
    summary: dict[str, Any] = {
        "step": kept_step,
        "epochs": last["epoch"],
        "parameters": parameters,
        "skipped_steps": len(skipped),
        "train": {
            name: value
            for name, value in trained.items()
            if not name.startswith("val_") and name not in ("step", "epoch")
        },
    }
    if val := {name.removeprefix("val_"): value for name, value in kept.items() if name.startswith("val_")}:
        summary["val"] = val
    files.write_json(path, json_text.as_json(summary))


def early_stop(best: Best, found: Mapping[str, float], rows: Sequence[Row]) -> str:
    """Return a sentence that explains why training ended before its last epoch. found: `State.best`."""
    epoch = next((int(row["epoch"]) for row in rows if row["step"] == found["step"]), 0)
    return (
        f"stopped early after epoch {int(rows[-1]['epoch'])}: {best.metric} has not improved in {best.patience} "
        f"validations; kept the weights of epoch {epoch} (step {int(found['step'])}), "
        f"with {best.metric} {found['value']:.6g}"
    )
