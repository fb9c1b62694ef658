"""TensorFlow is imported without what hardly anybody uses, and that is there when somebody does."""

import subprocess
import sys

PROGRAM = """
import gc, sys
from tapeline import startup
startup.tensorflow()
import keras
import tensorflow as tf
assert gc.isenabled()
heavy = {"sklearn", "scipy.stats", "matplotlib.pyplot"}
assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()
assert keras.visualization.__name__ == "keras.visualization"
assert not heavy & sys.modules.keys(), "its name loads nothing"
assert callable(keras.visualization.plot_image_gallery)
from keras.wrappers import SKLearnClassifier
assert SKLearnClassifier is tf.keras.wrappers.SKLearnClassifier
import sklearn.base
assert issubclass(SKLearnClassifier, sklearn.base.BaseEstimator)
assert heavy <= sys.modules.keys()
try:
    keras.wrappers.nothing
except AttributeError as error:
    assert "nothing" in str(error)
"""


def test_what_keras_rarely_needs_is_loaded_when_it_is_used(root):
    answer = subprocess.run(
        [sys.executable, "-W", "error::ImportWarning", "-c", PROGRAM],
        cwd=root / "src", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (answer.returncode, answer.stderr) == (0, "")
