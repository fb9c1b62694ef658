"""From a workload's name, as processes pass it on, to the workload."""

from importlib import import_module
from pathlib import Path

from benchmarks.workload import Workload

NAMES = [path.stem for path in sorted((Path(__file__).parent / "workloads").glob("[a-z]*.py"))]
"""The files in `benchmarks/workloads/`."""


def workload(name: str) -> Workload:
    """Return what `benchmarks/workloads/<name>.py` defines, or the point `scaling-<axis>-<value>` of a scaling plot."""
    if name.startswith("scaling-"):
        _, axis, value = name.split("-")
        scaled: Workload = import_module("benchmarks.scaling").point(axis, int(value))
        return scaled
    found: Workload = import_module(f"benchmarks.workloads.{name}").WORKLOAD
    return found
