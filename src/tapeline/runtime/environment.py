"""What results depend on besides the project: library versions, which are checked, and the machine, which is told."""

import importlib.metadata
import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tapeline.runtime.errors import InputError

LIBRARIES = ("tensorflow", "keras")


def check_versions(expected: dict[str, str]) -> None:
    """Raise `InputError` when an installed library is not the version that `params.yaml` says."""
    for name, version in expected.items():
        installed = importlib.metadata.version(name)
        if installed != version:
            raise InputError(
                f"params.yaml: environment.{name} is {version} and {installed} is installed: "
                f"install {name}=={version}, or set it to {installed}, which makes every stage stale"
            )


def library_versions() -> dict[str, str]:
    """Return the versions that decide the bits of a result."""
    return {name: importlib.metadata.version(name) for name in LIBRARIES}


def machine() -> dict[str, Any]:
    """Return what of this machine can change the last bits of a floating-point result, as far as it tells.

    A cgroup's quota is none of it: kernels have a thread for each core that this process may use, whatever its share.
    """
    told = {
        **_cpu(_first_processor()),
        "architecture": platform.machine(),
        "threads": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "libc": " ".join(platform.libc_ver()).strip(),
        "python": platform.python_version(),
        "system": platform.system(),
    }
    return {name: value for name, value in told.items() if value not in ("", None)}


CPUINFO = Path("/proc/cpuinfo")

INSTRUCTIONS = re.compile(r"avx\w*|fma4?|f16c|amx\w*|asimd\w*|fphp|sve\w*|sme(?!p)\w*|bf16|i8mm")
"""The instruction sets by which kernels choose their code, in the order and the size of their sums."""

TYPE = {
    "cpu": ("model name",),
    "vendor": ("vendor_id", "CPU implementer"),
    "family": ("cpu family", "CPU architecture"),
    "model": ("model", "CPU part"),
    "stepping": ("stepping", "CPU revision"),
}
"""What Linux calls it on x86-64 and on ARM."""


def _cpu(said: Mapping[str, str]) -> dict[str, str]:
    """Return name, type and instruction sets of a processor as `/proc/cpuinfo` has it; elsewhere its name only."""
    found = {name: next((said[key] for key in keys if key in said), "") for name, keys in TYPE.items()}
    flags = set((said.get("flags") or said.get("Features") or "").split())
    found["instructions"] = " ".join(sorted(flag for flag in flags if INSTRUCTIONS.fullmatch(flag)))
    return {**found, "cpu": found["cpu"] or platform.processor()}


def _first_processor() -> dict[str, str]:
    """Return what Linux says of the first processor; empty on other systems."""
    try:
        first = CPUINFO.read_text(encoding="utf-8").strip().split("\n\n")[0]
    except OSError:
        return {}
    pairs = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}
