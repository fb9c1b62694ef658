"""Where the time of `make run` goes: its stages, and what is around them, piece by piece.

    python -m benchmarks.make_run [--repeats 3]

HEAD is cloned to a temporary folder that uses this checkout's environment, so that the first run does all of the
work and the second one none.
"""

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import machine, result_files
from benchmarks.workload import ROOT

STAGE = re.compile(r"^(\w+)@\S+ +(?:ran|unchanged|up to date).*? ([\d.]+) s\s*$", re.MULTILINE)
PIECES = {
    "python": "pass",
    "import prefect": "import prefect",
    "import dvc": "import dvc.repo",
    "import tensorflow": "from tapeline import startup; startup.tensorflow()",
}


def timed(command: list[str], folder: Path) -> tuple[float, str]:
    """Return the seconds of a command and what it wrote. Raises when it fails."""
    began = time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-2000:]}")
    return seconds, done.stdout + done.stderr


def main() -> None:
    """Run the pipeline from nothing and again, in fresh clones; print medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=result_files.FOLDER / "other")
    options = parser.parse_args()
    python = str(ROOT / ".venv" / "bin" / "python")
    flow = [python, "-m", "flows.training", "--pipeline", "digits"]
    rows: dict[str, list[float]] = {}

    def note(name: str, seconds: float) -> None:
        rows.setdefault(name, []).append(seconds)

    for _ in range(options.repeats):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "clone"
            timed(["git", "clone", "--quiet", str(ROOT), str(folder)], Path(name))
            (folder / ".venv").symlink_to(ROOT / ".venv")
            whole, written = timed(flow, folder)
            stages = {stage: float(seconds) for stage, seconds in STAGE.findall(written)}
            for stage, seconds in stages.items():
                note(f"stage {stage}", seconds)
            note("around the stages", whole - sum(stages.values()))
            note("whole run", whole)
            note("run without work", timed(flow, folder)[0])
            for piece, program in PIECES.items():
                note(piece, timed([python, "-c", program], folder)[0])
    for name, values in rows.items():
        print(f"{name:<20} {statistics.median(values):7.2f} s")
    record = {"workload": "make_run", "seconds": rows}
    result_files.write(options.out, record, machine.describe())


if __name__ == "__main__":
    sys.exit(main())
