"""How many trials this machine runs at once."""

from pathlib import Path

from tapeline.runtime import environment, memory

MOST = 8
"""Trials at once unless more are asked for: each reads and writes the same disk."""

MEMORY = 4 << 30
"""Bytes of memory for each trial: a process with TensorFlow, a model of some size and its data."""

GPUS = ("dev/nvidia[0-9]*", "dev/kfd", "usr/lib/wsl/lib/libcuda.so.1")
"""Devices of GPUs, or WSL's driver of one: TensorFlow takes all of a GPU's memory, so a second trial would have none."""

ROOT = Path("/")


def usual() -> int:
    """Return how many trials run at once on this machine where nobody has said it.

    A short trial is mostly imports, tracing and checks, which use one core.
    """
    if any(True for pattern in GPUS for _ in ROOT.glob(pattern)):
        return 1
    return max(1, min(environment.cores(), memory.usable() // MEMORY, MOST))
