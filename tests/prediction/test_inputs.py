"""Files become exactly the inputs that a model takes; what does not fit is refused with its place."""

import json
import os
import pickle

import numpy as np
import pytest
from pictures import deep_png
from PIL import Image

from tapeline.config.ingest import ImageFolderSource
from tapeline.ingest import image_folder
from tapeline.prediction import inputs, text_blocks
from tapeline.prediction.signature import Signature
from tapeline.runtime.errors import InputError


def signature(tables=None, *, resized=(), **specs):
    """Return a signature of inputs given as name=(dtype, shape of one example)."""
    described = {name: {"dtype": dtype, "shape": [None, *shape]} for name, (dtype, shape) in specs.items()}
    return Signature.of(described, tables or {}, resized=resized)


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


@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_that_becomes_shorter_while_it_is_read(tmp_path, order):
    np.save(tmp_path / "a.npy", np.ones((2**16, 2), np.float32, order=order))
    found = inputs.pieces([tmp_path / "a.npy"], POINT, 2**10)
    assert len(next(found)) == 2**10
    os.truncate(tmp_path / "a.npy", 2**14)
    with pytest.raises(InputError, match="a.npy cannot be read: it became shorter while it was read"):
        list(found)


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


def test_booleans_of_csv(tmp_path):
    taken = signature(b=("bool", ()), x=("float32", ()))
    (tmp_path / "a.csv").write_text("b,x\nTrue,1\nFalse,2\ntrue,3\nFALSE ,4\n1,5\n0,6\n")
    found = read(tmp_path / "a.csv", taken)["b"]
    assert found.dtype == bool and found.tolist() == [True, False, True, False, True, False]
    for other in ("yes", "2", "1.0", "", "nan"):
        (tmp_path / "a.csv").write_text(f"b,x\n{other},1\n")
        with pytest.raises(InputError, match=f"line 2: b is '{other}', which is not a bool"):
            read(tmp_path / "a.csv", taken)


def test_a_table_has_the_columns_that_its_dataset_had(tmp_path):
    (tmp_path / "a.csv").write_text("area,rooms,name\n1.5,2,x\n")
    assert read(tmp_path / "a.csv", signature({"x": ["rooms", "area"]}, x=("float32", (2,))))["x"].tolist() == [
        [2, 1.5]
    ]


WORDS = signature(word=("string", ()), n=("float32", ()))


def test_texts(tmp_path):
    (tmp_path / "a.csv").write_text("word,n\nab,1\nö,2\n,3\n", encoding="utf-8")
    lines = [json.dumps({"word": word, "n": n}) for word, n in (("ab", 1), ("ö", 2), ("", 3))]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    np.savez(tmp_path / "a.npz", word=np.array(["ab", "ö", ""]), n=np.array([1.0, 2, 3]))
    for name in ("a.csv", "a.jsonl", "a.npz"):
        found = read(tmp_path / name, WORDS)
        assert found["word"].tolist() == ["ab", "ö", ""] and found["n"].tolist() == [1, 2, 3], name
    (tmp_path / "a.jsonl").write_text('{"word": 5, "n": 1}')
    with pytest.raises(InputError, match=r"a.jsonl, line 1: word is 5; the model takes text"):
        read(tmp_path / "a.jsonl", WORDS)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_images(tmp_path, channels):
    pixels = np.arange(64 * channels, dtype=np.uint8).reshape(8, 8, channels)
    Image.fromarray(pixels.squeeze()).save(tmp_path / "a.png")
    found = read(tmp_path / "a.png", signature(image=("uint8", (8, 8, channels))))["image"]
    assert np.array_equal(found[0], pixels)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_an_image_is_turned_as_ingest_turns_it(tmp_path, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)
    (tmp_path / "pictures/train/a").mkdir(parents=True)
    file = tmp_path / "pictures/train/a/1.png"
    Image.fromarray(pixels).save(file, exif=exif)
    settings = ImageFolderSource(source="images", needs="pictures", size=(8, 8))
    (examples,) = image_folder.read(settings, tmp_path / "pictures").examples
    found = read(file, signature(image=("uint8", (8, 8, 3)), resized=["image"]))["image"]
    assert np.array_equal(found, examples.columns["image"])
    assert np.array_equal(found[0], pixels) == (orientation == 1)


