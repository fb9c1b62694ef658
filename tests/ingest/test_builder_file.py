import errno
import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from disks import files_of_at_most

from tapeline.dataset.columns import Dataset
from tapeline.runtime.errors import InputError

BUILDER = """
import numpy as np
import tensorflow_datasets as tfds


class Own(tfds.core.GeneratorBasedBuilder):
    VERSION = tfds.core.Version("1.2.3")

    def _info(self):
        features = tfds.features.FeaturesDict(FEATURES)
        return tfds.core.DatasetInfo(builder=self, features=features, disable_shuffling=True)

    def _split_generators(self, dl_manager):
        SPLITS

    def _generate_examples(self, values):
        for key, value in enumerate(values):
            yield EXAMPLE
"""
PICTURES = f"""{BUILDER}
def png(size, count=None):
    import io
    from PIL import Image
    file = io.BytesIO()
    Image.new("RGB", (size, size)).save(file, "PNG")
    return io.BytesIO(file.getvalue()[:count])
"""
IMAGE = '{"x": tfds.features.Image(shape=(2, 2, 3))}'
ONE = {
    "FEATURES": '{"x": tfds.features.Scalar(np.int32)}',
    "SPLITS": 'return {"train": self._generate_examples(range(5))}',
    "EXAMPLE": 'key, {"x": value}',
}
SETTINGS: dict[str, Any] = {"source": "builder", "needs": "own.py"}
Ingested = Callable[..., Path]
Refused = Callable[[dict[str, Any], str], None]


def write(project: Path, source: str = BUILDER, **parts: str) -> Path:
    for name, text in {**ONE, **parts}.items():
        source = source.replace(name, text)
    (project / "own.py").write_text(source)
    return project / "own.py"


def test_nested_features_become_columns_in_the_order_of_generation(project: Path, ingested: Ingested) -> None:
    features = """{
        "state": {
            "position": tfds.features.Tensor(shape=(2,), dtype=np.float32),
            "done": tfds.features.Scalar(np.bool_),
        },
        "label": tfds.features.ClassLabel(names=["left", "right"]),
        "note": tfds.features.Text(),
    }"""
    example = 'key, {"state": {"position": [value, -value], "done": value > 6}, "label": value % 2, "note": "free"}'
    splits = 'return {"train": self._generate_examples(range(8)), "validation": self._generate_examples([9])}'
    write(project, FEATURES=features, EXAMPLE=example, SPLITS=splits)
    dataset = Dataset.open(ingested({**SETTINGS, "columns": ["state/position", "state/done", "label"]}))
    assert dataset.splits == ("train", "val")
    assert np.array_equal(dataset.column("train", "state/position"), [[value, -value] for value in range(8)])
    assert dataset.column("train", "state/done").tolist() == [False] * 7 + [True]
    assert dataset.features["label"].classes == ("left", "right")
    assert dataset.column("val", "label").tolist() == [1]
    assert dataset.index["source"] == {"kind": "builder", "name": "own", "version": "1.2.3"}


def test_a_changed_file_of_the_same_version_is_read_anew(project: Path, ingested: Ingested) -> None:
    write(project)
    assert Dataset.open(ingested(SETTINGS)).column("train", "x").tolist() == [0, 1, 2, 3, 4]
    write(project, EXAMPLE='key, {"x": 10 * value}')
    assert Dataset.open(ingested(SETTINGS)).column("train", "x").tolist() == [0, 10, 20, 30, 40]


def test_a_comment_makes_no_other_dataset(
    project: Path, ingested: Ingested, hashes: Callable[[Path], dict[str, str]]
) -> None:
    path = write(project)
    before = hashes(ingested(SETTINGS))
    path.write_text(path.read_text() + "# of no importance\n")
    assert hashes(ingested(SETTINGS)) == before


def test_nothing_is_left_beside_the_file_nor_said_by_tfds(
    project: Path, tmp_path: Path, ingested: Ingested, capfd: pytest.CaptureFixture[str]
) -> None:
    write(project)
    ingested(SETTINGS)
    assert sorted(path.name for path in project.iterdir()) == ["data", "own.py"]
    assert not (tmp_path / "work" / "tfds" / "passing").exists()
    told = capfd.readouterr()
    assert told.err == ""
    assert told.out.splitlines() == [
        "set: reading own.py (source: builder)",
        "set: train 5 examples of x (int32)",
        "set: written to data/set",
    ]


