"""TensorFlow is imported without what hardly anybody uses, and that is there when somebody does."""

import subprocess
import sys

import pytest

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
"""
MISSING = """
import sys
from tapeline import startup
startup.tensorflow()
import keras
for module in (keras.visualization, keras.visualization):
    try:
        module.nothing
    except AttributeError as error:
        assert str(error) == "module 'keras.visualization' has no attribute 'nothing'", error
    else:
        sys.exit("there is no such thing")
"""
THREADS = """
import threading
from tapeline import startup
startup.tensorflow()
import keras
found = []
threads = [threading.Thread(target=lambda: found.append(keras.visualization.plot_image_gallery)) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(found) == 8 and len(set(found)) == 1, found
"""


@pytest.mark.parametrize("program", [PROGRAM, MISSING, THREADS])
def test_what_keras_rarely_needs_is_loaded_when_it_is_used(root, program):
    answer = subprocess.run(
        [sys.executable, "-c", program], cwd=root / "src", capture_output=True, text=True, check=False
    )
    assert (answer.returncode, answer.stderr) == (0, "")
