"""Run `probe.py` on one version, in a fresh process with limited memory and time, in a sandbox."""

import base64
import json
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from tapeline.config.mistakes import mistakes_in
from tapeline.config.registry import CheckSettings
from tapeline.export import prediction_log
from tapeline.parsing import arrays, json_text
from tapeline.runtime import disk_errors, interpreter, leash, sandbox, scratch
from tapeline.runtime.errors import InputError, plain

PROBE = Path(__file__).with_name("probe.py")
"""Not imported: this process stays without TensorFlow."""
PACKAGE = PROBE.parents[2]
POLL = 0.05
"""Seconds between two checks of the process's memory."""
MOST_PRINTED = 2**20
"""Bytes of what the process prints that are read."""


@dataclass(frozen=True)
class Answer:
    """What a model did: its failures as sentences, its figures, and its answers by output name."""

    failures: tuple[str, ...]
    figures: dict[str, Any]
    predictions: dict[str, NDArray[Any]]


class _Latency(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    p50: float
    p99: float


class _Printed(BaseModel):
    """What the process prints last: all of it goes into a verdict, and so into a tag."""

    model_config = ConfigDict(extra="forbid", strict=True)

    failures: list[str]
    sandbox: str
    load_seconds: float | None = None
    latency_ms: _Latency | None = None
    examples: dict[str, int] | None = None
    batch_sizes: list[int] | None = None
    memory_mb: float | None = None


def run(
    model: Path,
    signatures: Mapping[str, Any],
    inputs: Mapping[str, Path],
    *,
    recorded: Path | None,
    tolerance: float,
    settings: CheckSettings,
) -> Answer:
    """Return how the SavedModel in `model` answers.

    signatures: those to try. inputs: files with an `.npy` array each, shape (examples, ...); empty for the model's own
    warm-up requests. recorded: an `.npz` of the expected answers for those inputs.
    Never raises because of the model: its errors are in the answer's failures. Raises `OSError` if the disk of
    temporary files is full, whatever failed then.
    """
    with scratch.folder("probe") as made:
        answers = made / "scratch" / "answers.npz"
        asked = {
            "model": str(model.resolve()),
            "signatures": dict(signatures),
            "inputs": {name: str(path.resolve()) for name, path in inputs.items()},
            "predictions": str(recorded.resolve()) if recorded else None,
            "tolerance": tolerance,
            "answers": str(answers),
            "log": base64.b64encode(prediction_log.definition()).decode(),
            "log_name": prediction_log.NAME,
        }
        given = [model, *inputs.values(), *([recorded] if recorded else [])]
        failure, output = _limited(json.dumps(asked), made, given, settings)
        if failure:
            disk_errors.check_writable(made)
            return Answer((failure,), {}, {})
        try:
            said = json_text.mapping(output.strip().rpartition("\n")[2])
            figures = _Printed.model_validate(said).model_dump(exclude_none=True)
            linked = answers.is_symlink()  # to a file that the process itself could not have read
            predictions = arrays.unpacked(answers) if answers.exists() and not linked else {}
        except (json_text.NotJson, arrays.NotArrays, InputError, ValidationError) as error:
            disk_errors.check_writable(made)
            why = mistakes_in(error, said)[0].told("") if isinstance(error, ValidationError) else str(error)
            return Answer((f"answers something that is not an array, or not a record: {plain(why)[:200]}",), {}, {})
    return Answer(tuple(figures.pop("failures")), figures, predictions)


def _limited(asked: str, folder: Path, given: Sequence[Path], settings: CheckSettings) -> tuple[str, str]:
    """Return what went wrong, if anything, and the process's stdout. given: what the process may read."""
    home = folder / "scratch"
    home.mkdir()
    memory = settings.memory_mb * 2**20
    rules = sandbox.Rules(
        read=(*(str(path.resolve()) for path in (PACKAGE, *given)), *interpreter.packages()),
        folder=str(home),
        file_bytes=memory,
        memory_bytes=memory,
        seconds=settings.seconds,
    )
    command = [*leash.launcher(signal.SIGKILL), *sandbox.command(rules), *interpreter.isolated(str(PROBE))]
    (folder / "asked.json").write_text(asked, encoding="utf-8")
    environment = sandbox.environment(home, TF_CPP_MIN_LOG_LEVEL="2", CUDA_VISIBLE_DEVICES="-1")
    deadline = time.monotonic() + settings.seconds
    with (
        (folder / "asked.json").open("rb") as asks,
        (folder / "out").open("wb") as out,
        (folder / "err").open("wb") as err,
        subprocess.Popen(command, stdin=asks, stdout=out, stderr=err, env=environment) as child,
    ):
        failure = _watched(child, deadline, settings)
    if not failure and child.returncode:
        lines = _end(folder / "err").strip().splitlines()
        killed = f"was killed by signal {-child.returncode}" if child.returncode < 0 else ""
        failure = killed or f"does not load or answer: {lines[-1] if lines else 'it printed nothing'}"
    return failure, _end(folder / "out")


def _end(path: Path) -> str:
    """Return the last part of what the process printed, which may be as much as it may write."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - MOST_PRINTED))
        return file.read().decode("utf-8", errors="replace")


def _watched(child: "subprocess.Popen[bytes]", deadline: float, settings: CheckSettings) -> str:
    """Wait for the process and kill it at its limits; return which one it reached."""
    process = psutil.Process(child.pid)
    try:
        while True:
            try:
                child.wait(POLL)
                return ""
            except subprocess.TimeoutExpired:
                used = process.memory_info().rss / 2**20
                if used > settings.memory_mb:
                    child.kill()
                    return f"uses {used:.0f} MB of memory, more than {settings.memory_mb}"
                if time.monotonic() > deadline:
                    child.kill()
                    return f"did not finish within {settings.seconds:g} s"
    except psutil.NoSuchProcess:
        child.wait()
        return ""
    except BaseException:
        child.kill()
        raise
