"""Resuming costs the same at step 10⁶ as at step 10²: process start to the first resumed step, and steps/s after it.

    python -m benchmarks.resume [--repeats 5]

One small recipe is trained to both steps and stopped there with a checkpoint; then new processes resume in turn.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from benchmarks import machine, program
from benchmarks.workload import ROOT

PATHS = [str(ROOT / "src"), str(ROOT / "tests" / "support")]
STEPS = (0, 100, 1_000_000)

PROGRAM = """
import json, sys, time
began = float(sys.argv[1])
sys.path[:0] = json.loads(sys.argv[2])
from pathlib import Path
from trainings import Crash, Run, crash_after
from tapeline.runtime.records import LoopEnded, Started

folder, target = Path(sys.argv[3]), int(sys.argv[4])
seen = []

def stop(record):
    if isinstance(record, Started):
        seen.append((time.time(), record.step))
    if isinstance(record, LoopEnded):
        seen.append((time.time(), record.step))
        if target < 0 and record.step >= seen[0][1] + 500_000:
            raise Crash

run = Run(folder, folder / "recipe.py", folder / "points", {"learning_rate": 1e-3}, epochs=3000, batch_size=8,
          compile="xla", checkpoint={"every_steps": target if target > 0 else 10**9, "every_seconds": 1e6})
try:
    run(hooks=[stop, *([crash_after(target)] if target > 0 else [])])
except Crash:
    pass
first, speed = seen[1][0] - began, (seen[-1][1] - seen[2][1]) / (seen[-1][0] - seen[2][0]) if len(seen) > 3 else 0.0
print(json.dumps({"start": seen[0][1], "seconds": first, "speed": speed}))
"""


def call(folder: Path, target: int) -> dict:
    """Train in a separate process."""
    command = [sys.executable, "-c", PROGRAM, str(time.time()), json.dumps(PATHS), str(folder), str(target)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout.splitlines()[-1])


def main() -> None:
    """Prepare both checkpoints, resume from them in turn, and print medians and ratios."""
    options = program.parser(__doc__, repeats=5).parse_args()
    sys.path[:0] = PATHS
    import datasets
    import recipes

    with tempfile.TemporaryDirectory() as name:
        folders = {}
        for step in STEPS:
            folder = folders[step] = Path(name) / str(step)
            datasets.points(folder / "points", examples=8000)
            recipes.write(folder)
            if step:
                call(folder, step)
        results, calm = {step: [] for step in STEPS}, machine.Calm()
        for _ in range(options.repeats):
            for step, folder in folders.items():
                result = calm(partial(call, folder, -1))
                assert result["start"] == step, result
                results[step].append(result)
        medians = {
            step: {key: statistics.median(result[key] for result in runs) for key in ("seconds", "speed")}
            for step, runs in results.items()
        }
        for step, median in medians.items():
            print(
                f"from step {step:>9,}: first step after {median['seconds']:.2f} s, then {median['speed']:,.0f} steps/s"
            )
        print(f"start, 10⁶ against 10²: {medians[10**6]['seconds'] / medians[100]['seconds']:.3f}")
        print(f"steps/s, 10⁶ against 0: {medians[10**6]['speed'] / medians[0]['speed']:.3f}")
        program.write(options.out, {"workload": "resume", "results": results, "stolen": calm.stolen})


if __name__ == "__main__":
    main()
