"""Stage 4: check the inputs and the verdict before TensorFlow is imported; `save` does the rest."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tapeline.config.export import ExportSettings
from tapeline.dataset.columns import Dataset
from tapeline.export import checking
from tapeline.parsing import json_text
from tapeline.runtime import files, startup
from tapeline.runtime.errors import InputError, VerdictNo
from tapeline.runtime.progress import Report, silent


def export(
    *,
    name: str,
    recipe: Path,
    params: Mapping[str, Any],
    settings: ExportSettings,
    data: Path,
    trained: Path,
    validated: Path,
    out: Path,
    report: Report = silent,
) -> None:
    """Write `out` (a SavedModel and `model.json`), after a fresh process has reproduced validate's predictions.

    Raises `VerdictNo` if validate's verdict is no, `InputError` for missing inputs, `RunError` if the check fails;
    the old `out` then stays unchanged.
    """
    verdict = _read(validated / "verdict.json", "verdict", "reason", "split", remedy=f"run `tapeline validate {name}`")
    if verdict["verdict"] != "yes":
        raise VerdictNo(f"{name} is not exported: {verdict['reason']}")
    dataset = Dataset.open(data)
    metrics = _read(validated / "metrics.json", remedy=f"run `tapeline validate {name}`")
    run = _read(trained / "run.json", remedy=f"run `tapeline train {name}`")
    dataset.verify()

    with checking.checker() as checker:
        startup.tensorflow()
        from tapeline.export.save import save

        save(
            name=name,
            recipe=recipe,
            params=params,
            settings=settings,
            dataset=dataset,
            trained=trained,
            validated=validated,
            described={"metrics": metrics, "run": run, "verdict": verdict},
            out=out,
            checker=checker,
            report=report,
        )


def _read(path: Path, *keys: str, remedy: str) -> dict[str, Any]:
    try:
        found = json_text.mapping(files.read_bytes(path))
    except FileNotFoundError:
        raise InputError(f"{path} is missing: {remedy}") from None
    except json_text.NotJson:
        raise InputError(f"{path} is not JSON, so it was truncated or altered: {remedy}") from None
    if missing := [key for key in keys if not isinstance(found.get(key), str)]:
        raise InputError(f"{path} does not record its {', '.join(missing)}, so it was altered: {remedy}")
    return found
