"""What a checkpoint costs: throughput with one every half second against none, converted to a share at one per 30 s.

    python -m benchmarks.checkpoint [--seconds 8] [--repeats 7]

Both run the same recipe in turn in one process. The cost of a checkpoint every 30 s would be lost in the machine's
noise; that of sixty times as many is not.
"""

import statistics
import tempfile
import time
from pathlib import Path

from benchmarks import engine as engines
from benchmarks import program
from benchmarks.catalogue import workload
from tapeline.runtime.records import LoopEnded, Record

OFTEN, NEVER, PROMISED = 0.5, 1e6, 30.0


class Speed:
    """A hook that ends the training after some seconds. The first loop, which compiles, does not count."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._began, self._steps = seconds, 0.0, 0
        self.measured = 0.0
        """Steps per second."""

    def __call__(self, record: Record) -> None:
        if not isinstance(record, LoopEnded):
            return
        now = time.perf_counter()
        if not self._began:
            self._began = now
            return
        self._steps += record.step - record.start
        if now - self._began >= self._seconds:
            self.measured = self._steps / (now - self._began)
            raise engines.Enough


def main() -> None:
    """Measure each workload, print a line for each, and write the records."""
    parser = program.parser(__doc__, repeats=7)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each training")
    parser.add_argument("--only", choices=list(engines.WORKLOADS), help="one of the workloads")
    options = parser.parse_args()
    records = {}
    for name, (which, mode) in engines.WORKLOADS.items():
        if options.only not in (None, name):
            continue
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            data, recipe = engines.inputs(folder, workload(which), mode)
            pairs = []
            for number in range(options.repeats):
                speeds = {every: Speed(options.seconds) for every in (NEVER, OFTEN)}
                for every, speed in speeds.items():
                    engines.engine(folder / f"{number}-{every}", recipe, data, speed, every=every)
                pairs.append(speeds[OFTEN].measured / speeds[NEVER].measured)
            ratio = statistics.median(pairs)
            share = max(0.0, 1 / ratio - 1) * OFTEN / PROMISED
            print(
                f"{name:18}  every {OFTEN:g} s: {ratio:.3f} of none  at one per {PROMISED:g} s: {share:.3%} of the time"
            )
            records[name] = {"ratio": ratio, "share": share, "pairs": pairs}
    program.write(options.out, {"workload": "checkpoint", "records": records})


if __name__ == "__main__":
    main()
