"""What every test shares: TensorFlow without its greetings, and a crash that a hook can cause."""

import os
import signal
import sys
from pathlib import Path

import pytest
from absl import logging as absl_logging

ROOT = Path(__file__).resolve().parents[1]

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

# Whatever is started in the background of a shell ignores SIGINT, and so would all that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Importing GTO closes all log handlers, and TensorFlow's closes its stream, which would be pytest's own; not this one.
absl_logging.get_absl_handler().python_handler.stream = sys.__stderr__

HANG = 900
"""Seconds after which a slow test hangs, unless it says otherwise; the others have what `pyproject.toml` gives them."""


TOGETHER = ("flows", "registry")
"""Folders whose tests share what takes long to make: a server, a registry with versions. One process runs each."""


def pytest_collection_modifyitems(items):
    for item in items:
        folder = item.path.relative_to(ROOT / "tests").parts[0]
        item.add_marker(pytest.mark.xdist_group(folder if folder in TOGETHER else str(item.path.relative_to(ROOT))))
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(HANG))


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def tf():
    """TensorFlow, imported once per process."""
    from tapeline import startup

    startup.tensorflow()
    import tensorflow

    return tensorflow
