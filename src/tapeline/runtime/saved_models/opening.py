"""Open a SavedModel that may be anybody's, in this process: it is refused where it does more than compute.

The graph is judged, and nothing holds the process: what is to be held too goes through `registry/gate/probing.py`.
"""

from pathlib import Path
from typing import Any

from tapeline.runtime.errors import InputError
from tapeline.runtime.saved_models import graph, operations


def opened(tf: Any, folder: str | Path) -> Any:
    """Return the loaded model. Raises `InputError` before anything of it has run."""
    if not Path(folder).is_dir():
        raise InputError(f"{folder} is not a folder with a SavedModel")
    if said := graph.refused(Path(folder), operations.ALLOWED):
        raise InputError(f"the model in {folder} {said}")
    return tf.saved_model.load(str(folder))
