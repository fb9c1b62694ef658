"""Where the time of `make run` goes: its stages and the work around them, piece by piece.

    python -m benchmarks.make_run [--repeats 3]

HEAD is cloned to a temporary folder that uses this checkout's environment, so that the first run does all the work and
the second none. A plain `dvc repro` in another clone does the same work without Prefect.
"""

import os
import re
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks import program
from benchmarks.workload import ROOT

BEGINS = re.compile(r"Beginning flow run")
WORKS = re.compile(r"Running stage '(\w+)@")
ENDS = re.compile(r"(\w+)@\S+ +Finished in state")
ENDED = re.compile(r" Finished in state (Completed|Failed)\(")
PIECES = {
    "python": "pass",
    "import prefect": "import prefect",
    "import flows.training": "import flows.training",
    "import dvc": "import dvc.repo",
    "import prefect's server": "import prefect.server.api.server",
    "import tensorflow": "from tapeline.runtime import startup; startup.tensorflow()",
}


def cloned(folder: Path) -> Path:
    """Clone HEAD to a folder, for this checkout's environment."""
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    return folder


def timed(command: list[str], folder: Path) -> tuple[float, list[tuple[float, str]]]:
    """Return the seconds of a command, and each line of its output with its time. Raises `SystemExit` if it fails."""
    env = {**os.environ, "PATH": os.pathsep.join([str(ROOT / ".venv" / "bin"), os.environ["PATH"]])}
    pipe, out = subprocess.PIPE, subprocess.STDOUT
    began = time.perf_counter()
    with subprocess.Popen(command, cwd=folder, env=env, stdout=pipe, stderr=out, text=True) as process:
        assert process.stdout is not None
        lines = [(time.perf_counter() - began, line.rstrip()) for line in process.stdout]
    seconds = time.perf_counter() - began
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}: {lines[-1:]}")
    return seconds, lines


def pieces(seconds: float, lines: list[tuple[float, str]]) -> dict[str, float]:
    """Return the pieces of a run's time, which add up to the total.

    A stage's piece is its own process (interpreter, imports, actual work) and DVC's hashing of its outputs; the piece
    before it is the start of a `dvc repro`, with Prefect's task around it.
    """
    found: dict[str, float] = {}
    last, working = 0.0, ""

    def until(now: float, name: str) -> None:
        nonlocal last
        found[name] = found.get(name, 0.0) + now - last
        last = now

    for now, line in lines:
        if BEGINS.search(line):
            until(now, "start: imports, server")
        elif stage := WORKS.search(line):
            working = stage[1]
            until(now, "before stages: dvc")
        elif ENDS.search(line):
            until(now, f"{working}, and what DVC keeps of it" if working else "stages that are not stale")
            working = ""
        elif ENDED.search(line):
            until(now, "report")
    until(seconds, "end: summary, server")
    return found


def main() -> None:
    """Run the pipeline from scratch and again, in fresh clones; print medians."""
    options = program.parser(__doc__, repeats=3).parse_args()
    python = str(ROOT / ".venv" / "bin" / "python")
    flow = [python, "-m", "flows.training", "--pipeline", "digits"]
    repro = [python, "-m", "dvc", "repro", "export@digits"]
    rows: dict[str, list[float]] = {}

    def note(name: str, seconds: float) -> None:
        rows.setdefault(name, []).append(seconds)

    for _ in range(options.repeats):
        with tempfile.TemporaryDirectory() as name:
            clone = cloned(Path(name) / "flow")
            for run in ("run", "run without work"):
                seconds, lines = timed(flow, clone)
                note(run, seconds)
                for piece, part in pieces(seconds, lines).items():
                    note(f"{run}: {piece}", part)
            note("dvc repro of the same", timed(repro, cloned(Path(name) / "dvc"))[0])
            for piece, code in PIECES.items():
                note(piece, timed([python, "-c", code], clone)[0])
    for name, values in rows.items():
        print(f"{name:<44} {statistics.median(values):7.2f} s")
    record = {"workload": "make_run", "seconds": rows}
    program.write(options.out, record)


if __name__ == "__main__":
    main()
