"""A mode that needs other threads than TensorFlow has begun with, measured in a process of its own."""

import multiprocessing
import os
import signal
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tapeline import processes, startup
from tapeline.dataset import Dataset
from tapeline.errors import InputError, RunError
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
    answers, theirs = spawning.Pipe(duplex=False)
    asked = (recipe, params, settings, dataset.folder, mode, steps, seconds)
    process = spawning.Process(target=_measure, args=(theirs, os.getpid(), *asked), daemon=True)
    try:
        process.start()
        theirs.close()
        answer: Measured | InputError | RunError = answers.recv()
    except EOFError:
        process.join()
        raise RunError(f"its process has ended with {_told(process.exitcode)}") from None
    finally:
        if process.pid is not None:
            process.kill()
            process.join()
    if isinstance(answer, Exception):
        raise answer
    return answer


def _told(status: int | None) -> str:
    return f"status {status}" if status is None or status >= 0 else signal.Signals(-status).name


def _measure(
    answers: "Connection[Any, Any]",
    parent: int,
    recipe: Path,
    params: Mapping[str, Any],
    settings: TrainSettings,
    data: Path,
    mode: Mode,
    steps: int,
    seconds: float,
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to both; the other one ends this one
    processes.die_with_parent(signal.SIGKILL)
    if os.getppid() != parent:
        return
    try:
        startup.tensorflow(replicas=mode.replicas)
        from tapeline.tuning.measuring import measure

        answers.send(measure(recipe, params, settings, Dataset.open(data), mode, steps=steps, seconds=seconds))
    except (InputError, RunError) as error:
        answers.send(error)