@pytest.mark.parametrize("kind", ["png", "jpg"])
@pytest.mark.parametrize("orientation", [0, 1, 2, 6, 9])
def test_an_image_to_be_turned_is_refused_where_ingest_turned_none(tmp_path, orientation, kind):
    """TFDS, which reads a builder's images, does not turn them."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    file = tmp_path / f"a.{kind}"
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(file, exif=exif)
    taken = signature(image=("uint8", (8, 8, 3)))
    if orientation in (2, 6):
        with pytest.raises(InputError, match=rf"a\.{kind} is rotated by its EXIF data, but .*: use \.npy"):
            read(file, taken)
    else:
        assert read(file, taken)["image"].shape == (1, 8, 8, 3)


COLOURS = (
    "a.%s is in colours, and the model takes greys, into which programs turn colours differently: save it as a grey"
)
FEW = "a.png has less than 8 bits a channel, of which TensorFlow makes a nearly transparent image: save it as RGBA"


@pytest.mark.parametrize(
    ("mode", "kind", "channels", "refusal"),
    [
        *((mode, kind, channels, "") for mode in ("L", "RGB") for kind in ("png", "jpg") for channels in (1, 3)
          if (mode, kind, channels) != ("RGB", "png", 1)),
        ("CMYK", "jpg", 3, ""),
        ("RGBA", "png", 4, ""),
        ("RGB", "png", 4, ""),
        ("RGB", "bmp", 3, ""),
        ("RGB", "bmp", 4, ""),
        ("P", "png", 3, ""),
        ("1", "png", 1, ""),
        ("RGB", "png", 1, COLOURS % "png"),
        ("P", "png", 1, COLOURS % "png"),
        ("RGBA", "webp", 1, COLOURS % "webp"),
        ("P", "png", 4, FEW),
        ("1", "png", 4, FEW),
        ("P", "bmp", 3, "a.bmp is a BMP with a palette, whose numbers TensorFlow takes for greys: save it as PNG"),
        ("RGBA", "bmp", 4, "a.bmp is a BMP of 32 bits, and programs do not agree on its transparency: save it as PNG"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("tf")
def test_an_image_has_the_pixels_that_tfds_gives_a_builder_or_is_refused(tmp_path, mode, kind, channels, refusal):
    """TFDS has TensorFlow decode them, whose pixels are not always Pillow's."""
    import tensorflow_datasets as tfds

    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (24, 17, 4), np.uint8))
    file = tmp_path / f"a.{kind}"
    (noise.convert("RGB").quantize(16) if mode == "P" else noise.convert(mode)).save(file)
    taken = signature(image=("uint8", (24, 17, channels)))
    if refusal:
        with pytest.raises(InputError, match=refusal):
            read(file, taken)
        return
    feature = tfds.features.Image(shape=(24, 17, channels))
    wanted = feature.decode_example(feature.encode_example(str(file)))
    assert np.array_equal(read(file, taken)["image"][0], wanted)


def test_a_grey_image_may_be_stored_in_colours(tmp_path):
    grey = Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8))
    for mode in ("L", "RGB", "RGBA"):
        grey.convert(mode).save(tmp_path / "a.png")
        assert np.array_equal(read(tmp_path / "a.png", IMAGE)["image"][0, ..., 0], np.asarray(grey)), mode


