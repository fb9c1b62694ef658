"""Setup that every test shares: signals, logging, timeouts, distribution over processes, TensorFlow."""

import collections
import gc
import itertools
import math
import os
import signal
import sys
from pathlib import Path

import pytest
from absl import logging as absl_logging
from xdist.scheduler import LoadScopeScheduling

from tapeline.runtime import caps

ROOT = Path(__file__).resolve().parents[1]

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
caps.apply()  # before NumPy is imported

# A process started in a shell's background ignores SIGINT, and so would all processes that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Importing GTO closes all log handlers, and TensorFlow's then closes its stream: give it one that is not pytest's.
absl_logging.get_absl_handler().python_handler.stream = sys.__stderr__

HANG = 900
"""Timeout of a slow test in seconds, unless it sets its own; other tests have the timeout in `pyproject.toml`."""


TOGETHER = ("orchestration", "registry")
"""Folders whose tests share what takes long to make: a server, a registry with versions. One process runs each."""


class ByFile(LoadScopeScheduling):
    """Runs the tests of a file, or of a folder in `TOGETHER`, in one process."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::")[0]
        return next((folder for folder in TOGETHER if file.startswith(f"tests/{folder}/")), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    if config.getvalue("dist") != "load":  # the mode that `-n` alone selects
        return None
    config.option.loadscopereorder = False  # else files with few tests come last, and these take longest
    return ByFile(config, log)


_finished = itertools.count(1)


def pytest_runtest_logfinish():
    """Exclude from GC, now and then, what is alive between two tests: each recipe that is built collects.

    TensorFlow keeps traces; in a process with many tests behind it, scanning them took up to a sixth of the time.
    """
    if next(_finished) % 10 == 0 and "tensorflow" in sys.modules:
        gc.collect()
        gc.freeze()


IN_CI = 2
"""So many slow cases of a parametrized test run in CI, unless it is marked `in_ci`; the others are long."""


@pytest.hookimpl(tryfirst=True)  # before cases are chosen by their marks
def pytest_collection_modifyitems(items):
    cases, slow = collections.Counter(), collections.Counter()
    for item in items:
        test = item.parent.nodeid, item.originalname
        if first := item.get_closest_marker("first"):
            cases[test] += 1
            if cases[test] > first.args[0]:
                item.add_marker("slow")
        if item.get_closest_marker("long"):
            item.add_marker("slow")
        elif item.get_closest_marker("slow"):
            slow[test] += 1
            in_ci = item.get_closest_marker("in_ci")
            if slow[test] > ((*in_ci.args, math.inf)[0] if in_ci else IN_CI):
                item.add_marker("long")
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(HANG))


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def tf():
    """TensorFlow, imported once per process."""
    from tapeline.runtime import startup

    startup.tensorflow()
    import tensorflow

    return tensorflow
