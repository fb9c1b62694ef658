"""The outs that people and DVC's plots read: the learning curve and the closing figures. No times in them."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tapeline import files

Row = dict[str, float]


def write_history(path: Path, rows: Sequence[Row]) -> None:
    """Write one row an epoch: step, epoch, training means, then `val_…`, empty where it was not validated."""
    names = sorted({name for row in rows for name in row} - {"step", "epoch"}, key=lambda n: (n.startswith("val_"), n))
    text = io.StringIO()
    table = csv.DictWriter(text, ["step", "epoch", *names], restval="", lineterminator="\n")
    table.writeheader()
    table.writerows(
        {name: repr(value) if isinstance(value, float) else value for name, value in row.items()} for row in rows
    )
    files.write_text(path, text.getvalue())


def write_metrics(path: Path, rows: Sequence[Row], *, kept_step: int, skipped: Sequence[int], parameters: int) -> None:
    """Write the last epoch's training means, the validation of the kept weights, and what happened."""
    last = rows[-1]
    kept = next((row for row in rows if row["step"] == kept_step), last)
    summary: dict[str, Any] = {
        "step": kept_step,
        "epochs": last["epoch"],
        "parameters": parameters,
        "skipped_steps": len(skipped),
        "train": {
            name: value for name, value in last.items() if not name.startswith("val_") and name not in ("step", "epoch")
        },
    }
    if val := {name.removeprefix("val_"): value for name, value in kept.items() if name.startswith("val_")}:
        summary["val"] = val
    files.write_json(path, summary)