def test_the_template_of_tfds_is_named_after_its_file(project: Path, ingested: Ingested) -> None:
    path = write(project, BUILDER.replace("class Own", "class Builder"))
    path.rename(project / "mine_dataset_builder.py")
    dataset = Dataset.open(ingested({**SETTINGS, "needs": "mine_dataset_builder.py"}))
    assert dataset.index["source"]["name"] == "mine"


def test_what_is_added_anywhere_moves_no_example_of_before(project: Path, ingested: Ingested) -> None:
    sides: list[dict[str, set[int]]] = []
    for values, shuffled in (
        ("range(2500)", False),
        ("[*range(9000, 9025), *range(2500), 7]", False),
        ("range(2600)", True),
    ):
        source = BUILDER.replace(", disable_shuffling=True", "") if shuffled else BUILDER
        write(project, source, SPLITS=f'return {{"train": self._generate_examples({values})}}')
        dataset = Dataset.open(ingested({**SETTINGS, "validation": 0.25}))
        sides.append({split: set(dataset.column(split, "x").tolist()) for split in ("train", "val")})
    first, *others = sides
    assert len(first["val"]) == pytest.approx(625, abs=75)
    for later in others:
        assert first["train"] <= later["train"] and first["val"] <= later["val"]
        assert not later["train"] & later["val"], "the 7 that is there twice is on one side"


def test_what_a_killed_ingest_prepared_is_not_reused(project: Path, ingested: Ingested, tmp_path: Path) -> None:
    write(project)
    folder = tmp_path / "work" / "tfds" / "passing"
    (folder / "own" / "1.2.3").mkdir(parents=True)
    (folder / "own" / "1.2.3" / "dataset_info.json").write_text("{")
    assert Dataset.open(ingested(SETTINGS)).column("train", "x").tolist() == [0, 1, 2, 3, 4]


DOWNLOAD = """path = dl_manager.download("http://127.0.0.1:9/values.txt")
        return {"train": self._generate_examples(map(int, path.read_text().split()))}"""


def test_a_download_without_a_network_says_how_to_bring_files(project: Path, refused: Refused, tmp_path: Path) -> None:
    write(project, SPLITS=DOWNLOAD)
    refused(
        SETTINGS,
        "own is not on this machine and 127.0.0.1 cannot be reached (ConnectionError): "
        f"copy {tmp_path / 'work' / 'tfds' / 'downloads'} from a machine that has them, or add the files "
        "with `dvc add` and have the builder read them from there",
    )


def test_a_file_that_was_brought_by_hand_needs_no_network(project: Path, ingested: Ingested, tmp_path: Path) -> None:
    write(project, SPLITS=DOWNLOAD)
    content = b"7 8 9"
    record = f"http://127.0.0.1:9/values.txt\t{len(content)}\t{hashlib.sha256(content).hexdigest()}\tvalues.txt\n"
    (project / "checksums.tsv").write_text(record)
    manual = tmp_path / "work" / "tfds" / "downloads" / "manual"
    manual.mkdir(parents=True)
    (manual / "values.txt").write_bytes(content)
    assert Dataset.open(ingested(SETTINGS)).column("train", "x").tolist() == [7, 8, 9]


