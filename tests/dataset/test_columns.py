import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import psutil
import pytest

from tapeline.dataset.columns import Dataset, Feature, release
from tapeline.runtime import files
from tapeline.runtime.errors import InputError


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return datasets.blobs(tmp_path_factory.mktemp("data") / "blobs")


@pytest.fixture
def folder(original: Dataset, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original.folder, tmp_path / "blobs"))


def test_the_index_is_read(original: Dataset) -> None:
    assert original.name == "blobs"
    assert set(original.splits) == {"train", "val", "test"}
    assert original.features == {
        "image": Feature((8, 8, 1), "uint8"),
        "label": Feature((), "int64", ("0", "1", "2")),
    }
    assert [original.examples(split) for split in ("train", "val", "test")] == [100, 23, 31]
    assert original.features is original.features, "built for each column, `columns` took 7 s for 2000"
    assert original.nbytes("val") == 2 * 128 + 23 * (64 + 8)
    assert original.path("val", "label") == original.folder / "val" / "label.npy"


def test_a_column_is_mapped_not_read_and_cannot_be_changed(original: Dataset) -> None:
    column = original.column("train", "image")
    assert isinstance(column, np.memmap)
    assert column.shape == (100, 8, 8, 1)
    assert np.array_equal(column, np.load(original.folder / "train" / "image.npy"))
    with pytest.raises(ValueError, match="read-only"):
        column[0] = 0


def test_bytes_that_are_as_written_verify(original: Dataset) -> None:
    original.verify()


def test_the_fingerprint_follows_the_data(folder: Path, original: Dataset) -> None:
    assert Dataset.open(folder).fingerprint() == original.fingerprint()
    index = json.loads((folder / "dataset.json").read_bytes())
    index["splits"]["train"]["columns"]["image"]["sha256"] = "0" * 64
    files.write_json(folder / "dataset.json", index)
    assert Dataset.open(folder).fingerprint() != original.fingerprint()


def one_line_with_remedy(error: InputError) -> bool:
    return len(str(error).splitlines()) == 1 and str(error).endswith("run `tapeline ingest blobs`")


def missing_folder(folder: Path) -> None:
    shutil.rmtree(folder)


def missing_index(folder: Path) -> None:
    (folder / "dataset.json").unlink()


def cut_index(folder: Path) -> None:
    path = folder / "dataset.json"
    path.write_bytes(path.read_bytes()[:-20])


def binary_index(folder: Path) -> None:
    (folder / "dataset.json").write_bytes(b"\xff\xfe\x00")


def other_index(folder: Path) -> None:
    (folder / "dataset.json").write_text("[]")


def index_without(*keys: str) -> Callable[[Path], None]:
    def alter(folder: Path) -> None:
        index = json.loads((folder / "dataset.json").read_bytes())
        inner = index
        for key in keys[:-1]:
            inner = inner[key]
        del inner[keys[-1]]
        files.write_json(folder / "dataset.json", index)

    alter.__name__ = "index_without_" + "_".join(keys)
    return alter


def missing_column(folder: Path) -> None:
    (folder / "train" / "image.npy").unlink()


def cut_column(folder: Path) -> None:
    path = folder / "train" / "image.npy"
    path.write_bytes(path.read_bytes()[:-1])


def empty_column(folder: Path) -> None:
    (folder / "test" / "label.npy").write_bytes(b"")


def longer_column(folder: Path) -> None:
    with (folder / "val" / "image.npy").open("ab") as file:
        file.write(b"\0")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (missing_folder, "dataset.json is missing: "),
        (missing_index, "dataset.json is missing: "),
        (cut_index, "dataset.json is not JSON, so it was truncated or altered: "),
        (binary_index, "dataset.json is not JSON, so it was truncated or altered: "),
        (other_index, "dataset.json is not an index of columns, so it was altered: "),
        (index_without("features"), "dataset.json is not an index of columns, so it was altered: "),
        (index_without("splits"), "dataset.json is not an index of columns, so it was altered: "),
        (index_without("features", "image", "shape"), "dataset.json is not an index of columns, so it was altered: "),
        (index_without("name"), "dataset.json is not an index of columns, so it was altered: "),
        (index_without("splits", "val", "examples"), "dataset.json is not an index of columns, so it was altered: "),
        (index_without("splits", "train", "columns", "image", "sha256"), "so it was altered: "),
        (index_without("splits", "val", "columns"), "dataset.json is not an index of columns, so it was altered: "),
        (missing_column, "train/image.npy is missing: "),
        (cut_column, "train/image.npy has 6527 bytes, but dataset.json says 6528: "),
        (empty_column, "test/label.npy has 0 bytes, but dataset.json says 376: "),
        (longer_column, "val/image.npy has 1601 bytes, but dataset.json says 1600: "),
    ],
)
def test_what_cannot_be_opened_is_named_with_the_remedy(
    folder: Path, damage: Callable[[Path], None], message: str
) -> None:
    damage(folder)
    with pytest.raises(InputError, match=re.escape(message)) as found:
        Dataset.open(folder)
    assert one_line_with_remedy(found.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros((10, 640), np.uint8), "holds uint8(10, 640), but dataset.json says uint8(100, 8, 8, 1): "),
        (np.zeros((100, 8, 8, 1), np.int8), "holds int8(100, 8, 8, 1), but dataset.json says uint8(100, 8, 8, 1): "),
    ],
)
def test_a_column_of_another_kind_is_refused(folder: Path, values: np.ndarray[Any, Any], message: str) -> None:
    np.save(folder / "train" / "image.npy", values)
    dataset = Dataset.open(folder)
    with pytest.raises(InputError, match=re.escape(message)) as found:
        dataset.column("train", "image")
    assert one_line_with_remedy(found.value)


def test_a_column_that_is_no_array_is_refused(folder: Path) -> None:
    path = folder / "train" / "image.npy"
    path.write_bytes(b"\0" * path.stat().st_size)
    with pytest.raises(InputError, match=r"train/image.npy is not an .npy array \(") as found:
        Dataset.open(folder).column("train", "image")
    assert one_line_with_remedy(found.value)


def test_one_altered_byte_is_found(folder: Path) -> None:
    path = folder / "val" / "image.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    dataset = Dataset.open(folder)
    with pytest.raises(InputError, match=r"val/image.npy was altered: its SHA-256 does not match") as found:
        dataset.verify()
    assert one_line_with_remedy(found.value)


@pytest.mark.parametrize(
    ("split", "feature", "message"),
    [
        ("valid", "image", "dataset 'blobs' has no split 'valid': it has "),
        ("val", "picture", "dataset 'blobs' has no feature 'picture': it has image, label"),
    ],
)
def test_what_is_not_there_is_answered_with_what_is(original: Dataset, split: str, feature: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)) as found:
        original.column(split, feature)
    assert len(str(found.value).splitlines()) == 1


def test_released_pages_count_no_longer_and_are_read_again(tmp_path: Path) -> None:
    np.save(tmp_path / "column.npy", np.arange(8 << 20, dtype=np.int64))
    column = np.load(tmp_path / "column.npy", mmap_mode="r")
    total, resident = int(column.sum()), psutil.Process().memory_info().rss
    release(column)
    assert resident - psutil.Process().memory_info().rss > 32 << 20, "of 64 MiB"
    assert int(column.sum()) == total
