"""What a checkpoint costs: throughput with one every half second against none, converted to a share at one per 30 s.

    python -m benchmarks.checkpoint [--seconds 8] [--repeats 7]

Both run the same recipe in turn in one process. The cost of a checkpoint every 30 s would be lost in the machine's
noise; that of sixty times as many is not.
"""

import statistics
import tempfile
from pathlib import Path

from benchmarks import engine as engines
from benchmarks import program

OFTEN, NEVER, PROMISED = 0.5, 1e6, 30.0


def main() -> None:
    """Measure each workload, print a line for each, and write the records."""
    parser = program.parser(__doc__, repeats=7)
    parser.add_argument("--seconds", type=float, default=8.0)
    options = parser.parse_args()
    records = {}
    for name, (shape, mode, batch, examples, source) in engines.WORKLOADS.items():
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            data, recipe = engines.inputs(folder, shape, examples, source)
            bare = engines.Bare(recipe, data, mode, batch)
            steps = max(50, int(bare.run(50) * options.seconds))
            pairs = []
            for number in range(options.repeats):
                speeds = [
                    engines.engine(folder / f"{number}-{every}", recipe, data, mode, batch, steps, every)
                    for every in (NEVER, OFTEN)
                ]
                pairs.append(speeds[1] / speeds[0])
            ratio = statistics.median(pairs)
            share = max(0.0, 1 / ratio - 1) * OFTEN / PROMISED
            print(
                f"{name:10}  every {OFTEN:g} s: {ratio:.3f} of none  at one per {PROMISED:g} s: {share:.3%} of the time"
            )
            records[name] = {"ratio": ratio, "share": share, "pairs": pairs}
    program.write(options.out, {"workload": "checkpoint", "records": records})


if __name__ == "__main__":
    main()
