"""NumPy files of others: arrays of numbers and text, or one line, and no memory for what a header only says."""

import io
import os
import pickle
import struct
import subprocess
import sys
import warnings
import zipfile

import numpy as np
import pytest

from tapeline.parsing import arrays
from tapeline.parsing.arrays import NotArrays


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def headed(header, body=b"", version=1):
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(header)) + header + body


def says(shape, descr="'<f4'"):
    return headed(f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode(), bytes(64))


@pytest.mark.parametrize(
    "array",
    [
        np.ones((3, 2)),
        np.arange(5),
        np.zeros((0, 2)),
        np.float32(1),
        np.array(["ö", "ab"]),
        np.array([b"a"]),
        np.ones((2, 3), order="F"),
    ],
)
def test_what_is_an_array(tmp_path, array):
    (tmp_path / "a.npy").write_bytes(npy(array))
    np.savez_compressed(tmp_path / "a.npz", a=array, b=array)
    for found in (arrays.mapped(tmp_path / "a.npy"), *arrays.unpacked(tmp_path / "a.npz").values()):
        assert found.dtype == array.dtype and np.array_equal(found, array)
    assert arrays.members(tmp_path / "a.npz") == ["a", "b"]
    assert arrays.unpacked(tmp_path / "a.npz", ["b", "c"]).keys() == {"b"}


@pytest.mark.parametrize(
    "array",
    [
        np.arange(60, dtype=np.int16).reshape(5, 3, 4),
        np.asfortranarray(np.arange(60).reshape(5, 3, 4)),
        np.asfortranarray(np.array([["ö", "ab"], ["", "c"], ["d", "e"]])),
        np.arange(5.0).astype(">f4"),
        np.array([b"a", b"bc"]),
        np.zeros((0, 2)),
        np.zeros((3, 0), order="F"),
    ],
)
def test_parts_of_what_is_stored(tmp_path, array):
    np.save(tmp_path / "a.npy", array)
    with arrays.stored(tmp_path / "a.npy", axes=array.ndim) as found:
        assert len(found) == len(array) and found.shape == array.shape
        for rows in (slice(0, 2), slice(2, 4), slice(4, 9), slice(0, 5)):
            assert found[rows].dtype == array.dtype
            np.testing.assert_array_equal(found[rows], array[rows])
    with arrays.stored(tmp_path / "a.npy", axes=array.ndim + 1) as found:
        np.testing.assert_array_equal(found[0:9], array[None])


def test_a_number_is_stored_as_one_row(tmp_path):
    np.save(tmp_path / "a.npy", np.float32(7))
    for axes in (1, 4):
        with arrays.stored(tmp_path / "a.npy", axes=axes) as found:
            assert found[0:4].tolist() == [7]


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_stored_array_that_becomes_shorter_is_no_bus_error(tmp_path, order):
    np.save(tmp_path / "a.npy", np.ones((2**16, 8), order=order))
    with arrays.stored(tmp_path / "a.npy", axes=2) as found:
        assert found[0:10].sum() == 80
        os.truncate(tmp_path / "a.npy", 2**12)
        with pytest.raises(NotArrays, match="it became shorter while it was read"):
            found[2**15 : 2**15 + 10]


HEADERS = {
    "cut": (b"\x93NUMPY\x01", "EOF: reading magic string"),
    "no literal": (headed(b"(" * 30), "EOF in multi-line statement"),
    "an open text": (headed(b"'''"), ""),  # TokenError
    "a shape beyond any": (says("(9" + "9" * 30 + ",)"), "a shape of (999"),  # OverflowError
    "a shape of text": (says("('a',)"), "shape is not valid"),  # TypeError
    "a number": (headed(b"5"), "Header is not a dictionary"),
    "text of a type": (says("(3,)", "{}"), "values of type []: give numbers or text"),
    "a negative shape": (says("(-1, 2)"), "a shape of (-1, 2)"),
    "objects": (npy(np.array([{}], object)), "Python objects, which would be pickles"),
    "a pickle": (pickle.dumps([1]), "the magic string is not correct"),
    "a structure": (npy(np.zeros(2, "i4,f4")), "values of type [('f0', '<i4'), ('f1', '<f4')]: give numbers or text"),
    "a date": (npy(np.array([1], "M8[s]")), "values of type datetime64[s]: give numbers or text"),
    "more than there is": (says("(1000, 1000)"), "bytes follow the header, which says float32(1000, 1000)"),
    "terabytes": (says("(1000000000000,)"), "bytes follow the header"),
    "a header of other version": (headed(b"{}", version=3), "a header of version (3, 0), which is for structures"),
    "a header of megabytes": (headed(b" " * 2**20, version=2), "Header info length"),
    "text without characters": (says("(9999999999999,)", "'|S0'"), "values without bytes"),
    "examples without values": (says("(9999999999999, 0)"), "values without bytes"),
    "more axes than NumPy has": (says("(" + "1," * 40 + ")"), ""),
    "more axes and no value": (says("(0," + "1," * 70 + ")"), ""),
    "nesting": (headed(b"[" * 5000), ""),
    "text of 16 GB each": (says("(1,)", "'<U4294967295'"), ""),
}


