"""What results depend on besides the project: library versions (`engine.lock` has them) and the machine."""

import importlib.metadata
import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LIBRARIES = ("tensorflow", "keras")
"""What computes: kernels, and how a model's layers and optimizers become kernels.

NumPy, Pillow and pyarrow read and count; a new version of one that changes a result is a defect of it, which `tapeline
verify` shows. With them here, each of their many releases would stop every project.
"""


def library_versions() -> dict[str, str]:
    """Return the library versions that determine a result bit for bit."""
    return {name: importlib.metadata.version(name) for name in LIBRARIES}


def machine() -> dict[str, Any]:
    """Return the properties of this machine, where known, that can change the last bits of a floating-point result.

    A cgroup's CPU quota is not one: kernels use a thread for each core that this process may use, whatever its share.
    """
    told = {
        **_cpu(_first_processor()),
        "architecture": platform.machine(),
        "threads": cores(),
        "libc": " ".join(platform.libc_ver()).strip(),
        "python": platform.python_version(),
        "system": platform.system(),
    }
    return {name: value for name, value in told.items() if value not in ("", None)}


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def has_portable_bits() -> bool:
    """Return whether this machine computes what `bits: portable` promises: x86-64 with AVX2 and FMA."""
    instructions = set(_cpu(_first_processor())["instructions"].split())
    return platform.machine() == "x86_64" and {"avx2", "fma"} <= instructions


def deciding(bits: str) -> dict[str, Any]:
    """Return the properties of this machine that decide a result: none of its own where the bits are portable."""
    if bits == PORTABLE and has_portable_bits():
        return {"bits": PORTABLE}
    found = recordable(bits)
    return {name: found[name] for name in found if name != "threads" or found.get("bits") != CAPPED}


def recordable(bits: str) -> dict[str, Any]:
    """Return the machine for a result's record, with what it promises: which others need not compare what with it."""
    return {**machine(), "bits": bits} if bits in (PORTABLE, CAPPED) and has_portable_bits() else machine()


PORTABLE = "portable"
"""As `train.bits`."""
CAPPED = "capped"
"""As portable, but with approximate operations as this CPU has them: other cores change nothing, another type may."""
CPUINFO = Path("/proc/cpuinfo")

INSTRUCTIONS = re.compile(r"avx\w*|fma4?|f16c|amx\w*|asimd\w*|fphp|sve\w*|sme(?!p)\w*|bf16|i8mm")
"""The instruction sets by which kernels choose their code, and with it the order and block size of their sums."""

TYPE = {
    "cpu": ("model name",),
    "vendor": ("vendor_id", "CPU implementer"),
    "family": ("cpu family", "CPU architecture"),
    "model": ("model", "CPU part"),
    "stepping": ("stepping", "CPU revision"),
}
"""Our name → the keys of `/proc/cpuinfo` on x86-64 and on ARM."""


def _cpu(said: Mapping[str, str]) -> dict[str, str]:
    """Return a processor's name, type and instruction sets from `/proc/cpuinfo`; on other systems its name only."""
    found = {name: next((said[key] for key in keys if key in said), "") for name, keys in TYPE.items()}
    flags = set((said.get("flags") or said.get("Features") or "").split())
    found["instructions"] = " ".join(sorted(flag for flag in flags if INSTRUCTIONS.fullmatch(flag)))
    return {**found, "cpu": found["cpu"] or platform.processor()}


def _first_processor() -> dict[str, str]:
    """Return the entries of the first processor in `/proc/cpuinfo`; empty on other systems."""
    try:
        first = CPUINFO.read_text(encoding="utf-8").strip().split("\n\n")[0]
    except OSError:
        return {}
    pairs = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}