@pytest.mark.parametrize("channels", [1, 3])
def test_a_photo_of_any_size_is_what_ingest_makes_of_it(tmp_path, channels):
    """JPEGs, which ingest decodes in its own way, with subsampling and turned; few colours, transparency, this size."""
    folder = tmp_path / "pictures/train/a"
    folder.mkdir(parents=True)
    turned = Image.Exif()
    turned[0x0112] = 6

    def photo(width, height):
        noise = np.random.default_rng(width).integers(0, 256, (height, width, channels), np.uint8)
        return Image.fromarray(noise.squeeze())

    photo(323, 211).save(folder / "large.jpg", subsampling=2)
    photo(90, 161).save(folder / "turned.jpg", subsampling=0, exif=turned)
    photo(5, 9).convert("LA" if channels == 1 else "RGBA").save(folder / "small.png")
    photo(64, 48).save(folder / "same.bmp")
    if channels == 3:
        photo(70, 64).quantize(16).save(folder / "palette.png")
        photo(131, 33).convert("L").save(folder / "grey.jpeg")
    settings = ImageFolderSource(source="images", needs="pictures", size=(48, 64))
    (examples,) = image_folder.read(settings, tmp_path / "pictures").examples
    taken = signature(image=("uint8", (48, 64, channels)), resized=["image"])
    for key, pixels in zip(examples.keys, examples.columns["image"], strict=True):
        assert np.array_equal(read(tmp_path / "pictures" / key, taken)["image"][0], pixels), key


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.tif", "TIFF"), ("a.TIFF", "TIFF"), ("a.gif", "GIF"), ("a.jfif", "JPEG"), ("a.jpe", "JPEG"), ("a.tga", "TGA"),
     ("a.ppm", "PPM"), ("a.jp2", "JPEG2000"), ("a", "PNG"), ("a.photo", "WEBP")],
)  # fmt: skip
def test_an_image_of_any_name_that_ingest_takes(tmp_path, name, kind):
    (tmp_path / "pictures/train/a").mkdir(parents=True)
    file = tmp_path / "pictures/train/a" / name
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)
    Image.fromarray(pixels).save(file, kind)
    settings = ImageFolderSource(source="images", needs="pictures", size=(8, 8))
    (examples,) = image_folder.read(settings, tmp_path / "pictures").examples
    taken = signature(image=("uint8", (8, 8, 3)), resized=["image"])
    assert np.array_equal(read(file, taken)["image"], examples.columns["image"])


@pytest.mark.parametrize(
    ("name", "content"), [("a.txt", b"x"), ("a.pdf", b"%PDF-1.7"), ("a.h5", b"\x89HDF\r\n\x1a\n"), ("a", b"")]
)
def test_what_is_no_image_is_no_input(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=rf"{name} is not a supported kind of file: use one of \.npy, .*\.tiff, or"):
        inputs.check([tmp_path / name])


def test_a_photo_for_a_model_of_any_size_keeps_its_own(tmp_path):
    Image.new("L", (9, 8)).save(tmp_path / "a.png")
    taken = signature(image=("uint8", (None, None, 1)), resized=["image"])
    assert read(tmp_path / "a.png", taken)["image"].shape == (1, 8, 9, 1)


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