@pytest.mark.parametrize(
    ("source", "parts", "message"),
    [
        ("def f(:\n", {}, "own.py, line 1: invalid syntax"),
        ("x = 1\nimport nowhere_to_be_found\n", {}, "own.py, line 2: ModuleNotFoundError: No module named 'nowhere_to"),
        ("import sys\nsys.exit(0)\n", {}, "own.py, line 2: SystemExit: 0"),
        ("x = 1\n", {}, "own.py must define exactly one tfds.core.GeneratorBasedBuilder, but defines none"),
        (BUILDER + BUILDER.replace("Own", "Other"), {}, "GeneratorBasedBuilder, but defines Own, Other"),
        (BUILDER, {"EXAMPLE": 'key, {"x": 1 // (2 - value)}'}, "own.py, line 18: ZeroDivisionError: integer"),
        (BUILDER, {"EXAMPLE": '1, {"x": value}'}, "Two examples share the same hashed key!"),
        (BUILDER, {"EXAMPLE": 'key, {"x": "one"}'}, "own.py"),
        (BUILDER, {"EXAMPLE": 'key, {"z": value}'}, "own.py"),
        (BUILDER, {"SPLITS": 'return {"train": []}'}, "own.py"),
        (
            BUILDER,
            {"SPLITS": 'return {"big": self._generate_examples([1])}'},
            "builder own has a split 'big': name splits train, val (or validation) and test",
        ),
        (
            BUILDER,
            {"SPLITS": 'return {name: self._generate_examples([1]) for name in ("train", "val", "validation")}'},
            "builder own has a split 'val' and a split 'validation', which are one: merge them",
        ),
        (
            BUILDER,
            {"FEATURES": '{"x": tfds.features.ClassLabel(num_classes=4)}', "EXAMPLE": 'key, {"x": value - 1}'},
            "feature 'x' is -1 in train example 0: a label must be a class id from 0 to 3; fix it, or leave out",
        ),
        (
            BUILDER,
            {"FEATURES": '{"x": tfds.features.Scalar(np.float32)}', "EXAMPLE": 'key, {"x": np.nan if key == 3 else 1}'},
            "feature 'x' is nan in train example 3: a feature must be finite as float32; fix it, or leave out",
        ),
        (
            BUILDER,
            {"FEATURES": '{"x": tfds.features.Text()}', "EXAMPLE": 'key, {"x": "a"}'},
            "feature 'x' is text; a column needs numbers of one fixed shape: leave it out by `columns`",
        ),
        (
            BUILDER,
            {"FEATURES": '{"x": tfds.features.Image()}', "EXAMPLE": 'key, {"x": np.zeros((2, 2, 3), np.uint8)}'},
            "feature 'x' has the shape (None, None, 3); a column needs one fixed shape",
        ),
        (
            PICTURES,
            {"FEATURES": IMAGE, "EXAMPLE": 'key, {"x": png(3 if key == 2 else 2)}'},
            "train example 2: feature 'x': its file is 3×3, and its feature 2×2: scale it first",
        ),
        (
            PICTURES,
            {"FEATURES": IMAGE, "EXAMPLE": 'key, {"x": png(2, 9 if key == 2 else None)}'},
            "train example 2: feature 'x': its file is not an image that can be decoded (cannot identify image file)",
        ),
        (
            PICTURES,
            {"FEATURES": IMAGE, "EXAMPLE": 'key, {"x": png(2, 50 if key == 2 else None)}'},
            "train example 2 in TFDS's order cannot be read: Invalid PNG",
        ),
        (
            BUILDER,
            {
                "FEATURES": '{"x": tfds.features.Scalar(np.int32), "y": tfds.features.Scalar(np.float32)}',
            },
            "KeyError: Failed to encode example: {'x': 0} 'y'",
        ),
        (
            BUILDER,
            {
                "FEATURES": '{"x": tfds.features.Sequence(tfds.features.Sequence(np.int32, length=3), length=2)}',
                "EXAMPLE": 'key, {"x": np.zeros((2, 3), np.int32)}',
            },
            "feature 'x' is a sequence of sequences, which TFDS cannot read back where their lengths are fixed: declare",
        ),
        (
            BUILDER,
            {
                "FEATURES": '{"x": tfds.features.Image(shape=(2, 2, 2))}',
                "EXAMPLE": 'key, {"x": np.zeros((2, 2, 2), np.uint8)}',
            },
            "train cannot be read: `channels` must be 0, 1, 3 or 4 but got 2",
        ),
        (
            PICTURES,
            {"FEATURES": IMAGE, "EXAMPLE": 'key, {"x": "no/such.png"}'},
            "own: an example names a file that does not exist: [Errno 2] No such file or directory: 'no/such.png'",
        ),
        (
            BUILDER,
            {"FEATURES": '{"x": tfds.features.Sequence(np.int32)}', "EXAMPLE": 'key, {"x": [1] * value}'},
            "feature 'x' has the shape (None,); a column needs one fixed shape",
        ),
    ],
)
def test_a_bad_builder_is_refused(
    project: Path, refused: Refused, source: str, parts: dict[str, str], message: str
) -> None:
    write(project, source, **parts)
    refused(SETTINGS, message)


