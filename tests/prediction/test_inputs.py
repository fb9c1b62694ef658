"""Files become exactly the inputs that a model takes; what does not fit is refused with its place."""

import json
import pickle

import numpy as np
import pytest
from PIL import Image

from tapeline.errors import InputError
from tapeline.prediction import inputs
from tapeline.prediction.inputs import Signature


def signature(tables=None, **specs):
    """Return a signature of inputs given as name=(dtype, shape of one example)."""
    described = {name: {"dtype": dtype, "shape": [None, *shape]} for name, (dtype, shape) in specs.items()}
    return Signature.of(described, tables or {})


IMAGE = signature(image=("uint8", (8, 8, 1)))
POINT = signature(x=("float32", (2,)))
TWO = signature(x=("float32", (2,)), n=("int64", ()))


def read(file, taken, batch_size=4):
    inputs.check([file])
    found = list(inputs.pieces([file], taken, batch_size))
    assert all(len(piece) <= batch_size for piece in found)
    return {name: np.concatenate([piece.inputs[name] for piece in found]) for name in taken.shapes}


@pytest.mark.parametrize("count", [1, 4, 9])
def test_npy(tmp_path, count):
    images = np.arange(count * 64, dtype=np.uint8).reshape(count, 8, 8, 1)
    np.save(tmp_path / "a.npy", images)
    found = read(tmp_path / "a.npy", IMAGE)["image"]
    assert found.dtype == np.uint8 and np.array_equal(found, images)


def test_npy_of_one_example_and_of_none(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((8, 8, 1), np.int64))
    assert read(tmp_path / "a.npy", IMAGE)["image"].shape == (1, 8, 8, 1)
    np.save(tmp_path / "b.npy", np.ones((0, 8, 8, 1)))
    assert list(inputs.pieces([tmp_path / "b.npy"], IMAGE, 4)) == []


