"""A mode that needs other threads than TensorFlow has begun with, measured in a process of its own."""

import multiprocessing
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from tapeline import processes, startup
from tapeline.dataset import Dataset
from tapeline.errors import RunError
from tapeline.train.settings import TrainSettings
from tapeline.tuning.choice import Measured, Mode


def apart(
    recipe: Path,
    params: Mapping[str, Any],
    settings: TrainSettings,
    dataset: Dataset,
    mode: Mode,
    *,
    steps: int,
    seconds: float,
) -> Measured:
    """Return what `tapeline.tuning.measuring.measure` measures there; that process ends with this one.

    Raises `InputError` for a mode that the recipe does not have, `RunError` where its process dies.
    """
    spawning = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawning, initializer=processes.die_with_parent) as pool:
        asked = pool.submit(_begun, recipe, params, settings, dataset.folder, mode, steps, seconds)
        try:
            return asked.result()
        except BrokenProcessPool:
            raise RunError(f"{mode}: its process has died") from None
        except BaseException:
            for child in multiprocessing.active_children():
                child.kill()
            raise


def _begun(
    recipe: Path,
    params: Mapping[str, Any],
    settings: TrainSettings,
    data: Path,
    mode: Mode,
    steps: int,
    seconds: float,
) -> Measured:
    startup.tensorflow(replicas=mode.replicas)
    from tapeline.tuning.measuring import measure

    return measure(recipe, params, settings, Dataset.open(data), mode, steps=steps, seconds=seconds)
