import doctest
import hashlib

import numpy as np
import pytest

from tapeline.dataset.columns import Feature
from tapeline.ingest import split
from tapeline.ingest.source import Examples
from tapeline.ingest.split import contents, cut, held_out

KEYS = [f"train/cat/{number}.png" for number in range(2000)]

FEATURES = {"x": Feature((), "int64")}


def examples(split: str, keys: list[str]) -> Examples:
    return Examples(split, keys, {"x": np.arange(len(keys))})


def test_the_example_in_the_docstring_is_true() -> None:
    assert doctest.testmod(split) == (0, 1)


def test_the_rule_is_the_keys_sha256_as_a_fraction() -> None:
    fractions = [int(hashlib.sha256(key.encode()).hexdigest(), 16) / 2**256 for key in KEYS]
    assert held_out(KEYS, 0.3).tolist() == [fraction < 0.3 for fraction in fractions]


def test_a_key_stays_on_its_side_under_any_order_and_in_any_company() -> None:
    order = np.random.default_rng(0).permutation(len(KEYS))
    shuffled = [KEYS[place] for place in order]
    assert np.array_equal(held_out(shuffled, 0.2), held_out(KEYS, 0.2)[order])
    assert np.array_equal(held_out(KEYS[::7], 0.2), held_out(KEYS, 0.2)[::7])


def test_a_larger_fraction_only_adds() -> None:
    assert not (held_out(KEYS, 0.1) & ~held_out(KEYS, 0.2)).any()


@pytest.mark.parametrize("fraction", [0.1, 0.5])
def test_the_cut_has_about_the_size_that_was_asked_for(fraction: float) -> None:
    assert held_out(KEYS, fraction).mean() == pytest.approx(fraction, abs=0.03)


def test_the_cut_keeps_order_and_loses_nothing() -> None:
    train, val = cut(examples("train", KEYS), 0.25, FEATURES)
    assert (train.split, val.split) == ("train", "val")
    assert sorted([*train.columns["x"], *val.columns["x"]]) == list(range(len(KEYS)))
    assert np.all(np.diff(train.columns["x"]) > 0)
    assert [KEYS[place] for place in val.columns["x"]] == val.keys


@pytest.mark.parametrize("name", ["val", "test"])
def test_only_train_is_cut(name: str) -> None:
    whole = examples(name, KEYS)
    assert list(cut(whole, 0.5, FEATURES)) == [whole]
    assert [part.keys for part in cut(examples("train", KEYS), 0.0, FEATURES)] == [KEYS]


CLASSES = ("bat", "cat")
TYPES = {"image": Feature((2, 2), "uint8"), "label": Feature((), "int64", CLASSES)}
COLUMNS = {"image": np.arange(400, dtype=np.uint8).reshape(100, 2, 2), "label": np.arange(100) % 2}


def test_without_keys_the_content_decides_and_copies_are_on_one_side() -> None:
    twice = {name: np.concatenate([values, values[::-1]]) for name, values in COLUMNS.items()}
    keys = contents(twice, TYPES)
    assert keys[:100] == keys[:99:-1] and len(set(keys)) == 64, "uint8 begins anew after 256"
    train, val = cut(Examples("train", [str(place) for place in range(200)], twice, own_keys=False), 0.3, TYPES)
    sides = [
        {(row.tobytes(), label) for row, label in zip(*side.columns.values(), strict=True)} for side in (train, val)
    ]
    assert not sides[0] & sides[1] and all(sides)


def test_a_zero_is_a_zero_whatever_its_sign() -> None:
    """`round(-0.04, 1)` is -0.0, which equals 0.0 and has another bit."""
    types = {"x": Feature((2,), "float32")}
    rows = np.array([[1, -0.0], [1, 0.0], [-0.0, 2], [0.0, 2], [-1, 0.0]], np.float32)
    keys = contents({"x": rows}, types)
    assert keys[0] == keys[1] and keys[2] == keys[3] and len(set(keys)) == 3
    assert np.signbit(rows[0, 1]), "values are stored as they are"


def test_content_is_values_types_and_names_and_no_class_id() -> None:
    keys = contents(COLUMNS, TYPES)
    later = {**TYPES, "label": Feature((), "int64", ("ant", *CLASSES))}
    assert contents({**COLUMNS, "label": COLUMNS["label"] + 1}, later) == keys
    assert contents({**COLUMNS, "label": 1 - COLUMNS["label"]}, TYPES)[0] != keys[0]
    big = {**COLUMNS, "label": COLUMNS["label"].astype(">i8")}
    plain = {**TYPES, "label": Feature((), "int64")}
    assert contents(big, plain) == contents(COLUMNS, plain)
    renamed = {"picture": COLUMNS["image"], "label": COLUMNS["label"]}
    assert contents(renamed, {**TYPES, "picture": TYPES["image"]})[0] != keys[0]
