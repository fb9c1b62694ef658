"""The folder of an exported model, made by hand from a function: `saved_model/` and `model.json`."""

import json
from pathlib import Path


def export(tf, folder: Path, function, *, dtype="float32", shape=(2,), kept=(), **more) -> Path:
    """Save a function of `x`, shape (examples, *shape), that returns outputs by name."""
    spec = tf.TensorSpec((None, *shape), dtype, name="x")
    concrete = tf.function(function, input_signature=[spec]).get_concrete_function()
    module = tf.Module()
    module.kept = kept
    tf.saved_model.save(module, str(folder / "saved_model"), signatures=concrete)
    outputs = {
        name: {"dtype": one.dtype.name, "shape": None if one.shape.rank is None else one.shape.as_list()}
        for name, one in concrete.structured_outputs.items()
    }
    signature = {"inputs": {"x": {"dtype": dtype, "shape": [None, *shape]}}, "outputs": outputs}
    described = {"name": "one", "dataset": {"name": "points"}, "metrics": {}, "files": {}}
    described |= {"signatures": {"serving_default": signature}, **more}
    (folder / "model.json").write_text(json.dumps(described))
    return folder
