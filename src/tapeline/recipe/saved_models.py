"""A SavedModel in a recipe, such as one that judges what is made: somebody else's may do more than compute."""

from pathlib import Path
from typing import Any

import tensorflow as tf

from tapeline.runtime.saved_models.opening import opened


def saved_model(folder: str | Path) -> Any:
    """Return a loaded SavedModel, as `tf.saved_model.load` does.

    Raises `InputError`, before anything of it has run, if there is none, or if its graph has an operation that reads or
    writes files, runs Python or is unknown.
    """
    return opened(tf, folder)
