"""What results depend on besides the project: library versions, which are checked, and the machine, which is told."""

import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

from tapeline.errors import InputError

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
    """Return what of this machine can change the last bits of a floating-point result."""
    return {
        "cpu": _cpu_model(),
        "architecture": platform.machine(),
        "threads": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "python": platform.python_version(),
        "system": platform.system(),
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.processor()
    )