FLOAT, LABEL = '{"x": tfds.features.Scalar(np.float32)}', '{"x": tfds.features.ClassLabel(names=["a", "b"])}'
KEYED = [
    (FLOAT, "np.nan", "feature 'x' is nan in train example 'row 2': a feature must be finite as float32; fix it, or"),
    (FLOAT, "1e39", "feature 'x' is 1e+39 in train example 'row 2': a feature must be finite as float32; fix it"),
    (FLOAT, "None", "feature 'x' is None in train example 'row 2': a feature must be finite as float32; fix it"),
    (
        '{"x": tfds.features.Sequence(np.float16, length=3)}',
        "[1, 1e6, 2] if value == 2 else [0] * 3",
        "feature 'x' is 1000000.0 in train example 'row 2': a feature must be finite as float16; fix it, or leave",
    ),
    (LABEL, "-1", "feature 'x' is -1 in train example 'row 2': a label must be a class id from 0 to 1; fix it, or"),
    (LABEL, "np.int64(2)", "feature 'x' is 2 in train example 'row 2': a label must be a class id from 0 to 1; fix"),
    (LABEL, "0.5", "feature 'x' is 0.5 in train example 'row 2': a label must be a class id from 0 to 1; fix it"),
    (LABEL, '"c"', "feature 'x' is 'c' in train example 'row 2': a label must be one of the classes, 2 (a, b); fix"),
    (LABEL, 'b"c"', "feature 'x' is 'c' in train example 'row 2': a label must be one of the classes, 2 (a, b); fix"),
    (
        IMAGE,
        "Image.new('RGB', (3, 4)) if value == 2 else Image.new('RGB', (2, 2))",
        "train example 'row 2': feature 'x' is 3×4, and its feature 2×2: scale it first",
    ),
]


@pytest.mark.parametrize(("feature", "value", "message"), KEYED)
def test_a_bad_value_is_named_by_its_key_although_tfds_shuffles(
    project: Path, refused: Refused, feature: str, value: str, message: str
) -> None:
    shuffled = BUILDER.replace(", disable_shuffling=True", "").replace(
        "import numpy", "from PIL import Image\nimport numpy"
    )
    given = value if " if " in value else f"{value} if value == 2 else 0"
    write(project, shuffled, FEATURES=feature, EXAMPLE=f'f"row {{key}}", {{"x": {given}}}')
    refused(SETTINGS, message)


def test_labels_and_floats_of_every_form_are_taken(project: Path, ingested: Ingested) -> None:
    features = """{
        "a": tfds.features.ClassLabel(names=["no", "yes"]),
        "b": tfds.features.ClassLabel(num_classes=5),
        "c": tfds.features.Tensor(shape=(2,), dtype=np.float32),
    }"""
    example = 'key, {"a": ("no", b"yes", 0, np.int8(1), 1.0)[value], "b": str(value), "c": [value, np.float64(0.5)]}'
    write(project, FEATURES=features, EXAMPLE=example)
    dataset = Dataset.open(ingested(SETTINGS))
    assert dataset.column("train", "a").tolist() == [0, 1, 0, 1, 1]
    assert dataset.column("train", "b").tolist() == [0, 1, 2, 3, 4]
    assert dataset.column("train", "c").tolist() == [[value, 0.5] for value in range(5)]


DEEP = f"""{BUILDER}
def deep(size):
    import struct, zlib
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">IIBBBBB", size, size, 16, 2, 0, 0, 0)
    rows = zlib.compress((b"\\0" + bytes(range(6)) * size) * size)
    return b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
def path(size):
    import pathlib
    file = pathlib.Path(__file__).with_name("deep.png")
    file.write_bytes(deep(size))
    return file
def opened(size):
    import io
    return io.BytesIO(deep(size))
def grey(size):
    from PIL import Image
    return Image.new("I;16", (size, size))
def hsv(size):
    from PIL import Image
    return Image.new("HSV", (size, size))
"""


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            "path(2)",
            "train example 1: feature 'x': deep.png has more than 8 bits a channel: save it with 8 bits a channel",
        ),
        ("str(path(2))", "deep.png has more than 8 bits a channel: save it with 8 bits a channel"),
        ("deep(2)", "its file has more than 8 bits a channel: save it with 8 bits a channel"),
        ("opened(2)", "its file has more than 8 bits a channel: save it with 8 bits a channel"),
        ("grey(2)", "feature 'x' has pixels of type I;16: give it with 8 bits a channel"),
        ("hsv(2)", "feature 'x' has pixels of type HSV: give it as RGB or grey"),
    ],
)
def test_an_image_that_tfds_would_cut_to_8_bits_is_refused(
    project: Path, refused: Refused, given: str, message: str
) -> None:
    example = f'key, {{"x": {given} if key == 1 else np.zeros((2, 2, 3), np.uint8)}}'
    write(project, DEEP, FEATURES=IMAGE, EXAMPLE=example)
    refused(SETTINGS, message)


