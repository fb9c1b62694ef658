"""Train a workload's recipe as `tapeline train` does, report when the first step is done, and exit.

python -m benchmarks.first_step_program WORKLOAD FOLDER
"""

import os
import sys
import tempfile
from pathlib import Path

from benchmarks.catalogue import workload
from tapeline.runtime.records import LoopEnded, Record
from tapeline.train.job import Job
from tapeline.train.stage import train


def stop(record: Record) -> None:
    """End the process after the first loop, which is one step."""
    if isinstance(record, LoopEnded):
        os.write(1, f"{record.metrics}\n".encode())
        os._exit(0)


def main() -> None:
    """Train from the inputs in the folder."""
    name, folder = sys.argv[1:]
    recipe = workload(name).recipe
    with tempfile.TemporaryDirectory() as made:
        own = Path(made)
        train(
            Job(
                recipe=recipe.path,
                params=recipe.params,
                settings=recipe.settings(),
                data=Path(folder) / "data",
                out=own / "out",
                checkpoints=own / "checkpoints",
                traces=own / "traces",
                hooks=[stop],
            )
        )


if __name__ == "__main__":
    main()
