"""Measure one workload: inputs, processes, agreement, rounds."""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.comparison import Figures, disagreements, ratios
from benchmarks.peers.engine import FAMILY
from benchmarks.process import Failed, Process
from benchmarks.rounds import interleaved
from benchmarks.workload import ROOT, Contender, Workload

Say = Callable[[str], None]


def measure(
    workload: Workload, *, repeats: int, seconds: float, warm_up: float, wanted: Callable[[Contender], bool], say: Say
) -> dict[str, Any]:
    """Return the record of one workload as JSON. A contender that fails is reported and left out.

    Raises `Failed` if Tapeline itself fails.
    """
    record: dict[str, Any] = {"workload": workload.name, "title": workload.title, "left_out": {}, "contenders": {}}
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        inputs = Path(name) / "inputs"
        write_inputs(workload, inputs)
        processes: dict[str, Process] = {}
        for number, contender in enumerate(filter(wanted, workload.contenders)):
            if missing := [module for module in contender.needs if find_spec(module) is None]:
                record["left_out"][contender.name] = f"{', '.join(missing)} is not installed"
                continue
            process = stack.enter_context(closing(Process(workload.name, contender.name, own_folder(inputs, number))))
            try:
                answer = process.learned()
            except Failed as error:
                record["left_out"][contender.name] = str(error)
                say(f"  {contender.name} is left out: {error}")
                continue
            processes[contender.name] = process
            record["contenders"][contender.name] = {
                "family": contender.family,
                "setting": contender.setting,
                "learns": contender.learns,
                "tolerance": contender.tolerance or workload.tolerance,
                **answer,
            }
            losses = "  ".join(f"{kind} {value:.6g}" for kind, value in answer["losses"].items())
            say(f"  {contender.name}: first step after {answer['first_step']:.1f} s, {losses}")
        _check(record, say)
        calm = machine.Calm()
        runners = {name: _Peak(process, record["contenders"][name]) for name, process in processes.items()}
        speeds = interleaved(
            runners,
            repeats=repeats,
            seconds=seconds,
            warm_up=warm_up,
            calm=calm,
            told=lambda name, number, speed: say(f"  round {number + 1}/{repeats}  {name}: {speed:,.1f} steps/s"),
        )
        record |= {"stolen": calm.stolen, "again": calm.again}
    figures = []
    for name, contender in record["contenders"].items():
        contender["steps_per_second"] = speeds[name]
        figures.append(Figures(family=contender["family"], setting=contender["setting"], speeds=speeds[name]))
        contender |= {"median": figures[-1].median, "spread": figures[-1].spread}
    record |= {"ratios": ratios(figures, FAMILY), "targets": dict(workload.targets)}
    return record | {"repeats": repeats, "seconds": seconds}


class _Peak:
    """Runs a process and records its peak memory."""

    def __init__(self, process: Process, record: dict[str, Any]) -> None:
        self._process, self._record = process, record

    def run(self, seconds: float) -> Any:
        answer = self._process.run(seconds)
        self._record["peak_mb"] = max(self._record["peak_mb"], answer["peak_mb"])
        return answer


def _check(record: dict[str, Any], say: Say) -> None:
    """Record which contenders did not learn the same as Tapeline."""
    contenders = record["contenders"]
    own = [name for name, contender in contenders.items() if contender["family"] == FAMILY]
    if not own:
        raise Failed(f"{record['workload']}: tapeline did not run: {record['left_out']}")
    losses = {name: contender["losses"] for name, contender in contenders.items() if contender["learns"]}
    tolerance = {name: contender["tolerance"] for name, contender in contenders.items()}
    record["disagree"] = disagreements(losses, own[0], tolerance)
    for name, difference in record["disagree"].items():
        say(f"  {name} DOES NOT LEARN THE SAME: {difference}")


def write_inputs(workload: Workload, folder: Path) -> None:
    """Write the inputs in a separate process: the harness stays small and imports no TensorFlow."""
    command = [sys.executable, "-m", "benchmarks.inputs", workload.name, str(folder)]
    environment = Process.environment()
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(f"inputs of {workload.name}: {done.stderr.strip().splitlines()[-1]}")


def own_folder(inputs: Path, number: int) -> Path:
    """Return a contender's own folder with links to the inputs."""
    folder = inputs.with_name(str(number))
    folder.mkdir()
    for path in inputs.iterdir():
        (folder / path.name).symlink_to(path)
    return folder