@pytest.mark.parametrize(
    "feature", ["Sequence(tfds.features.Image(shape=(2, 2, 3)), length=2)", "Video(shape=(2, 2, 2, 3))"]
)
@pytest.mark.parametrize("images", ["[np.zeros((2, 2, 3), np.uint8), path(2)]", "np.array([str(path(2))] * 2)"])
def test_an_image_of_a_sequence_that_tfds_would_cut_is_refused(
    project: Path, refused: Refused, feature: str, images: str
) -> None:
    write(project, DEEP, FEATURES=f'{{"x": tfds.features.{feature}}}', EXAMPLE=f'key, {{"x": {images}}}')
    number = 0 if "np.array" in images else 1
    refused(SETTINGS, f"train example 0: feature 'x', image {number}: deep.png has more than 8 bits a channel")


def test_images_of_a_sequence_are_taken(project: Path, ingested: Ingested) -> None:
    feature = '{"x": tfds.features.Sequence(tfds.features.Image(shape=(2, 2, 3)), length=2)}'
    write(project, PICTURES, FEATURES=feature, EXAMPLE='key, {"x": [png(2), np.full((2, 2, 3), key, np.uint8)]}')
    assert Dataset.open(ingested(SETTINGS)).column("train", "x")[3, :, 0, 0, 0].tolist() == [0, 3]


MASKS = f"""{DEEP}
def picture(mode, palette=None):
    from PIL import Image
    numbers = np.array([[0, 1], [1, 0]], np.uint8)
    image = Image.fromarray(numbers * 255 if mode == "1" else numbers).convert(mode if mode != "P" else "L")
    if palette is not None:
        image.putpalette(palette)
    return image
def saved(*given, kind="PNG"):
    import io
    file = io.BytesIO()
    picture(*given).save(file, kind)
    return io.BytesIO(file.getvalue())
"""
COLOURS, SHADES, THE_SAME = "[0, 0, 0, 128, 0, 0]", "[0, 0, 0, 90, 90, 90]", "[0, 0, 0, 1, 1, 1]"
GREY = "tfds.features.Image(shape=(2, 2, 1))"
MASK = "tfds.features.LabeledImage(labels=2, shape=(2, 2, 1))"


@pytest.mark.parametrize(
    ("feature", "given", "message"),
    [
        (
            MASK,
            f'saved("P", {COLOURS})',
            "train example 0: feature 'x': its file is of Pillow's mode P, and TFDS would",
        ),
        (MASK, f'picture("P", {COLOURS})', "feature 'x' is of Pillow's mode P, and TFDS would store the brightness of"),
        (MASK, f'saved("P", {SHADES})', "its file is of Pillow's mode P, and TFDS would store the brightness of its"),
        (MASK, 'saved("1")', "its file is of Pillow's mode 1, and TFDS would store the brightness of its"),
        (MASK, "deep(2)", "its file has more than 8 bits a channel"),
        (GREY, f'saved("P", {COLOURS})', "its file is of Pillow's mode P, and TFDS would store the brightness of its"),
    ],
)
def test_numbers_that_tfds_would_replace_by_greys_are_refused(
    project: Path, refused: Refused, feature: str, given: str, message: str
) -> None:
    write(project, MASKS, FEATURES=f'{{"x": {feature}}}', EXAMPLE=f'key, {{"x": {given}}}')
    refused(SETTINGS, message)


