"""The file of predictions, byte for byte."""

import io
import struct
import zipfile

import numpy as np


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
