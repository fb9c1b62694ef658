"""What a block of code reads is known, whichever library reads it; what it writes or only looks at is not."""

import os
import sqlite3
from pathlib import Path

import numpy as np
import pytest

READ = {
    "open": lambda tf, path: path.open().close(),
    "os.open": lambda tf, path: os.close(os.open(path, os.O_RDWR)),
    "a relative path": lambda tf, path: Path(os.path.relpath(path)).read_text(),
    "sqlite": lambda tf, path: sqlite3.connect(path).close(),
    "an address": lambda tf, path: tf.io.gfile.GFile(f"file://{path}").read(),
    "bytes": lambda tf, path: os.close(os.open(os.fsencode(path), os.O_RDONLY)),
    "numpy": lambda tf, path: np.load(path),
    "gfile": lambda tf, path: tf.io.gfile.GFile(path).read(),
    "read_file": lambda tf, path: tf.io.read_file(str(path)),
    "read_file of a tensor": lambda tf, path: tf.io.read_file(tf.constant(str(path))),
    "a lookup table": lambda tf, path: tf.lookup.StaticHashTable(
        tf.lookup.TextFileInitializer(str(path), tf.string, 0, tf.int64, 1, delimiter=" "), -1
    ),
    "load_weights": lambda tf, path: _model().load_weights(path),
    "load_model": lambda tf, path: tf.keras.models.load_model(path),
    "a checkpoint": lambda tf, path: tf.train.Checkpoint(model=_model()).read(path.with_suffix("")),
    "a SavedModel": lambda tf, path: tf.saved_model.load(path.parent),
}


def _model():
    import keras

    return keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])


def _written(tf, name, folder):
    """Return a file that can be read in that way."""
    if name == "load_weights":
        _model().save_weights(folder / "some.weights.h5")
        return folder / "some.weights.h5"
    if name == "load_model":
        _model().save(folder / "some.keras")
        return folder / "some.keras"
    if name == "a checkpoint":
        tf.train.Checkpoint(model=_model()).write(folder / "some")
        return folder / "some.index"
    if name == "a SavedModel":
        tf.saved_model.save(tf.Module(), folder / "model")
        return folder / "model" / "saved_model.pb"
    if name == "numpy":
        np.save(folder / "some.npy", np.arange(3))
        return folder / "some.npy"
    (folder / "words.txt").write_text("one 1\ntwo 2\n")
    return folder / "words.txt"


@pytest.mark.filterwarnings("ignore:__array__:DeprecationWarning")  # Keras' own
@pytest.mark.parametrize("name", READ)
def test_a_file_is_seen(tf, tmp_path, name):
    from tapeline.runtime import files_read

    path = _written(tf, name, tmp_path)
    with files_read.watched() as read:
        READ[name](tf, path)
    assert path in read
    path_after = tmp_path / "after.txt"
    path_after.write_text("")
    path_after.read_text()
    assert path_after not in read, "the block has ended"


def test_what_is_only_written_or_listed_is_not(tf, tmp_path):
    from tapeline.runtime import files_read

    with files_read.watched() as read:
        (tmp_path / "made.txt").write_text("")
        np.save(tmp_path / "made.npy", np.arange(3))
        np.savez(tmp_path / "made.npz", a=np.arange(3))  # opens to read, too
        with (tmp_path / "log").open("a+") as log, (tmp_path / "new").open("x+") as new:
            print("text", file=log)
            print("text", file=new)
        tf.io.gfile.GFile(tmp_path / "other.txt", "w").write("text")
        list(tmp_path.iterdir())
        (tmp_path / "made.txt").stat()
        os.close(os.open(tmp_path, os.O_DIRECTORY))
    assert not [path for path in read if path.is_relative_to(tmp_path)]


def test_two_blocks_see_their_own(tf, tmp_path):
    from tapeline.runtime import files_read

    for name in ("outer", "inner"):
        (tmp_path / name).write_text("")
    with files_read.watched() as outer:
        with files_read.watched() as inner:
            (tmp_path / "inner").read_text()
        (tmp_path / "outer").read_text()
    assert tmp_path / "inner" in outer & inner
    assert tmp_path / "outer" in outer - inner


def test_an_error_ends_a_block(tf, tmp_path):
    import h5py
    from tensorflow.python import pywrap_tfe

    from tapeline.runtime import files_read

    before = h5py.h5f.open, pywrap_tfe.TFE_Py_FastPathExecute
    with pytest.raises(ValueError, match="mine"), files_read.watched():
        raise ValueError("mine")
    assert (h5py.h5f.open, pywrap_tfe.TFE_Py_FastPathExecute) == before
