"""Open a SavedModel that may be anybody's, in a program without Tapeline code: its graph is judged first.

standalone = SimpleNamespace(**runpy.run_path(path))     # of this file
model = standalone.opened(standalone.tensorflow(), folder)
"""

import importlib.util
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
UNNEEDED = ("matplotlib", "sklearn")
"""Keras imports them where they are installed, and does without; they read and write files at home."""


class Refused(Exception):
    """The model does more than compute; the message says what, in one line."""


def tensorflow() -> Any:
    """Import TensorFlow alone, which computes as in a stage."""
    for name in UNNEEDED:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # this makes an import fail
    runtime = HERE.parent
    with loaded(runtime / "imports.py").lasting():
        import tensorflow as tf
    loaded(runtime / "arithmetic.py").fix(tf, loaded(runtime / "tensorflow_private.py").make_devices)
    return tf


def opened(tf: Any, folder: str) -> Any:
    """Return the loaded model. Raises `Refused` before anything of it has run."""
    graph, operations = loaded(HERE / "graph.py"), loaded(HERE / "operations.py")
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
