"""Where the time of `make run` goes: its stages and the work around them, piece by piece.

    python -m benchmarks.make_run [--repeats 3]

HEAD is cloned to a temporary folder that uses this checkout's environment, so that the first run does all the work and
the second none. A plain `dvc repro` in another clone does the same work.
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

STAGE = re.compile(r"dvc repro --single-item (\w+)@")
REPORT = re.compile(r"report: ")
PIECES = {
    "python": "pass",
    "import dvc": "import dvc.repo",
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
    """Return the pieces of a run's time, which add up to the total; one without work has a single piece."""
    found: dict[str, float] = {}
    last, doing = 0.0, "start"
    for now, line in lines:
        stage = STAGE.search(line)
        if stage or REPORT.search(line):
            found[doing] = now - last
            last, doing = now, stage[1] if stage else "end"
    return found | {doing: seconds - last}


def main() -> None:
    """Run the pipeline from scratch and again, in fresh clones; print medians."""
    options = program.parser(__doc__, repeats=3).parse_args()
    python = str(ROOT / ".venv" / "bin" / "python")
    flow = [str(ROOT / ".venv" / "bin" / "tapeline"), "run", "--pipeline", "digits"]
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