def deep(folder):
    (folder / "a.png").write_bytes(deep_png(8, 8))
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
        (lambda folder: folder, IMAGE, " is a folder: name its files, such as "),
        (written("a.txt", "x"), IMAGE, "not a supported kind of file: use one of .npy, .npz, .csv"),
        (written("a.npy", b"\x93NUMPY\x01"), IMAGE, "a.npy is not a NumPy file without pickles"),
        (written("a.npy", pickle.dumps([1])), IMAGE, "a.npy is not a NumPy file without pickles"),
        (
            saved(np.array([{"a": 1}], object)),
            IMAGE,
            "a.npy is not a NumPy file without pickles: Python objects",
        ),
        (saved(np.ones((3, 7, 8, 1))), IMAGE, "a.npy: image has shape (7, 8, 1), but the model takes (8, 8, 1)"),
        (saved(np.float32(1)), IMAGE, "a.npy: image has shape (), but the model takes (8, 8, 1)"),
        (saved(np.full((1, 8, 8, 1), 256)), IMAGE, "a.npy: image has values that are not whole numbers from 0 to 255"),
        (saved(np.full((1, 8, 8, 1), 0.5)), IMAGE, "a.npy: image has values that are not whole numbers from 0 to 255"),
        (saved(np.ones((3, 2))), TWO, "holds one input, but the model takes x, n"),
        (archived(lambda all: all[:-30]), POINT, "a.npz is not a NumPy file without pickles: File is not a zip file"),
        (
            archived(lambda all: all[:400] + b"?" + all[401:]),
            POINT,
            "a.npz is not a NumPy file without pickles: Bad CRC-32 for file 'x.npy'",
        ),
        (
            archived(lambda all: all[:60] + bytes(40) + all[100:], np.savez_compressed),
            POINT,
            "a.npz is not a NumPy file without pickles",
        ),
        (saved(np.full((1, 2), 1e300)), POINT, "a.npy: x has values that are too large for float32"),
        (
            saved(np.full((1, 8, 8, 1), np.nan)),
            IMAGE,
            "a.npy: image has values that are not whole numbers from 0 to 255",
        ),
        (written("a.csv", "x.0,x.1\n1,2\n1,1e300\n"), POINT, "a.csv, line 3: x has values that are too large for"),
        (written("a.csv", "x.0,x.1,ort\n1,2,Köln\n".encode("latin-1")), POINT, "a.csv is not UTF-8"),
        (written("a.jsonl", "[1, 2]\n".encode("utf-16")), POINT, "a.jsonl is not UTF-8"),
        (
            written("a.jsonl", "[1]\n[1, 2]\n"),
            signature(x=("float32", (None,))),
            "a.jsonl: x of example 1 has shape (2), and that of example 0, in the same batch, (1): use --batch-size 1",
        ),
        (unequal, TWO, "a.npz has inputs of different lengths: "),
        (picture, IMAGE, "a.png is 9×8, but the model takes 8×8: scale it first"),
        (picture, POINT, "a.png is an image, but the model takes x of shape (2)"),
        (written("a.png", b"\x89PNG"), IMAGE, "a.png is not an image that can be decoded ("),
        (
            deep,
            signature(image=("uint8", (8, 8, 3))),
            "a.png has more than 8 bits a channel: save it with 8 bits a channel",
        ),
        (
            written("a.csv", "x.0,x.1\n1," + "2" * 131_073 + "\n"),
            POINT,
            "a.csv cannot be read as CSV: field larger than",
        ),
        (written("a.csv", "x.0," + "y" * 131_073 + "\n"), POINT, "a.csv cannot be read as CSV: field larger than"),
        (written("a.csv", "x.0\n1\n"), POINT, "a.csv has no column x.1: it has x.0"),
        (written("a.csv", ""), POINT, "a.csv has no column x.0, x.1: it has nothing"),
        (
            written("a.csv", "x.0;x.1\n1;2\n"),
            POINT,
            "a.csv has no column x.0, x.1: it has x.0;x.1; its separator is ';': save it with commas",
        ),
        (written("a.csv", "x.0,x.1\n1,2\n1,a\n"), POINT, "a.csv, line 3: x.1 is 'a', which is not a float32"),
        (
            written("a.csv", "x.0,x.1\n1\n"),
            POINT,
            "a.csv, line 2 has 1 values for 2 columns: put text that has a comma",
        ),
        (written("a.jsonl", '[1, 2]\n{"x"'), POINT, "a.jsonl, line 2 is not JSON"),
        (written("a.jsonl", '{"y": 1}'), POINT, "a.jsonl, line 1 has no x: its keys are y"),
        (written("a.jsonl", '{"x": [1, 2, 3]}'), POINT, "a.jsonl, line 1: x has shape (3), but the model takes (2)"),
        (
            written("a.jsonl", '{"x": [1, "b"]}'),
            POINT,
            "a.jsonl, line 1: x is <U21 of shape (2); the model takes float32 values of shape (2)",
        ),
        (written("a.jsonl", "[" * 100_000), POINT, "a.jsonl, line 1 is not JSON: nested more than 100 levels deep"),
        (
            written("a.jsonl", '{"x": [1, ' + "9" * 400 + "]}"),
            POINT,
            "a.jsonl, line 1: x is object of shape (2); the model takes float32",
        ),
        (written("a.jsonl", '{"word": "\\ud800", "n": 1}'), WORDS, "a.jsonl, line 1 is not JSON: not UTF-8"),
        (
            written("a.jsonl", '{"x": ["1", "2"]}'),
            POINT,
            "a.jsonl, line 1: x is <U1 of shape (2); the model takes float32 values",
        ),
        (
            written("a.jsonl", '{"x": [1, 2]}\n{"x": [3, null]}'),
            POINT,
            "a.jsonl, line 2: x is object of shape (2) with null; the model takes float32 values of shape (2)",
        ),
        (
            written("a.jsonl", '{"x": [null, "3.5"]}'),
            POINT,
            "a.jsonl, line 1: x is object of shape (2) with null; the model takes float32 values of shape (2)",
        ),
        (
            written("a.jsonl", '{"x": [36893488147419103232, true]}'),
            POINT,
            "a.jsonl, line 1: x is object of shape (2) with True; the model takes float32 values of shape (2)",
        ),
        (
            written("a.jsonl", "null"),
            signature(x=("float32", ())),
            "a.jsonl, line 1: x is null; the model takes float32 values",
        ),
        (written("a.jsonl", '{"word": null, "n": 1}'), WORDS, "a.jsonl, line 1: word is null; the model takes text"),
        (written("a.csv", "x.0,x.1,x.0\n1,2,3\n"), POINT, "a.csv has more than one column x.0: remove one"),
        (written("a.csv", "word,n\na\n"), WORDS, "a.csv, line 2 has 1 values for 2 columns"),
        (
            written("a.csv", "word,n\na, b,1\n"),
            WORDS,
            "a.csv, line 2 has 3 values for 2 columns: put text that has a comma",
        ),
        (
            written("a.csv", 'word,n\n"a,1\nb,2\n'),
            WORDS,
            "a.csv cannot be read as CSV: unexpected end of data; fix it",
        ),
        (written("a.csv", 'word,n\n"a" b,1\n'), WORDS, "a.csv cannot be read as CSV: "),
        (written("a.npz", b"PK\x05\x06" + bytes(18)), POINT, "a.npz has nothing and lacks x, which the model needs"),
        (
            saved(np.array([1 + 2j, 3])[None]),
            POINT,
            "a.npy: x is complex128 of shape (2); the model takes float32 values of shape (2)",
        ),
        (
            saved(np.array([["\ud800"]])),
            signature(x=("string", (1,))),
            "a.npy: x is '\\ud800'; the model takes text of shape (1)",
        ),
        (saved(np.array([[2**31]], "<u4").view("<U1")), signature(x=("string", (1,))), "a.npy: x is "),
        (saved(np.array([[2**31]], ">u4").view(">U1")), signature(x=("string", (1,))), "a.npy: x is "),
        (
            saved(np.ones((1, 2), np.int64)),
            signature(x=("bool", (2,))),
            "a.npy: x is int64 of shape (2); the model takes bool values of shape (2)",
        ),
        (written("a.jsonl", '{"x": [[1], [2, 3]]}'), POINT, "a.jsonl, line 1: the parts of a list differ in length"),
    ],
)
def test_what_does_not_fit(tmp_path, write, taken, said):
    file = write(tmp_path)
    with pytest.raises(InputError) as raised:
        read(file, taken)
    assert said in str(raised.value) and "\n" not in str(raised.value)


