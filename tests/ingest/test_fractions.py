"""Fractions of a table: `test`, and `test` and `validation` of every stratum."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from tapeline.dataset.columns import Dataset
from tapeline.ingest.fractions import Fractions, Keys

SETTINGS: dict[str, Any] = {"source": "table", "needs": "t.csv", "features": {"x": "x"}}
Ingested = Callable[..., Path]
Refused = Callable[[dict[str, Any], str], None]


def splits(folder: Path) -> dict[str, list[float]]:
    dataset = Dataset.open(folder)
    return {split: dataset.column(split, "x").tolist() for split in dataset.splits}


def test_a_fraction_becomes_test_and_appended_rows_leave_it(project: Path, ingested: Ingested) -> None:
    found = []
    for count in (1000, 3000):
        (project / "t.csv").write_text("x\n" + "".join(f"{n}\n" for n in range(count)))
        found.append(splits(ingested({**SETTINGS, "test": 0.2, "validation": 0.25})))
    first, second = found
    assert sorted(itertools.chain(*second.values())) == list(range(3000))
    assert 0.17 < len(second["test"]) / 3000 < 0.23
    assert 0.22 < len(second["val"]) / (3000 - len(second["test"])) < 0.28
    for split, rows in first.items():
        assert rows == [row for row in second[split] if row < 1000]


@pytest.mark.parametrize(("test", "validation"), [(0.2, 0.25), (0.2, 0.0), (0.0, 0.25)])
def test_every_stratum_has_its_share(project: Path, ingested: Ingested, test: float, validation: float) -> None:
    strata = np.repeat(["often", "some", "rare"], [8000, 1000, 20])
    strata = strata[np.random.default_rng(0).permutation(len(strata))]
    (project / "t.csv").write_text("x,y\n" + "".join(f"{n},{name}\n" for n, name in enumerate(strata)))
    settings = {**SETTINGS, "test": test, "validation": validation, "stratify": "y"}
    found = splits(ingested(settings))
    assert sorted(itertools.chain(*found.values())) == list(range(len(strata)))
    for name, count in (("often", 8000), ("some", 1000), ("rare", 20)):
        held = {split: int(np.sum(strata[np.array(rows, int)] == name)) for split, rows in found.items()}
        tested = round(count * test)
        assert held.get("test", 0) == tested
        assert held.get("val", 0) == round((count - tested) * validation)


def test_a_larger_fraction_adds_to_a_smaller_one(project: Path, ingested: Ingested) -> None:
    (project / "t.csv").write_text("x,y\n" + "".join(f"{n},{n % 3}\n" for n in range(300)))
    tests = [set(splits(ingested({**SETTINGS, "test": share, "stratify": "y"}))["test"]) for share in (0.1, 0.3)]
    assert tests[0] < tests[1]


def test_copies_of_a_row_are_on_one_side_of_a_stratified_cut(project: Path, ingested: Ingested) -> None:
    rows = [f"{n % 50},{n % 2}\n" for n in range(200)]
    settings = {**SETTINGS, "test": 0.3, "validation": 0.3, "stratify": "y"}
    found = []
    for order in (rows, [rows[n] for n in np.random.default_rng(0).permutation(len(rows))]):
        (project / "t.csv").write_text("x,y\n" + "".join(order))
        found.append({split: sorted(values) for split, values in splits(ingested(settings)).items()})
    assert found[0] == found[1], "no row's place in the table decides"
    sides = [set(values) for values in found[0].values()]
    assert sum(map(len, sides)) == 50
    assert {split: len(values) for split, values in found[0].items()} == {"train": 104, "val": 40, "test": 56}


@pytest.mark.parametrize(("share", "tested"), [(0.29, 28), (0.31, 32), (0.01, 0)])
def test_copies_are_taken_or_left_by_what_is_nearer(share: float, tested: int) -> None:
    keys = Keys()
    keys.add([f"{n % 25}" for n in range(100)])
    cut = Fractions(test=share, validation=0.0, strata=np.zeros(100, np.int64), keys=keys)
    assert np.count_nonzero(cut.places(range(100), [])) == tested


def test_rows_of_one_key_are_test_together(project: Path, ingested: Ingested) -> None:
    lines = [f"{n},p{n // 10}\n" for n in range(600)]
    found = []
    for order in (lines, lines[::-1]):
        (project / "t.csv").write_text("x,who\n" + "".join(order))
        found.append(splits(ingested({**SETTINGS, "test": 0.3, "validation": 0.3, "key": "who"})))
    people = {split: {int(row) // 10 for row in rows} for split, rows in found[0].items()}
    assert sum(map(len, people.values())) == 60
    assert all(len(rows) == 10 * len(people[split]) for split, rows in found[0].items())
    assert len(people) == 3
    assert {split: sorted(rows) for split, rows in found[1].items()} == {s: sorted(r) for s, r in found[0].items()}


def test_the_type_of_every_column_that_cuts_is_checked_before_a_row_is_read(project: Path, refused: Refused) -> None:
    times = pa.array([0, 1], pa.timestamp("ms"))
    parquet.write_table(pa.table({"x": pa.array(["a", "b"]), "t": times}), project / "t.parquet")
    settings = {**SETTINGS, "needs": "t.parquet", "test": 0.5}
    said = "t.parquet: column 't' is timestamp[ms]: names or whole numbers are needed here"
    for cut in ({"key": "t"}, {"stratify": "t"}, {"split": "t", "test": 0.0}):
        refused({**settings, **cut}, said)


def test_bad_cells_of_features_and_strata_are_told_together(project: Path, refused: Refused) -> None:
    (project / "t.csv").write_text("x,y\n1,a\nb,\n")
    said = "row 2 below the header: 'b' is not a number; fix the row or drop it (2 bad cells; also column 'y' row 2"
    refused({**SETTINGS, "test": 0.5, "stratify": "y"}, said)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"test": 0.2, "stratify": "y", "key": "k"},
            "key keeps rows together, but stratify separates them: give only one",
        ),
        ({"test": 0.2, "split": "s"}, "split says which rows are test"),
        ({"stratify": "y"}, "stratify needs a fraction to cut"),
        ({"stratify": "y", "split": "s", "validation": 0.1}, "stratify needs a fraction to cut"),
    ],
)
def test_settings_that_contradict_each_other(ingested: Ingested, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ingested({**SETTINGS, **settings})


@pytest.mark.parametrize(
    ("content", "settings", "message"),
    [
        (
            "x,y\n1,a\n2,b\n",
            {"test": 0.2, "stratify": "y"},
            "split test is empty (`stratify` rounds the share of each stratum to whole rows, here to 0); every split",
        ),
        ("x,y\n1,a\n2,a\n", {"test": 0.5, "validation": 0.2, "stratify": "y"}, "split val is empty (`stratify` rounds"),
        ("x,y\n1,a\n2,\n", {"test": 0.5, "stratify": "y"}, "column 'y', row 2 below the header: the value is missing"),
        ("x\n1\n", {"test": 0.5, "stratify": "y"}, "t.csv has no column 'y'"),
        ("x\n1\n", {"test": 0.001}, "split test is empty"),
    ],
)
def test_what_cannot_be_cut(
    project: Path, refused: Refused, content: str, settings: dict[str, Any], message: str
) -> None:
    (project / "t.csv").write_text(content)
    refused({**SETTINGS, **settings}, message)