@pytest.mark.parametrize(
    ("channels", "given", "message"),
    [
        (
            3,
            f'saved("P", {COLOURS}, kind="BMP")',
            "its file is a BMP with a palette, whose numbers TensorFlow takes for",
        ),
        (4, f'saved("P", {COLOURS})', "its file has less than 8 bits a channel, of which TensorFlow makes a nearly"),
        (4, 'saved("1")', "its file has less than 8 bits a channel, of which TensorFlow makes a nearly transparent"),
    ],
)
def test_a_file_that_tensorflow_takes_for_another_picture_is_refused(
    project: Path, refused: Refused, channels: int, given: str, message: str
) -> None:
    feature = f"tfds.features.Image(shape=(2, 2, {channels}))"
    write(project, MASKS, FEATURES=f'{{"x": {feature}}}', EXAMPLE=f'key, {{"x": {given}}}')
    refused(SETTINGS, message)


@pytest.mark.parametrize(
    ("feature", "given", "one"),
    [
        (MASK, 'saved("L")', 1),
        (MASK, f'saved("P", {THE_SAME})', 1),
        (MASK, 'saved("RGB")', 1),
        (GREY, f'saved("P", {SHADES})', 90),
        (GREY, 'saved("1")', 255),
    ],
)
def test_numbers_that_are_the_greys_of_an_image_are_taken(
    project: Path, ingested: Ingested, feature: str, given: str, one: int
) -> None:
    write(project, MASKS, FEATURES=f'{{"x": {feature}}}', EXAMPLE=f'key, {{"x": {given}}}')
    found = Dataset.open(ingested(SETTINGS)).column("train", "x")
    assert found[0, ..., 0].tolist() == [[0, one], [one, 0]]


def test_images_of_16_bits_are_kept_in_a_feature_of_16_bits(project: Path, ingested: Ingested) -> None:
    feature = '{"x": tfds.features.Image(shape=(2, 2, 3), dtype=np.uint16)}'
    write(project, DEEP, FEATURES=feature, EXAMPLE='key, {"x": path(2)}')
    assert Dataset.open(ingested(SETTINGS)).column("train", "x")[0, 0, 0].tolist() == [1, 2 * 256 + 3, 4 * 256 + 5]


@pytest.mark.parametrize(
    ("feature", "value", "message"),
    [
        (
            "Scalar(np.uint8)",
            "np.int64(297 + value)",
            "train example 0: feature 'x' has 297, which uint8 cannot hold",
        ),
        (
            "Scalar(np.uint8)",
            "np.int64(253 + value)",
            "train example 3: feature 'x' has 256, which uint8 cannot hold",
        ),
        ("Scalar(np.int8)", "3.7 if value == 2 else 3.0", "train example 2: feature 'x' has 3.7, which int8 cannot"),
        (
            "Scalar(np.int64)",
            "np.nan",
            "train example 0: feature 'x' has nan, which int64 cannot hold: declare a type",
        ),
        ("Scalar(np.bool_)", "value", "train example 2: feature 'x' has 2, which bool cannot hold"),
        ("Tensor(shape=(2,), dtype=np.uint8)", "[1, np.int32(-value)]", "train example 1: feature 'x' has -1, which"),
        ("Sequence(np.int8, length=2)", "[1, np.int32(126 + value)]", "train example 2: feature 'x' has 128, which"),
        (
            'Sequence(tfds.features.ClassLabel(names=["a", "b"]), length=2)',
            "[0.5, 1]",
            "train example 0: feature 'x' has 0.5, which int64 cannot hold",
        ),
        ("Audio(shape=(2,))", "[0.5, 1.0]", "train example 0: feature 'x' has 0.5, which int64 cannot hold"),
        (
            "Audio(shape=(2,), dtype=np.int16)",
            "np.array([1, 2**15 - 2 + value])",
            "train example 2: feature 'x' has 32768, which int16 cannot hold",
        ),
        (
            "Scalar(np.float32)",
            "2**24 + value",
            "train example 1: feature 'x' has 16777217, which would become 16777216 as float32: declare an integer "
            "type",
        ),
        (
            "Tensor(shape=(2,), dtype=np.float16)",
            "[1, np.int64(2048 + value)]",
            "train example 1: feature 'x' has 2049, which would become 2048 as float16",
        ),
        (
            "Scalar(np.float32)",
            "str(123456789 + value)",
            "train example 0: feature 'x' has 123456789, which would become 123456792 as float32: declare an integer "
            "type",
        ),
        (
            "Tensor(shape=(2,), dtype=np.float32)",
            "[b'0.5', b'16777217']",
            "train example 0: feature 'x' has 16777217, which would become 16777216 as float32: declare an integer",
        ),
        *(
            (
                "Scalar(np.float32)",
                given,
                "test example 1: feature 'x' has 1700000001.0, which would become 1700000000 as float32, and no value "
                "has a fraction: declare an integer type, or give smaller units",
            )
            for given in ("float(1_700_000_000 + value)", "f'{1_700_000_000 + value}.0'")
        ),
    ],
)
def test_an_integer_that_tfds_would_wrap_is_refused(
    project: Path, refused: Refused, feature: str, value: str, message: str
) -> None:
    splits = 'return {"test": self._generate_examples(range(5)), "train": self._generate_examples(range(5))}'
    splits = splits if message.startswith("test") else ONE["SPLITS"]
    write(project, FEATURES=f'{{"x": tfds.features.{feature}}}', SPLITS=splits, EXAMPLE=f'key, {{"x": {value}}}')
    refused(SETTINGS, message)


