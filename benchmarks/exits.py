"""How promptly a training exits: seconds from its last step, or from SIGTERM, to the end of the process.

    python -m benchmarks.exits [--trainings 20] [--seconds 20]

Each training is a separate process, `tapeline train` on a small network. The first kind is stopped by SIGTERM after
the given seconds of steps; the second ends by itself, after as many epochs as the first reached, and writes its
outputs.
"""

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import program
from benchmarks.workload import ROOT

SUPPORT = ROOT / "tests" / "support"
EXAMPLES, BATCH = 8192, 32
ENDLESS = 10**7
KINDS = ("SIGTERM", "natural")


class Training:
    """`tapeline train long` in a project folder with a pipeline `long`; starts at once."""

    def __init__(self, folder: Path) -> None:
        self._progress = folder / ".tapeline" / "progress" / "train@long.jsonl"
        self._progress.unlink(missing_ok=True)
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        command = [sys.executable, "-m", "tapeline", "train", "long"]
        self._process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )

    def natural(self) -> float:
        """Return the seconds from the last step to the end of the process."""
        ended = self._ended(0)
        last = self.loops()[-1]
        assert last["done"] == last["total"], last
        return ended - last["time"]

    def stopped(self, after: float) -> float:
        """Send SIGTERM `after` seconds after the first loop; return the seconds from the signal to the end."""
        while not (loops := self.loops()):
            assert self._process.poll() is None, self._process.communicate()[1]
            time.sleep(0.05)
        time.sleep(max(0.0, loops[0]["time"] + after - time.time()))
        told = time.time()
        self._process.send_signal(signal.SIGTERM)
        return self._ended(128 + signal.SIGTERM) - told

    def loops(self) -> list[Mapping[str, Any]]:
        """Return the progress records so far, one per loop."""
        if not self._progress.exists():
            return []
        lines = self._progress.read_text(encoding="utf-8").split("\n")[:-1]
        return [record for record in map(json.loads, lines) if record["event"] == "progress"]

    def _ended(self, status: int) -> float:
        said = self._process.communicate()[1]
        ended = time.time()
        assert self._process.returncode == status, said
        return ended


def main() -> None:
    """Train in turn, print the extremes and the median of each kind, and write all results."""
    parser = program.parser(__doc__)
    parser.add_argument("--trainings", type=int, default=20, help="of each kind")
    parser.add_argument("--seconds", type=float, default=20.0, help="of steps in each")
    options = parser.parse_args()
    sys.path[:0] = [str(ROOT / "src"), str(SUPPORT)]
    import datasets
    import recipes
    from projects import write_params

    taken: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory() as made:
        for number in range(options.trainings):
            folder = Path(made) / str(number)
            for kind in KINDS:
                place = folder / kind
                datasets.blobs(place / "data" / "points", examples=EXAMPLES)
                recipes.write(place, recipes.EVERYTHING)
                if kind == "SIGTERM":
                    write_params(place, epochs=ENDLESS, batch_size=BATCH)
                    training = Training(place)
                    taken[kind].append(training.stopped(options.seconds))
                    epochs = max(1, training.loops()[-1]["done"] * BATCH // EXAMPLES)
                else:
                    write_params(place, epochs=epochs, batch_size=BATCH)
                    taken[kind].append(Training(place).natural())
            print(f"{number + 1:3}", *(f"{kind} {taken[kind][-1]:.2f} s" for kind in KINDS), flush=True)
    for kind, seconds in taken.items():
        low, middle, high = min(seconds), statistics.median(seconds), max(seconds)
        print(f"{kind:8} min {low:.2f} s  median {middle:.2f} s  max {high:.2f} s, of {len(seconds)}")
    record = {"workload": "exits", "seconds_of_steps": options.seconds, "seconds": taken}
    program.write(options.out, record)


if __name__ == "__main__":
    main()
