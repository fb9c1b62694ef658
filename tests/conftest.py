"""What every test shares: TensorFlow without its greetings, and a crash that a hook can cause."""

import os
import signal
import sys
from pathlib import Path

import pytest
from absl import logging as absl_logging
from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).resolve().parents[1]

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

# Whatever is started in the background of a shell ignores SIGINT, and so would all that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Importing GTO closes all log handlers, and TensorFlow's closes its stream, which would be pytest's own; not this one.
absl_logging.get_absl_handler().python_handler.stream = sys.__stderr__

HANG = 900
"""Seconds after which a slow test hangs, unless it says otherwise; the others have what `pyproject.toml` gives them."""


TOGETHER = ("orchestration", "registry")
"""Folders whose tests share what takes long to make: a server, a registry with versions. One process runs each."""


class ByFile(LoadScopeScheduling):
    """The tests of a file, or of such a folder, run in one process."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::")[0]
        return next((folder for folder in TOGETHER if file.startswith(f"tests/{folder}/")), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    if config.getvalue("dist") != "load":  # what `-n` alone asks for
        return None
    config.option.loadscopereorder = False  # it would put the files with few tests last, and these take longest
    return ByFile(config, log)


def pytest_collection_modifyitems(items):
    for item in items:
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
