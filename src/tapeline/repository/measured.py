"""The metrics of a pipeline's stages, by name and split, and as a table.

The table of `dvc metrics show` covers all pipelines: a column for each metric, even per class, and a row for each file.
"""

from collections.abc import Mapping
from typing import Any

from tapeline.config.project import Project
from tapeline.parsing import json_text
from tapeline.runtime import files
from tapeline.runtime.errors import InputError

Metrics = dict[str, dict[str, float]]
"""Metric name → split → value, the tested split first."""


def by_split(*, tested: Mapping[str, Any], trained: Mapping[str, Any], split: str) -> Metrics:
    """Join the scalars of validate's and train's `metrics.json`; `split` is the one that validate measured.

    Where that is one of training's splits, too, validate's figures are those of the verdict, and so the ones shown.
    """
    splits = {split: tested}
    for name in ("val", "train"):
        of = trained.get(name)
        splits[name] = {**(of if isinstance(of, dict) else {}), **splits.get(name, {})}
    names = dict.fromkeys(name for metrics in splits.values() for name in metrics)
    found = {
        name: {split: of[name] for split, of in splits.items() if isinstance(of.get(name), int | float)}
        for name in names
    }
    return {name: values for name, values in found.items() if values}


def measured(project: Project, pipeline: str) -> Metrics:
    """Return the metrics from the stages' files; a stage without files has none. Raises `InputError`."""
    verdict = _read(project, pipeline, "validate", "verdict.json")
    return by_split(
        tested=_read(project, pipeline, "validate", "metrics.json"),
        trained=_read(project, pipeline, "train", "metrics.json"),
        split=str(verdict.get("split", "test")),
    )


def table(metrics: Metrics) -> str:
    """Return a line for each metric, a column for each split."""
    splits = list(dict.fromkeys(split for values in metrics.values() for split in values))
    rows = [["metric", *splits]]
    rows += [[name, *(f"{of[split]:.6g}" if split in of else "" for split in splits)] for name, of in metrics.items()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [[row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in rows]
    return "\n".join("  ".join(line).rstrip() for line in lines)


def _read(project: Project, pipeline: str, stage: str, file: str) -> dict[str, Any]:
    path = project.run(pipeline, stage) / file
    try:
        return json_text.mapping(files.read_bytes(path))
    except FileNotFoundError:
        return {}
    except json_text.NotJson as error:
        raise InputError(
            f"{path.relative_to(project.folder)} is not a JSON object: {error}; run the stage again"
        ) from None
