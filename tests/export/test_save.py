"""What an export leaves when it is killed."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import datasets
import numpy as np
import pytest
import recipes
from trainings import Run

from tapeline.runtime import scratch

SERVED = """
    def served(self, data):
        return {"x": data["x"].view(Killing)}

    def predict("""
KILLING = """import keras, numpy as np, tensorflow as tf

class Killing(np.ndarray):
    def tofile(self, *_):
        import os, signal
        os.kill(os.getpid(), signal.SIGKILL)
"""
PROGRAM = """
import json, sys
from pathlib import Path
sys.path[:0] = json.loads(sys.argv[2])
from chains import Chain
from trainings import Run
folder = Path(sys.argv[1])
chain = Chain(Run(folder, folder / "recipe.py", folder / "points", epochs=1, batch_size=8))
chain.validate()
chain.export()
"""


@pytest.mark.slow
def test_the_next_export_removes_what_a_killed_one_has_left(tmp_path, tf, monkeypatch):
    """The inputs stayed in /tmp for good."""
    data = datasets.points(tmp_path / "points").folder
    head = ("import keras, tensorflow as tf", KILLING)
    recipe = recipes.write(tmp_path, recipes.LINE, head, ("\n    def predict(", SERVED))
    Run(tmp_path, recipe, data, epochs=1, batch_size=8)()
    here = Path(__file__).resolve()
    paths = [str(here.parents[1] / "support"), str(here.parents[2] / "src")]
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr(tempfile, "tempdir", None)
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), json.dumps(paths)]
    killed = subprocess.run(command, check=False, timeout=250)
    assert killed.returncode == -signal.SIGKILL
    assert [path.name for path in place.rglob("*.npy")] == ["x.npy"]
    with scratch.folder("export"):
        assert list(place.rglob("*.npy")) == []
    assert [path.name for path in place.iterdir()] == [f"tapeline-{os.geteuid()}"]


def test_an_input_with_a_features_name_and_another_type_has_no_warm_up_requests(tf):
    """They were written, and the signature refused them: a version with them could not be promoted."""
    from tapeline.export import save

    def taking(shape, dtype):
        spec = tf.TensorSpec(shape, dtype, name="image")
        return tf.function(lambda image: {"y": image}, input_signature=[spec])

    signatures = {
        "serving_default": taking((None, None), tf.uint8),
        "embed": taking((None, 2), tf.float32),
        "wider": taking((None, 4), tf.uint8),
        "one": taking((1, 2), tf.uint8),
    }
    images = np.arange(10, dtype=np.uint8).reshape(5, 2)
    found = save._requests(signatures, {"image": images}, 3)
    assert list(found) == ["serving_default"]
    np.testing.assert_array_equal(found["serving_default"]["image"], images[:3])
    for texts in (np.array([b"a", b"bc"]), np.array(["a", "bc"]), np.array(["a", "bc"], object)):
        assert save._requests({"words": taking((None,), tf.string)}, {"image": texts}, 3)
