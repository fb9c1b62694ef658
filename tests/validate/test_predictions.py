"""The file of predictions, byte for byte."""

import io
import struct
import zipfile

import numpy as np
import pytest

from tapeline.runtime.errors import InputError


def test_the_bytes_depend_on_no_clock_and_no_version_of_python(tf):
    from tapeline.validate.measure import npz

    arrays = {"class": np.arange(6, dtype=np.int64), "logits": np.ones((6, 3), np.float32)}
    made = npz(arrays)
    version, size = struct.unpack("<4xH12xI", made[:22])
    assert (version, size) == (20, made.index(b"PK\x03\x04", 4) - 30 - len("class.npy")), "no 64-bit sizes"
    with zipfile.ZipFile(io.BytesIO(made)) as archive:
        assert {(one.compress_type, one.date_time[0]) for one in archive.infolist()} == {(zipfile.ZIP_STORED, 1980)}
    read = np.load(io.BytesIO(made), allow_pickle=False)
    assert list(read) == list(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(read[name], array)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, "served returns nothing: return a dict from input name to NumPy array"),
        ([1.0], "served returns a list: return a dict"),
        ({"text": ["a", "b"]}, "served returns a list for text: make it a NumPy array"),
    ],
)
def test_what_a_recipe_serves_must_be_arrays(tf, found, said):
    from tapeline.recipe import Recipe, predicting

    class Serving(Recipe):
        build = train_step = eval_step = None

        def served(self, data):
            return found

    with pytest.raises(InputError, match=f"^{said}"):
        predicting.served(object.__new__(Serving), {})
