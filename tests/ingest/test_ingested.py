"""A dataset of another project, taken over with its splits, types and bytes."""

from pathlib import Path

import datasets
import numpy as np
import pytest

from tapeline.config.ingest import IngestedSource
from tapeline.dataset.columns import Dataset
from tapeline.ingest.stage import ingest
from tapeline.runtime.errors import InputError


def take(folder: Path, **settings: object) -> Dataset:
    asked = IngestedSource(source="dataset", needs="../first/blobs", **settings)
    out = folder / "second" / "data" / "blobs"
    (folder / "second").mkdir(exist_ok=True)
    ingest("blobs", asked, project=folder / "second", out=out, work=folder / "work")
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
    from tapeline.config.ingest import TableSource

    (tmp_path / "points.csv").write_text("a,b,y,split\n" + "".join(f"{n},{n + 1},{n % 2},train\n" for n in range(4)))
    asked = TableSource(source="table", needs="points.csv", features={"x": ("a", "b"), "y": "y"}, split="split")
    ingest("blobs", asked, project=tmp_path, out=tmp_path / "first" / "blobs", work=tmp_path / "work")
    assert take(tmp_path, columns=("x",)).index["source"]["columns"] == {"x": ["a", "b"]}
