"""How many trials this machine runs at once."""

from contextlib import suppress
from pathlib import Path, PurePosixPath

from tapeline.runtime import environment, memory

MOST = 8
"""Trials at once unless more are asked for: each reads and writes the same disk."""

MEMORY = 4 << 30
"""Bytes of memory for each trial: a process with TensorFlow, a model of some size and its data."""

GPUS = ("dev/nvidia[0-9]*", "dev/kfd", "usr/lib/wsl/lib/libcuda.so.1")
"""Devices of GPUs, and WSL's driver: TensorFlow takes all of a GPU's memory, so a second trial would have none."""

ROOT = Path("/")


def usual() -> int:
    """Return how many trials run at once on this machine where nobody has said it.

    A short trial is mostly imports, tracing and checks, which use one core.
    """
    if any(True for pattern in GPUS for _ in ROOT.glob(pattern)):
        return 1
    return max(1, min(_cpus(), memory.usable() // MEMORY, MOST))


def _cpus() -> int:
    """Return how many CPUs' time this process may use: its cores', or a container's quota, such as of `docker --cpus`.

    A quota also applies to the control groups below it, so the lowest on the way up counts.
    """
    found = [environment.cores()]
    with suppress(OSError):  # not Linux
        lines = (ROOT / "proc/self/cgroup").read_text().splitlines()
        groups = [PurePosixPath(line.removeprefix("0::/")) for line in lines if line.startswith("0::/")]
        for folder in (above for group in groups for above in (group, *group.parents)):
            with suppress(OSError, ValueError):  # not there, or "max"
                quota, period = (ROOT / "sys/fs/cgroup" / folder / "cpu.max").read_text().split()
                found.append(int(quota) // int(period))
    return min(found)