def test_a_model_of_one_fixed_shape():
    with pytest.raises(InputError, match="a fixed number of examples"):
        Signature.of({"x": {"dtype": "float32", "shape": [7, 2]}}, {})


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", [".npy", ".npz", ".csv", ".jsonl", ".png"])
def test_a_fifo_is_refused_and_not_waited_for(tmp_path, kind):
    os.mkfifo(tmp_path / f"a{kind}")
    with pytest.raises(InputError, match="is a FIFO, a socket or a device, not a file"):
        inputs.check([tmp_path / f"a{kind}"])


def test_a_table_fills_inputs_of_any_length(tmp_path):
    (tmp_path / "a.csv").write_text("a,b,c,d\n1,2,3,4\n")
    for shape, taken in (((None,), (4,)), ((None, 2), (2, 2)), ((2, None), (2, 2)), ((None, None), (4, 1))):
        found = read(tmp_path / "a.csv", signature({"x": ["a", "b", "c", "d"]}, x=("int32", shape)))["x"]
        assert found.shape == (1, *taken) and found.ravel().tolist() == [1, 2, 3, 4]
    with pytest.raises(InputError, match=r"line 2: x has shape \(4\), but the model takes \(any, 3\)"):
        read(tmp_path / "a.csv", signature({"x": ["a", "b", "c", "d"]}, x=("int32", (None, 3))))


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv"])
def test_a_line_that_would_fill_the_memory(tmp_path, monkeypatch, name):
    monkeypatch.setattr(text_blocks, "LONGEST", 1000)
    (tmp_path / name).write_text("x.0,x.1\n" if name == "a.csv" else "[1, 2]\n")
    with (tmp_path / name).open("a") as file:
        file.write("1," * 600)
    with pytest.raises(InputError, match=r"line 2 has more than 1,000 characters: use an .npy file"):
        read(tmp_path / name, POINT)


