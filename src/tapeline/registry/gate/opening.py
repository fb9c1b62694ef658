"""Open a SavedModel that may be anybody's, in a program without Tapeline code: its graph is judged first."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parents[2]
UNNEEDED = ("matplotlib", "sklearn")
"""Keras imports them where they are installed, and does without; they read and write files at home."""


class Refused(Exception):
    """The model does more than compute; the message says what, in one line."""


def tensorflow() -> Any:
    """Import TensorFlow alone, which computes as in a stage."""
    for name in UNNEEDED:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # this makes an import fail
    tf = loaded(PACKAGE / "export" / "check.py").tensorflow()
    runtime = PACKAGE / "runtime"
    loaded(runtime / "arithmetic.py").fix(tf, loaded(runtime / "tensorflow_private.py").make_devices)
    return tf


def opened(tf: Any, folder: str) -> Any:
    """Return the loaded model. Raises `Refused` before anything of it has run."""
    judging = PACKAGE / "runtime" / "saved_models"
    graph, operations = loaded(judging / "graph.py"), loaded(judging / "operations.py")
    if said := graph.refused(Path(folder), operations.ALLOWED):
        raise Refused(said)
    return tf.saved_model.load(folder)


def loaded(path: Path) -> Any:
    """Return a program as a module, by its file: an isolated interpreter finds no other code of this checkout."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader, "a Python file"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
