"""What a run costs besides its steps, and a sweep besides its trials' steps: as it is, and without forks.

    python -m benchmarks.run_overhead [--repeats 5] [--sweeps 1] [--trials 20]

HEAD is cloned to temporary folders that use this checkout's environment, with page cache and byte code warm after an
uncounted first run. A run of `digits` with another seed, so that all but ingest is stale, then one with nothing to do;
a sweep of short trials in a clone of its own, for no trial may find an earlier one's result; without forks it has one
trial after the other, as there was before there were forks. All in turn.
"""

import json
import os
import re
import statistics
import subprocess
import tempfile
import time
from functools import partial
from pathlib import Path

from benchmarks import machine, program
from benchmarks.make_run import STAGE, cloned, timed
from benchmarks.workload import ROOT

TAPELINE = str(ROOT / ".venv" / "bin" / "tapeline")
RUN = [TAPELINE, "run", "--pipeline", "digits"]
PROGRESS = Path(".tapeline") / "progress" / "train@digits.jsonl"

SWEEP = [
    *(TAPELINE, "sweep", "--pipeline", "digits", "--max", "accuracy"),
    *("--over", "params.learning_rate={low: 0.0005, high: 0.01, log: true}", "--set", "train.epochs=2"),
    *("--set", "validate.thresholds.accuracy={min: 0.0}", "--set", "validate.thresholds.calibration_error={max: 1.0}"),
]
IMPORT = [str(ROOT / ".venv" / "bin" / "python"), "-c", "from tapeline.runtime import startup; startup.tensorflow()"]
TRACING = """
import sys, time
from tapeline.runtime import startup
startup.tensorflow()
from tapeline.train import run
assemble = run.assemble_twice

def timed(*arguments, **options):
    began = time.perf_counter()
    try:
        return assemble(*arguments, **options)
    finally:
        print("seconds", time.perf_counter() - began, flush=True)
        sys.exit(1)

run.assemble_twice = timed
from tapeline.cli.main import main
main(["train", "digits", "--fresh"])
"""


def main() -> None:
    """Measure all in turn; print and write the medians."""
    parser = program.parser(__doc__, repeats=5)
    parser.add_argument("--sweeps", type=int, default=1, help="of each kind; one without forks takes minutes")
    parser.add_argument("--trials", type=int, default=20)
    options = parser.parse_args()
    rows: dict[str, list[float]] = {}
    calm = machine.Calm(most=3)
    with tempfile.TemporaryDirectory() as name:
        clone = cloned(Path(name) / "run")
        run(clone, seed=0)
        for repeat in range(options.repeats):
            for fork in ("1", "0"):
                for what, seconds in run(clone, seed=2 * repeat + int(fork) + 1, fork=fork).items():
                    rows.setdefault(f"{what}{with_or_without(fork)}", []).append(seconds)
            rows.setdefault("nothing to do", []).append(calm(partial(seconds_of, RUN, clone)))
            rows.setdefault("the recipe's own tracing", []).append(tracing(clone))
            rows.setdefault("TensorFlow's import", []).append(seconds_of(IMPORT, clone))
            for fork in ("1", "0") if repeat < options.sweeps else ():
                own = prepared(Path(name) / f"sweep-{repeat}-{fork}")
                command = [*SWEEP, "--trials", str(options.trials), *(() if fork == "1" else ("--parallel", "1"))]
                what = f"a sweep of {options.trials} trials{with_or_without(fork)}"
                rows.setdefault(what, []).append(seconds_of(command, own, fork=fork))
    for what, values in rows.items():
        print(f"{what:<48} {statistics.median(values):7.2f} s  ({', '.join(f'{one:.2f}' for one in sorted(values))})")
    print_ratios({what: statistics.median(values) for what, values in rows.items()}, options.trials)
    record = {"workload": "run_overhead", "seconds": rows, "stolen": calm.stolen}
    program.write(options.out, record)


def print_ratios(median: dict[str, float], trials: int) -> None:
    """Print what the figures say about the bounds."""
    start = (
        median["start of training to its first step"]
        - median["the recipe's own tracing"]
        - median["TensorFlow's import"]
    )
    sweep = f"a sweep of {trials} trials"
    print(f"a run costs {median['a run besides its steps']:.2f} s besides its steps (bound: 8)")
    print(f"nothing to do: {median['nothing to do']:.2f} s (bound: 1.2)")
    print(f"to the first step, besides imports and tracing: {start:.2f} s (bound: 0.5)")
    if sweep not in median:
        return
    print(f"a sweep is {median[f'{sweep}, without forks'] / median[sweep]:.2f} times as fast as without (bound: 3)")


def with_or_without(fork: str) -> str:
    """Return what is added to the name of a figure."""
    return "" if fork == "1" else ", without forks"


def run(clone: Path, *, seed: int, fork: str = "1") -> dict[str, float]:
    """Run the pipeline with a seed, and return the seconds of the run, of its steps, and from stage to first step."""
    path = clone / "params.yaml"
    text = re.sub(r" +seed: \d+ *# of a benchmark\n", "", path.read_text())
    epochs = "      epochs: 100\n"
    path.write_text(text.replace(epochs, f"{epochs}      seed: {seed}  # of a benchmark\n", 1))
    os.environ["TAPELINE_FORK"] = fork
    called = time.time()
    seconds, lines = timed(RUN, clone)
    began = called + next(now for now, line in lines if (stage := STAGE.search(line)) and stage[1] == "train")
    records = [json.loads(line) for line in (clone / PROGRESS).read_text().splitlines()]
    first = next(record["time"] for record in records if record["event"] == "started")
    *_, last = (record["time"] for record in records if record["event"] == "progress")
    return {
        "a run": seconds,
        "a run's steps": last - first,
        "a run besides its steps": seconds - (last - first),
        "start of training to its first step": first - began,
    }


def seconds_of(command: list[str], folder: Path, *, fork: str = "1") -> float:
    """Return the seconds of a command."""
    os.environ["TAPELINE_FORK"] = fork
    return timed(command, folder)[0]


def tracing(clone: Path) -> float:
    """Return the seconds that training takes to trace and check the recipe, twice, with TensorFlow imported."""
    command = [str(ROOT / ".venv" / "bin" / "python"), "-c", TRACING]
    env = {**os.environ, "PYTHONPATH": str(clone / "src")}
    answer = subprocess.run(command, cwd=clone, env=env, capture_output=True, text=True, check=False)
    found = re.search(r"^seconds (.+)$", answer.stdout, re.MULTILINE)
    if found is None:
        raise SystemExit(f"the tracing was not measured: {answer.stderr[-300:]}")
    return float(found[1])


def prepared(folder: Path) -> Path:
    """Clone HEAD, with the dataset in DVC's cache and the byte code compiled."""
    cloned(folder)
    timed([str(ROOT / ".venv" / "bin" / "dvc"), "repro", "ingest@digits"], folder)
    return folder


if __name__ == "__main__":
    main()