def test_a_jpeg_of_which_pixels_would_be_made_up(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.jpg", quality=90)
    assert len(read(tmp_path / "a.jpg", signature(image=("uint8", (8, 8, 3))))["image"]) == 1
    content = (tmp_path / "a.jpg").read_bytes()
    (tmp_path / "a.jpg").write_bytes(content[:-60] + bytes(58) + content[-2:])
    with pytest.raises(
        InputError, match=r"a.jpg seems damaged, so that some of its pixels would be invented: its comp"
    ):
        read(tmp_path / "a.jpg", signature(image=("uint8", (8, 8, 3))))


def test_a_number_beyond_any_integer_of_numpy_s(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"x": [36893488147419103232, 1]}\n{"x": [NaN, 1.5]}\n')
    np.testing.assert_array_equal(read(tmp_path / "a.jsonl", POINT)["x"], np.float32([[2**65, 1], [np.nan, 1.5]]))


def test_an_example_without_values(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"x": [], "word": []}')
    found = read(tmp_path / "a.jsonl", signature(x=("float32", (None,)), word=("string", (None,))))
    assert {name: values.shape for name, values in found.items()} == {"x": (1, 0), "word": (1, 0)}


def test_whole_numbers_that_float64_would_round_are_exact_in_whatever_reads_them(tmp_path):
    taken = signature(h=("uint64", (2,)))
    for name, text in {
        "fast.jsonl": '{"h": [5, 9223372036854775809]}\n',
        "slow.jsonl": ' {"h": [5, 9223372036854775809]}\n',
        "fast.csv": "h.0,h.1\n5,9223372036854775809\n",
        "slow.csv": 'h.0,h.1\n"5",9223372036854775809\n',
    }.items():
        (tmp_path / name).write_text(text)
        assert read(tmp_path / name, taken)["h"].tolist() == [[5, 2**63 + 1]], name
    (tmp_path / "a.jsonl").write_text('{"x": [9007199254740993, 1.0]}\n')
    assert read(tmp_path / "a.jsonl", signature(x=("int64", (2,))))["x"].tolist() == [[2**53 + 1, 1]]
    (tmp_path / "b.jsonl").write_text('{"x": 9007199254740993.0}\n')
    with pytest.raises(InputError, match=r"b.jsonl, line 1: 9007199254740992.0 may have been rounded"):
        read(tmp_path / "b.jsonl", signature(x=("int64", ())))


def test_an_image_for_a_model_that_takes_another_scale(tmp_path):
    Image.fromarray(np.full((8, 8), 26, np.uint8)).save(tmp_path / "a.png")
    with pytest.raises(InputError, match=r"pixels from 0 to 255, but the model takes image as float32, .*: use .npy"):
        read(tmp_path / "a.png", signature(image=("float32", (8, 8, 1))))


@pytest.mark.parametrize("row", ['{"x": [true, 0.5]}', '{"x": [true, false]}'])
def test_true_is_no_number(tmp_path, row):
    (tmp_path / "a.jsonl").write_text(f'{{"x": [1, 0.5]}}\n{row}\n')
    with pytest.raises(InputError, match=r"a.jsonl, line 2: true and false are not float32 values"):
        read(tmp_path / "a.jsonl", POINT)
