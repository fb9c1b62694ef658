"""Stage 4: check the inputs and the verdict before TensorFlow is imported; `save` does the rest."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tapeline.config.export import ExportSettings
from tapeline.dataset.columns import Dataset
from tapeline.export import check, checking
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
    batch_size: int = check.BATCH,
    report: Report = silent,
) -> None:
    """Write `out` (a SavedModel and `model.json`), after a fresh process has reproduced validate's predictions.

    batch_size: that of validate's predictions.
    Raises `VerdictNo` if validate's verdict is no, `InputError` for missing inputs, `RunError` if the check fails;
    the old `out` then stays unchanged.
    """
    described = _described(name, trained, validated)
    dataset = Dataset.open(data)
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
            described=described,
            out=out,
            batch_size=batch_size,
            checker=checker,
            report=report,
        )


def _described(name: str, trained: Path, validated: Path) -> dict[str, Any]:
    """Return what training and validation left about a model whose verdict is yes. Raises as `export` does."""
    remedy = f"run `tapeline validate {name}`"
    verdict = _read(validated / "verdict.json", "verdict", "reason", "split", remedy=remedy)
    if verdict["verdict"] != "yes":
        raise VerdictNo(f"{name} is not exported: {verdict['reason']}")
    metrics = _read(validated / "metrics.json", remedy=remedy)
    return {
        "metrics": metrics,
        "run": _read(trained / "run.json", remedy=f"run `tapeline train {name}`"),
        "verdict": verdict,
    }


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
