"""The dataset `digits` is the array that scikit-learn documents, in its order and with its split."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from tapeline.dataset.columns import Dataset
from tapeline.ingest.split import contents, held_out


@pytest.fixture(scope="module")
def dataset(digits: Path) -> Dataset:
    return Dataset.open(digits)


def test_1797_images_of_ten_classes(dataset: Dataset) -> None:
    assert {split: dataset.examples(split) for split in dataset.splits} == {"test": 899, "train": 816, "val": 82}
    assert dataset.features["image"].shape == (8, 8, 1)
    assert dataset.features["image"].dtype == "uint8"
    assert dataset.features["label"].classes == tuple("0123456789")
    assert dataset.index["source"] == {"kind": "builder", "name": "optdigits", "version": "1.0.0"}


def test_the_last_899_are_the_test_split(dataset: Dataset) -> None:
    images, labels = load_digits().images, load_digits().target
    assert np.array_equal(dataset.column("test", "image")[..., 0], images[898:])
    assert np.array_equal(dataset.column("test", "label"), labels[898:])


def test_validation_is_cut_out_of_the_first_898_by_the_hash_of_an_example(dataset: Dataset) -> None:
    images, labels = load_digits().images[:898], load_digits().target[:898]
    columns = {"image": images.astype(np.uint8)[..., None], "label": labels.astype(np.int64)}
    moved = held_out(contents(columns, dataset.features), 0.1)
    for split, chosen in (("train", ~moved), ("val", moved)):
        assert np.array_equal(dataset.column(split, "image")[..., 0], images[chosen])
        assert np.array_equal(dataset.column(split, "label"), labels[chosen])


def test_the_bytes_are_the_recorded_ones(dataset: Dataset) -> None:
    dataset.verify()