@pytest.mark.parametrize("measured", ["0.5", "1e30", "np.float32(0.5)", "'0.5'"])
def test_one_fraction_tells_that_floats_of_a_feature_are_measured(
    project: Path, ingested: Ingested, measured: str
) -> None:
    splits = 'return {"test": self._generate_examples([1]), "train": self._generate_examples(range(5))}'
    example = f'key, {{"x": {measured} if value == 4 else 1.7e9 + value}}'
    write(project, FEATURES=FLOAT, SPLITS=splits, EXAMPLE=example)
    assert Dataset.open(ingested(SETTINGS)).column("test", "x").tolist() == [1.7e9]


def test_the_older_form_of_split_generators_is_checked_too(project: Path, ingested: Ingested, refused: Refused) -> None:
    splits = 'return [tfds.core.SplitGenerator(name="train", gen_kwargs={"values": range(5)})]'
    kind = '{"x": tfds.features.Scalar(np.uint8)}'
    write(project, FEATURES=kind, SPLITS=splits, EXAMPLE='key, {"x": np.int64(253 + value)}')
    refused(SETTINGS, "train example 3: feature 'x' has 256, which uint8 cannot hold")
    write(project, FEATURES=kind, SPLITS=splits)
    assert Dataset.open(ingested(SETTINGS)).column("train", "x").tolist() == [0, 1, 2, 3, 4]


def test_integers_of_any_type_are_taken_that_their_feature_holds(project: Path, ingested: Ingested) -> None:
    features = """{
        "x": {"a": tfds.features.Scalar(np.uint8), "b": tfds.features.Tensor(shape=(2,), dtype=np.uint64)},
        "of none": tfds.features.Scalar(np.uint8),
    }"""
    example = 'key, {"x": {"a": np.float64(251 + value), "b": [value, 2**64 - 1]}, "of none": np.int64(300)}'
    write(project, FEATURES=features, EXAMPLE=example)
    dataset = Dataset.open(ingested({**SETTINGS, "columns": ["x/a", "x/b"]}))
    assert dataset.column("train", "x/a").tolist() == [251, 252, 253, 254, 255]
    assert dataset.column("train", "x/b").tolist() == [[value, 2**64 - 1] for value in range(5)]


@pytest.mark.parametrize(
    "feature", ["Scalar(np.float64)", "Tensor(shape=(), dtype=np.float64)", "Sequence(np.float64, length=1)"]
)
def test_float64_that_tfds_would_round_is_refused(
    project: Path, refused: Refused, tmp_path: Path, feature: str
) -> None:
    begun = tmp_path / "begun"
    write(project, FEATURES=f'{{"x": tfds.features.{feature}}}', SPLITS=f'open({str(begun)!r}, "w").close()')
    refused(
        SETTINGS,
        "feature 'x' is float64, and TFDS stores float64 as float32: declare float32, or a tfds.features.Tensor with "
        "`encoding=tfds.features.Encoding.BYTES`",
    )
    assert not begun.exists()