def opened(file):
    with arrays.stored(file, axes=2):
        pass


@pytest.mark.parametrize("name", HEADERS)
def test_an_npy_file_that_is_none(tmp_path, name):
    content, said = HEADERS[name]
    (tmp_path / "a.npy").write_bytes(content)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("a.npy", content)
    for read, file in ((arrays.mapped, "a.npy"), (opened, "a.npy"), (arrays.unpacked, "a.npz")):
        with pytest.raises(NotArrays) as raised:
            read(tmp_path / file)
        assert str(raised.value) and str(raised.value).isprintable()
        assert said in str(raised.value) or "a.npy has" in str(raised.value)


def patched(content, at, value):
    """Return an archive of one member whose two headers say something else; at: the place in the first of them."""
    for mark, place in ((b"PK\x03\x04", at), (b"PK\x01\x02", at + 2)):
        place += content.find(mark)
        content = content[:place] + bytes([value]) + content[place + 1 :]
    return content


def archived(method=zipfile.ZIP_STORED, name="a.npy", content=None):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr(name, npy(np.ones(3)) if content is None else content)
    return buffer.getvalue()


ARCHIVES = {
    "encrypted": (patched(archived(), 6, 1), "a.npy is encrypted, which NumPy does not write"),
    "an unknown method": (archived(zipfile.ZIP_LZMA), "a.npy is compressed by the method 14"),
    "a method that no one has": (patched(archived(), 8, 99), "compressed by the method 99"),
    "a member that is not an array": (archived(name="readme.txt", content="hello, this is not an array"), "the magic "
    "string is not"),
    "no archive": (b"PK\x03\x04", "File is not a zip file"),
    "a wrong checksum": (archived().replace(struct.pack("<d", 1.0), struct.pack("<d", 2.0), 1), "Bad CRC-32"),
    "cut": (archived()[:-30], "File is not a zip file"),
}  # fmt: skip


@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive_that_is_none(tmp_path, name):
    content, said = ARCHIVES[name]
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(NotArrays, match=said):
        arrays.unpacked(tmp_path / "a.npz")


def test_bytes_of_text_are_those_of_tensorflow(tf):
    texts = tf.constant(["ab", "ö", ""]).numpy()
    found = arrays.storable(texts)
    assert found.dtype == "S2" and found.tolist() == [b"ab", "ö".encode(), b""]
    assert arrays.storable(np.array(["ö"], object)).tolist() == ["ö".encode()]
    assert arrays.storable(texts[:0].reshape(0, 2)).shape == (0, 2)


def test_what_numpy_does_not_know_by_itself_is_stored_as_float32(tf):
    found = arrays.storable(tf.constant([[1.5, float("nan")], [2.0**100, -0.0]], tf.bfloat16).numpy())
    assert found.dtype == np.float32 and repr(found.tolist()) == repr([[1.5, float("nan")], [2.0**100, -0.0]])
    assert arrays.storable(kept := np.ones(2, np.float16)) is kept


UNPACK = r"""
import re, resource, sys
from pathlib import Path
from tapeline.parsing import arrays
limit = 2**30
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    arrays.unpacked(Path(sys.argv[1]), [sys.argv[2]])
except arrays.NotArrays as error:
    print(error)
# Not getrusage: its maximum counts the parent's pages from before the child's own program began.
print(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1], file=sys.stderr)
"""


@pytest.fixture(scope="module")
def bomb(tmp_path_factory):
    """An archive of a few megabytes whose one array, `x`, has 4 GB."""
    path, count = tmp_path_factory.mktemp("bomb") / "bomb.npz", 2**30
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open("x.npy", "w", force_zip64=True) as member:
            member.write(says(f"({count},)")[:-64])
            for _ in range(4 * count >> 24):
                member.write(bytes(2**24))
    assert path.stat().st_size < 30 * 2**20
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wanted", "said"),
    [("x", "it unpacks to 4.0 GB, but at most 1 GB is held in memory: save it in parts, or as .npy\n"), ("other", "")],
)
def test_an_archive_of_megabytes_that_unpacks_to_gigabytes(bomb, wanted, said, root):
    """3.9 MB became 4.5 GB. What the model does not take is not unpacked at all."""
    answer = subprocess.run(
        [sys.executable, "-c", UNPACK, bomb, wanted],
        env={"PYTHONPATH": str(root / "src"), "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert answer.stdout == said
    assert int(answer.stderr) < 2**20  # kilobytes


def test_an_archive_with_two_arrays_of_one_name(tmp_path):
    with warnings.catch_warnings(), zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        warnings.simplefilter("ignore")  # zipfile tells of the second one
        for number in range(2):
            with archive.open("a.npy", "w") as member:
                np.save(member, np.full(2, number))
        archive.writestr("b.npy", b"")
    with pytest.raises(NotArrays, match="it has 'a' twice"):
        arrays.unpacked(tmp_path / "a.npz", ["a"])
