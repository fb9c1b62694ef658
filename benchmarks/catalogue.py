"""Look up a workload by its name, which is what processes pass to each other."""

from importlib import import_module
from pathlib import Path

from benchmarks.workload import Workload

NAMES = [path.stem for path in sorted((Path(__file__).parent / "workloads").glob("[a-z]*.py"))]
"""The files in `benchmarks/workloads/`."""


def workload(name: str) -> Workload:
    """Return the workload of `benchmarks/workloads/<name>.py`, or the point `scaling-<axis>-<value>` of a plot."""
    if name.startswith("scaling-"):
        _, axis, value = name.split("-")
        scaled: Workload = import_module("benchmarks.scaling").point(axis, int(value))
        return scaled
    found: Workload = import_module(f"benchmarks.workloads.{name}").WORKLOAD
    return found