@pytest.mark.parametrize(("encoding", "shape"), [("BYTES", "()"), ("ZLIB", "(2,)")])
def test_float64_is_kept_in_bytes(project: Path, ingested: Ingested, encoding: str, shape: str) -> None:
    feature = f"tfds.features.Tensor(shape={shape}, dtype=np.float64, encoding=tfds.features.Encoding.{encoding})"
    write(project, FEATURES=f'{{"x": {feature}}}', EXAMPLE=f'key, {{"x": np.full({shape}, value / 3)}}')
    found = Dataset.open(ingested(SETTINGS)).column("train", "x")
    assert found.dtype == np.float64 and found.reshape(5, -1)[:, 0].tolist() == [value / 3 for value in range(5)]


def test_a_float64_whose_square_is_too_large_is_refused(project: Path, refused: Refused) -> None:
    feature = "tfds.features.Tensor(shape=(), dtype=np.float64, encoding=tfds.features.Encoding.BYTES)"
    write(project, FEATURES=f'{{"x": {feature}}}', EXAMPLE='key, {"x": 10.0 ** (100 * value)}')
    refused(
        SETTINGS, "feature 'x' is 1e+200 in train example 2: a feature must be finite as float64, and between -1e+150"
    )


def test_an_unknown_column_is_refused(project: Path, refused: Refused) -> None:
    write(project)
    refused({**SETTINGS, "columns": ["y"]}, "TFDS dataset own has no feature 'y', which `columns` lists: it has x")


READING = {
    "SPLITS": "import pathlib; rows = (pathlib.Path(__file__).parent / 'rows.csv').read_text().split(); "
    'return {"train": self._generate_examples(map(int, rows))}'
}


@pytest.mark.parametrize(
    ("name", "others"),
    [("any.py", []), ("own.py", ["parts.py"]), ("own_dataset_builder.py", ["own.py", "__init__.py"])],
)
def test_a_folder_holds_a_builder_and_what_it_reads(
    project: Path, ingested: Ingested, refused: Refused, name: str, others: list[str]
) -> None:
    source = write(project, **READING)
    (project / "own").mkdir()
    source.rename(project / "own" / name)
    for other in others:
        (project / "own" / other).touch()
    (project / "own" / "rows.csv").write_text("3\n4\n")
    assert Dataset.open(ingested({**SETTINGS, "needs": "own"})).column("train", "x").tolist() == [3, 4]


@pytest.mark.parametrize(
    ("names", "has"),
    [([], "has no Python file"), (["a.py", "b.py"], "has a.py, b.py"), (["rows.csv"], "has no Python")],
)
def test_a_folder_without_its_builder(project: Path, refused: Refused, names: list[str], has: str) -> None:
    (project / "own").mkdir()
    for name in names:
        (project / "own" / name).touch()
    refused({**SETTINGS, "needs": "own"}, f"own {has}")


def test_a_file_that_is_no_python_is_refused(project: Path, refused: Refused) -> None:
    write(project).rename(project / "own.txt")
    refused({**SETTINGS, "needs": "own.txt"}, "own.txt is not a builder: give a Python file with one tfds.core.")


def test_a_builder_is_not_left_in_the_catalogue(project: Path, ingested: Ingested) -> None:
    write(project)
    ingested(SETTINGS)
    assert "own" not in sys.modules["tensorflow_datasets"].list_builders(with_community_datasets=False)


def test_a_full_disk_is_no_mistake_of_the_builder(project: Path, ingested: Ingested) -> None:
    write(project, SPLITS='__import__("pathlib").Path("/dev/full").write_bytes(b"x")')
    with pytest.raises(OSError, match="No space left on device") as caught:
        ingested(SETTINGS)
    assert caught.value.errno == errno.ENOSPC
    assert not isinstance(caught.value, InputError)


def test_a_file_larger_than_the_disk_allows_is_no_mistake_of_the_builder(project: Path, ingested: Ingested) -> None:
    large = str(project / "large")
    write(project, SPLITS=f'__import__("pathlib").Path({large!r}).write_bytes(bytes(200_000))')
    with files_of_at_most(100_000), pytest.raises(OSError, match="File too large") as caught:
        ingested(SETTINGS)
    assert caught.value.errno == errno.EFBIG


def test_an_unusable_type_is_told_before_anything_is_prepared(project: Path, refused: Refused, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    parts = {"FEATURES": '{"x": tfds.features.Text()}', "SPLITS": f'open({str(begun)!r}, "w").close()'}
    write(project, **parts)
    refused(SETTINGS, "feature 'x' is text; a column needs numbers of one fixed shape")
    assert not begun.exists()