def test_npz_csv_and_json_lines_say_the_same(tmp_path):
    x, n = np.linspace(0, 1, 20, dtype=np.float32).reshape(10, 2), np.arange(10)
    np.savez(tmp_path / "a.npz", x=x, n=n)
    lines = [json.dumps({"x": row.tolist(), "n": int(number)}) for row, number in zip(x, n, strict=True)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n\n")
    rows = [f"{number},{row[0]!r},{row[1]!r}" for row, number in zip(x.tolist(), n.tolist(), strict=True)]
    (tmp_path / "a.csv").write_text("\ufeffn,x.0,x.1\n" + "\n".join(rows) + "\n", encoding="utf-8")
    for name in ("a.npz", "a.jsonl", "a.csv"):
        found = read(tmp_path / name, TWO)
        assert np.array_equal(found["x"], x) and found["x"].dtype == np.float32, name
        assert np.array_equal(found["n"], n) and found["n"].dtype == np.int64, name


def test_a_table_has_the_columns_that_its_dataset_had(tmp_path):
    (tmp_path / "a.csv").write_text("area,rooms,name\n1.5,2,x\n")
    assert read(tmp_path / "a.csv", signature({"x": ["rooms", "area"]}, x=("float32", (2,))))["x"].tolist() == [
        [2, 1.5]
    ]


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_images(tmp_path, channels):
    pixels = np.arange(64 * channels, dtype=np.uint8).reshape(8, 8, channels)
    Image.fromarray(pixels.squeeze()).save(tmp_path / "a.png")
    found = read(tmp_path / "a.png", signature(image=("uint8", (8, 8, channels))))["image"]
    assert np.array_equal(found[0], pixels)


def written(name, content):
    def write(folder):
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return folder / name

    return write


def saved(array):
    def write(folder):
        np.save(folder / "a.npy", array, allow_pickle=True)
        return folder / "a.npy"

    return write


def picture(folder):
    Image.new("L", (9, 8)).save(folder / "a.png")
    return folder / "a.png"


def archived(damage, save=np.savez):
    """An archive of zeros with other bytes."""

    def write(folder):
        save(folder / "a.npz", x=np.zeros((90, 2)))
        content = (folder / "a.npz").read_bytes()
        (folder / "a.npz").write_bytes(damage(content))
        return folder / "a.npz"

    return write


def unequal(folder):
    np.savez(folder / "a.npz", x=np.ones((3, 2)), n=np.ones(2))
    return folder / "a.npz"


@pytest.mark.parametrize(
    ("write", "taken", "said"),
    [
        (lambda folder: folder / "none.npy", IMAGE, "none.npy: no such file"),
        (written("a.txt", "x"), IMAGE, "of no kind that can be read: give one of .npy, .npz, .csv"),
        (written("a.npy", b"\x93NUMPY\x01"), IMAGE, "a.npy is no NumPy file without pickles"),
        (written("a.npy", pickle.dumps([1])), IMAGE, "a.npy is no NumPy file without pickles"),
        (
            saved(np.array([{"a": 1}], object)),
            IMAGE,
            "a.npy is no NumPy file without pickles: Array can't be memory-mapped",
        ),
        (saved(np.ones((3, 7, 8, 1))), IMAGE, "a.npy: image has shape (7, 8, 1), the model takes (8, 8, 1)"),
        (saved(np.float32(1)), IMAGE, "a.npy: image has shape (), the model takes (8, 8, 1)"),
        (saved(np.full((1, 8, 8, 1), 256)), IMAGE, "a.npy: image has values that are no uint8"),
        (saved(np.full((1, 8, 8, 1), 0.5)), IMAGE, "a.npy: image has values that are no uint8"),
        (saved(np.ones((3, 2))), TWO, "holds one input and the model takes x, n"),
        (archived(lambda all: all[:-30]), POINT, "a.npz is no NumPy file without pickles: File is not a zip file"),
        (
            archived(lambda all: all[:400] + b"?" + all[401:]),
            POINT,
            "a.npz is no NumPy file without pickles: Bad CRC-32 for file 'x.npy'",
        ),
        (
            archived(lambda all: all[:60] + bytes(40) + all[100:], np.savez_compressed),
            POINT,
            "a.npz is no NumPy file without pickles",
        ),
        (saved(np.full((1, 2), 1e300)), POINT, "a.npy: x has values that are too large for float32"),
        (saved(np.full((1, 8, 8, 1), np.nan)), IMAGE, "a.npy: image has values that are no uint8"),
        (written("a.csv", "x.0,x.1\n1,2\n1,1e300\n"), POINT, "a.csv, line 3: x has values that are too large for"),
        (written("a.csv", "x.0,x.1,ort\n1,2,Köln\n".encode("latin-1")), POINT, "a.csv is not UTF-8"),
        (written("a.jsonl", "[1, 2]\n".encode("utf-16")), POINT, "a.jsonl is not UTF-8"),
        (
            written("a.jsonl", "[1]\n[1, 2]\n"),
            signature(x=("float32", (None,))),
            "a.jsonl: x of example 1 has shape (2), and that of example 0, in the same batch, (1): give --batch-size 1",
        ),
        (unequal, TWO, "a.npz has inputs of different lengths"),
        (picture, IMAGE, "a.png is 9×8, the model takes 8×8: scale it first"),
        (picture, POINT, "a.png is an image, and the model takes x of shape (2)"),
        (written("a.png", b"\x89PNG"), IMAGE, "a.png is no image that can be read"),
        (written("a.csv", "x.0\n1\n"), POINT, "a.csv has no column x.1: it has x.0"),
        (written("a.csv", ""), POINT, "a.csv has no column x.0, x.1: it has "),
        (written("a.csv", "x.0,x.1\n1,2\n1,a\n"), POINT, "a.csv, line 3: x.1 is 'a', which is no float32"),
        (written("a.csv", "x.0,x.1\n1\n"), POINT, "a.csv, line 2: x.1 is None, which is no float32"),
        (written("a.jsonl", '[1, 2]\n{"x"'), POINT, "a.jsonl, line 2 is not JSON"),
        (written("a.jsonl", '{"y": 1}'), POINT, "a.jsonl, line 1 has no x"),
        (written("a.jsonl", '{"x": [1, 2, 3]}'), POINT, "a.jsonl, line 1: x has shape (3), the model takes (2)"),
        (written("a.jsonl", '{"x": [1, "b"]}'), POINT, "a.jsonl, line 1: x must be float32 of shape (2)"),
        (written("a.jsonl", '{"x": [[1], [2, 3]]}'), POINT, "a.jsonl, line 1: a list has parts of different lengths"),
    ],
)
def test_what_does_not_fit(tmp_path, write, taken, said):
    file = write(tmp_path)
    with pytest.raises(InputError) as raised:
        read(file, taken)
    assert said in str(raised.value) and "\n" not in str(raised.value)


def test_a_model_of_one_fixed_shape():
    with pytest.raises(InputError, match="one fixed number of examples"):
        Signature.of({"x": {"dtype": "float32", "shape": [7, 2]}}, {})
