"""How many trials this machine runs at once."""

from pathlib import Path

from tapeline.runtime import environment, memory

MOST = 8
"""Trials at once unless more are asked for: each reads and writes the same disk."""

MEMORY = 4 << 30
"""Bytes of memory for each trial: a process with TensorFlow, a model of some size and its data."""

GPUS = ("nvidia[0-9]*", "kfd")
"""Devices of GPUs: TensorFlow takes all of a GPU's memory, so a second trial would have none."""

DEVICES = Path("/dev")


def usual() -> int:
    """Return how many trials run at once on this machine where nobody has said it.

    A short trial is mostly imports, tracing and checks, which use one core.
    """
    if any(True for pattern in GPUS for _ in DEVICES.glob(pattern)):
        return 1
    return max(1, min(environment.cores(), memory.usable() // MEMORY, MOST))
