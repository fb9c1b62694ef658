"""What a measurement depends on besides the code: the CPU, its cores and memory, the libraries' versions."""

import os
import platform
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

LIBRARIES = ("tensorflow", "keras", "numpy", "torch", "jax", "jaxlib", "optax", "tensorflow-datasets")
CALM = 0.02
"""The share of CPU time that other virtual machines may steal from a measurement that counts."""

CAPS = {
    "avx2": {
        # Not letter by letter as `tapeline.runtime.caps` has them, which lifts its own for native bits.
        "TF_ENABLE_ONEDNN_OPTS": "false",  # as TensorFlow decides on a CPU with AVX2 alone
        "ONEDNN_MAX_CPU_ISA": "avx2",  # TensorFlow's, JAX's and PyTorch's
        # TensorFlow's and JAX's. YNNPACK, which XLA gives products to, knows no cap: with it, they are of AVX-512.
        "XLA_FLAGS": "--xla_cpu_max_isa=avx2 --xla_cpu_experimental_ynn_fusion_type=''",
        "ATEN_CPU_CAPABILITY": "avx2",
    }
}
"""Environment variables that give every contender the instructions of a lesser CPU; NumPy keeps all."""

Result = TypeVar("Result")


def describe() -> dict[str, Any]:
    """Return the description as JSON. `load` is the last minute's average: above 1, no measurement is worth keeping."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    flags = next((line.split() for line in lines if line.startswith("flags")), [])
    return {
        "cpu": named[0] if named else platform.processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "instructions": [name for name in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if name in flags],
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "libraries": {name: found for name in LIBRARIES if (found := _version(name))},
    }


def cap(name: str | None) -> None:
    """Have this process's children compute with the instructions of the named CPU; with all if it is None."""
    for variable, value in CAPS[name].items() if name else ():
        given = os.environ.get(variable) if variable == "XLA_FLAGS" else None
        os.environ[variable] = f"{given} {value}" if given else value


def ticks() -> dict[str, int]:
    """Return the CPU time since boot, in ticks: `all`, and `stolen` by other virtual machines.

    Empty if the kernel does not report it.
    """
    stat = Path("/proc/stat")
    if not stat.exists():
        return {}
    _, *spent = stat.read_text().splitlines()[0].split()
    return {"all": sum(map(int, spent[:8])), "stolen": int(spent[7])}


def stolen(before: dict[str, int]) -> float | None:
    """Return the share of CPU time that was stolen since `before`, a result of `ticks()`."""
    now = ticks()
    return (now["stolen"] - before["stolen"]) / max(1, now["all"] - before["all"]) if now and before else None


def disturbed(before: dict[str, int]) -> bool:
    """Return whether too much time was stolen since `before` for a measurement to count."""
    return (stolen(before) or 0.0) >= CALM


class Calm:
    """Repeats a measurement until it is undisturbed, at most `most` times; then the calmest one counts.

    again: how many did not count. stolen: the largest share that was stolen from one that did.
    """

    def __init__(self, most: int = 20, stolen: Callable[[dict[str, int]], float | None] = stolen) -> None:
        self._most, self._stolen = most, stolen
        self.again, self.stolen = 0, 0.0

    def __call__(self, measure: Callable[[], Result]) -> Result:
        calmest, least = None, float("inf")
        for _ in range(self._most):
            before = ticks()
            result = measure()
            share = self._stolen(before) or 0.0
            if share < least:
                calmest, least = result, share
            if share < CALM:
                break
            self.again += 1
        self.again -= least >= CALM  # one of them counts after all
        self.stolen = max(self.stolen, least)
        assert calmest is not None
        return calmest


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
