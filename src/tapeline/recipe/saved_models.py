"""A SavedModel in a recipe, such as one that judges what is made: somebody else's may do more than compute.

The graph is judged, and nothing holds the process: what is to be held too goes through `registry/gate/probing.py`.
"""

from pathlib import Path
from typing import Any

import tensorflow as tf

from tapeline.runtime.errors import InputError
from tapeline.runtime.saved_models import graph, operations


def saved_model(folder: str | Path) -> Any:
    """Return a loaded SavedModel, as `tf.saved_model.load` does. Each of its signatures keeps it alive.

    Raises `InputError`, before anything of it has run, if there is none, or if its graph has an operation that reads or
    writes files, runs Python or is unknown.
    """
    if not Path(folder).is_dir():
        raise InputError(f"{folder} is not a folder with a SavedModel")
    if said := graph.refused(Path(folder), operations.ALLOWED):
        raise InputError(f"the model in {folder} {said}")
    model = tf.saved_model.load(str(folder))
    for signature in model.signatures.values():
        signature.model = model  # it does not hold its variables itself
    return model
