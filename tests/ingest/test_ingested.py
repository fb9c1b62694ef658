"""A dataset of another project, taken over with its splits, types and bytes."""

from pathlib import Path

import datasets
import numpy as np
import pytest
from PIL import Image

from tapeline.config.ingest import ImageFolderSource, IngestedSource, TableSource
from tapeline.dataset.columns import Dataset
from tapeline.ingest.stage import ingest
from tapeline.runtime.errors import InputError


def take(folder: Path, *, of: str = "first/blobs", to: str = "second", **settings: object) -> Dataset:
    asked = IngestedSource(source="dataset", needs=f"../{of}", **settings)
    out = folder / to / "data" / "blobs"
    (folder / to).mkdir(exist_ok=True)
    ingest("blobs", asked, project=folder / to, out=out, work=folder / "work")
    return Dataset.open(out)


def test_the_same_columns(tmp_path):
    first = datasets.blobs(tmp_path / "first" / "blobs")
    second = take(tmp_path)
    assert second.features == first.features
    for split in ("train", "val", "test"):
        for name in first.features:
            assert first.path(split, name).read_bytes() == second.path(split, name).read_bytes()
    assert second.index["source"] == {"kind": "dataset", "name": "blobs", "sha256": first.fingerprint()}


def test_chosen_columns(tmp_path):
    datasets.blobs(tmp_path / "first" / "blobs")
    assert list(take(tmp_path, columns=("image",)).features) == ["image"]


def test_altered_bytes_are_refused(tmp_path):
    first = datasets.blobs(tmp_path / "first" / "blobs")
    path = first.path("train", "label")
    labels = np.load(path)
    labels[0] += 1
    np.save(path, labels)
    with pytest.raises(InputError, match="label.npy was altered"):
        take(tmp_path)


def test_the_columns_of_a_table_are_taken_over(tmp_path):
    (tmp_path / "points.csv").write_text("a,b,y,split\n" + "".join(f"{n},{n + 1},{n % 2},train\n" for n in range(4)))
    asked = TableSource(source="table", needs="points.csv", features={"x": ("a", "b"), "y": "y"}, split="split")
    ingest("blobs", asked, project=tmp_path, out=tmp_path / "first" / "blobs", work=tmp_path / "work")
    assert take(tmp_path, columns=("x",)).index["source"]["columns"] == {"x": ["a", "b"]}


def test_rows_of_one_key_are_not_parted(tmp_path):
    (tmp_path / "groups.csv").write_text("x,g\n" + "".join(f"{n},g{n % 20}\n" for n in range(200)))
    asked = TableSource(source="table", needs="groups.csv", features={"x": "x"}, key="g", test=0.3)
    ingest("blobs", asked, project=tmp_path, out=tmp_path / "first" / "blobs", work=tmp_path / "work")
    assert take(tmp_path).splits == ("test", "train")
    for copied in ("first/blobs", "second/data/blobs"):
        with pytest.raises(
            InputError, match=r"rows with the same 'g' stay together, .* `validation: 0.3`: cut it where th"
        ):
            take(tmp_path, of=copied, to="third", validation=0.3)
    cut = asked.model_copy(update={"validation": 0.3})
    ingest("blobs", cut, project=tmp_path, out=tmp_path / "first" / "blobs", work=tmp_path / "work")
    with pytest.raises(InputError, match=r"has a val split, but `validation: 0.3` would cut another one: remove one"):
        take(tmp_path, validation=0.3)


def test_a_table_without_a_key_is_cut_by_content(tmp_path):
    (tmp_path / "points.csv").write_text("x\n" + "".join(f"{n}\n" for n in range(200)))
    asked = TableSource(source="table", needs="points.csv", features={"x": "x"})
    ingest("blobs", asked, project=tmp_path, out=tmp_path / "first" / "blobs", work=tmp_path / "work")
    assert take(tmp_path, validation=0.3).splits == ("train", "val")


def test_a_folder_of_images_stays_one(tmp_path):
    (tmp_path / "pictures/train/a").mkdir(parents=True)
    Image.new("RGB", (9, 8)).save(tmp_path / "pictures/train/a/1.png")
    asked = ImageFolderSource(source="images", needs="pictures", size=(4, 4))
    ingest("blobs", asked, project=tmp_path, out=tmp_path / "first" / "blobs", work=tmp_path / "work")
    assert take(tmp_path).index["source"]["made_of"] == "images"
    assert take(tmp_path, of="second/data/blobs", to="third").index["source"]["made_of"] == "images"
