"""What every test shares: TensorFlow without its greetings, and a crash that a hook can cause."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")


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
