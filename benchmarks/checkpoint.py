"""What a checkpoint costs: throughput with one every half second against none, told as a share at one per 30 s.

    python benchmarks/checkpoint.py [--seconds 8] [--repeats 7]

Both run the same recipe in turn in one process. A checkpoint every 30 s would drown in the machine's noise; sixty
times as many do not.
"""

import argparse
import json
import statistics
import tempfile
from pathlib import Path

import engine as engines

OFTEN, NEVER, PROMISED = 0.5, 1e6, 30.0


def main() -> None:
    """Measure each workload and print a line and a JSON record for it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
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
            print(json.dumps({"workload": name, "ratio": ratio, "share": share, "pairs": [round(p, 3) for p in pairs]}))


if __name__ == "__main__":
    main()
