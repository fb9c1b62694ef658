"""TensorFlow is imported without what hardly anybody uses, and that is there when somebody does."""

import json
import os
import signal
import subprocess
import sys

import pytest

PROGRAM = """
import gc, sys
from tapeline.runtime import startup
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
from tapeline.runtime import startup
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
LARGE = """
import resource
from tapeline.runtime import startup
startup.tensorflow()
import tensorflow as tf

@tf.function
def step(x):
    for _ in range(20):  # 100 MB each, and none in the place of the one before
        x = tf.reverse(x, [0])
    return x

large = tf.ones([25_000_000])
step(large)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
step(large)
faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
pages = 20 * 100_000_000 // resource.getpagesize()
assert faults < pages / 10, (faults, pages)
"""
THREADS = """
import threading
from tapeline.runtime import startup
startup.tensorflow()
import keras
found = []
threads = [threading.Thread(target=lambda: found.append(keras.visualization.plot_image_gallery)) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(found) == 8 and len(set(found)) == 1, found
"""


def test_memory_of_large_tensors_is_kept():
    """Else the kernel clears each page of each of them anew."""
    subprocess.run([sys.executable, "-c", LARGE], check=True)


@pytest.mark.first(1)
@pytest.mark.parametrize("program", [PROGRAM, MISSING, THREADS])
def test_what_keras_rarely_needs_is_loaded_when_it_is_used(root, program):
    answer = subprocess.run(
        [sys.executable, "-c", program], cwd=root / "src", capture_output=True, text=True, check=False
    )
    assert (answer.returncode, answer.stderr) == (0, "")


OF_THIS_USER = """
import os
from tapeline.runtime import startup
startup.tensorflow()
import keras
keras.config.set_floatx("float64")  # as a recipe may
startup.tensorflow()
found = keras.config
print(found.backend(), found.floatx(), found.epsilon(), found.image_data_format(), os.environ.get("KERAS_BACKEND"))
"""
OTHER_BACKEND = """
from tapeline.runtime import startup
from tapeline.runtime.errors import InputError
startup.tensorflow()
import keras
keras.config.backend = lambda: "jax"  # in place of a Keras that was imported with it
try:
    startup.tensorflow()
except InputError as error:
    print(error)
"""
KERAS_JSON = {"floatx": "float64", "epsilon": 1e-3, "backend": "torch", "image_data_format": "channels_first"}


@pytest.mark.first(1)
@pytest.mark.parametrize("backend", [None, "jax"])
def test_keras_settings_of_the_user_decide_nothing(root, tmp_path, backend):
    """Nothing records `~/.keras/keras.json`: a SavedModel had other bytes, and another backend ended in a traceback."""
    (tmp_path / "keras.json").write_text(json.dumps(KERAS_JSON))
    surroundings = {name: value for name, value in os.environ.items() if name != "KERAS_BACKEND"}
    surroundings |= {"KERAS_HOME": str(tmp_path)} | ({"KERAS_BACKEND": backend} if backend else {})
    answer = _said(root, OF_THIS_USER, surroundings)
    assert (answer.stdout, answer.stderr) == (f"tensorflow float32 1e-07 channels_last {backend}\n", "")


def test_what_keras_refuses_is_one_line(root, tmp_path):
    (tmp_path / "keras.json").write_text(json.dumps(KERAS_JSON | {"epsilon": 0}))
    program = OF_THIS_USER.replace("import startup\n", "import startup, exit_status\n", 1).replace(
        "startup.tensorflow()\n", "if status := exit_status.of('tapeline', startup.tensorflow): os._exit(status)\n", 1
    )
    answer = _said(root, program, os.environ | {"KERAS_HOME": str(tmp_path)})
    assert answer.returncode == 2 and "Traceback" not in answer.stderr
    assert answer.stderr.splitlines()[-1].startswith("tapeline: Keras rejects a setting in keras.json")


def test_a_keras_that_began_with_another_backend_is_refused(root):
    answer = _said(root, OTHER_BACKEND, os.environ)
    assert (
        answer.stdout
        == "Keras has already started with the backend jax: use another process, with KERAS_BACKEND=tensorflow\n"
    )


def test_a_tensorflow_that_was_imported_before_with_onednn_is_refused(root):
    """As in a notebook: it recorded portable bits, and had those of its CPU."""
    program = "import tensorflow\n" + OTHER_BACKEND.split("import keras")[0].replace(
        "startup.tensorflow()", "try:\n    startup.tensorflow()\nexcept InputError as error:\n    print(error)"
    )
    answer = _said(root, program, os.environ | {"TF_ENABLE_ONEDNN_OPTS": "1"})
    assert answer.stdout.startswith("TensorFlow was imported before Tapeline could switch off oneDNN"), answer.stderr
    answer = _said(root, program, os.environ | {"TF_ENABLE_ONEDNN_OPTS": "0"})
    assert answer.stdout == ""


def _said(root, program, surroundings):
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=root / "src",
        env=surroundings,
        capture_output=True,
        text=True,
        check=False,
    )


DYING = """
import os, sys
from tapeline.runtime import startup
with startup.quietly():
    os.write(2, b"oneDNN custom operations are on\\n")
    os.write(2, b"x" * 300_000 + b"\\nfatal: the end\\n")
    ENDS
"""


@pytest.mark.parametrize(
    ("ends", "status"),
    [
        ("os.abort()", -signal.SIGABRT),
        ("os.kill(os.getpid(), 9)", -signal.SIGKILL),
        ("os.kill(os.getpid(), 11)", -signal.SIGSEGV),
        ("os._exit(3)", 3),
        ("sys.exit(4)", 4),
        ("pass", 0),
    ],
)
def test_what_was_held_is_said_however_the_process_ends(root, ends, status):
    answer = subprocess.run(
        [sys.executable, "-c", DYING.replace("ENDS", ends)],
        cwd=root / "src",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert answer.returncode == status
    lines = answer.stderr.splitlines()
    assert lines[-2:] == ["x" * 300_000, "fatal: the end"]
    assert len(lines) == (2 if ends == "pass" else 3), "a greeting is shown after a failure only"


def test_a_closed_standard_error_holds_nothing_up(root):
    program = "from tapeline.runtime import startup\nwith startup.quietly(): print('here', flush=True)"
    answer = subprocess.run(
        ["sh", "-c", 'exec 2>&-; exec "$0" -c "$1"', sys.executable, program],
        cwd=root / "src",
        stdout=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    assert (answer.returncode, answer.stdout) == (0, b"here\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount over the shell")
def test_without_a_shell_nothing_is_held_back(root, tmp_path):
    """In a mount namespace of its own, where /bin/sh cannot be run."""
    (tmp_path / "none").touch()
    program = (
        "import os\nfrom tapeline.runtime import startup\nfrom pathlib import Path\n"
        "before = len(list(Path('/proc/self/fd').iterdir()))\n"
        "with startup.quietly(): os.write(2, b'oneDNN custom operations are on\\n')\n"
        "assert len(list(Path('/proc/self/fd').iterdir())) == before\n"
    )
    mounted = 'mount --bind "$0" "$(readlink -f /bin/sh)" && exec "$1" -c "$2"'
    command = ["unshare", "-m", "bash", "-c", mounted, str(tmp_path / "none"), sys.executable, program]
    answer = subprocess.run(command, cwd=root / "src", capture_output=True, text=True, timeout=60, check=False)
    assert (answer.returncode, answer.stderr) == (0, "oneDNN custom operations are on\n")


def test_no_process_is_left_behind(root):
    """Some processes get the orphans of those below them as children, and would have to wait for each."""
    program = (
        "import ctypes, os, time\nfrom tapeline.runtime import startup\n"
        "ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)\n"
        "with startup.quietly(): pass\n"
        "time.sleep(0.2)\n"
        "try: os.waitpid(-1, 0)\n"
        "except ChildProcessError: print('none')\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], cwd=root / "src", capture_output=True, text=True, timeout=60, check=False
    )
    assert (answer.stdout, answer.stderr) == ("none\n", "")
