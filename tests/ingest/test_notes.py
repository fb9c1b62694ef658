"""What ingest takes and says: constant columns, examples in two splits, classes that are odd."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

SETTINGS: dict[str, Any] = {"source": "table", "needs": "t.csv", "features": {"x": "x"}}
Ingested = Callable[..., Path]
Said = Callable[[dict[str, Any]], list[str]]


@pytest.fixture
def said(ingested: Ingested, capfd: pytest.CaptureFixture[str]) -> Said:
    """Ingest and return the notes."""

    def run(settings: dict[str, Any]) -> list[str]:
        ingested(settings)
        lines = capfd.readouterr().out.splitlines()
        return [line.removeprefix("set: note: ") for line in lines if line.startswith("set: note: ")]

    return run


def test_the_same_row_in_train_and_test(project: Path, said: Said) -> None:
    rows = [f"{n},{n % 2},{'train' if n < 6 else 'test'}" for n in range(9)]
    (project / "t.csv").write_text("x,y,s\n" + "\n".join([*rows, "3,0,test", "4,1,test", "5,1,val"]) + "\n")
    settings = {**SETTINGS, "features": {"x": "x", "y": "y"}, "label": "y", "split": "s"}
    assert said(settings) == [
        "1 of 1 examples of val are also in train: 11",
        "2 of 5 examples of test are also in train: 9, 10",
    ]


@pytest.mark.parametrize("ids", [["00", "01", "02"], ["0", "01", "2"]])
def test_class_ids_with_leading_zeros(project: Path, said: Said, ids: list[str]) -> None:
    (project / "t.csv").write_text("x,y\n" + "".join(f"{n},{ids[n % 3]}\n" for n in range(9)))
    settings = {**SETTINGS, "features": {"x": "x", "y": "y"}, "label": "y"}
    first = ids[0] if len(ids[0]) > 1 else "01"
    assert said(settings) == [f"y has the id {first!r}, whose class is {int(first)}: a name, such as c{first}, is kept"]
    (project / "t.csv").write_text("x,y\n" + "".join(f"{n},{int(ids[n % 3])}\n" for n in range(9)))
    assert not said(settings)


def test_a_key_that_the_split_column_parts(project: Path, said: Said) -> None:
    rows = ["1,train,a", "2,train,b", "3,val,a", "4,test,b", "5,test,a", "6,test,c"]
    (project / "t.csv").write_text("x,s,who\n" + "\n".join(rows) + "\n")
    assert not said({**SETTINGS, "split": "s"})
    assert said({**SETTINGS, "split": "s", "key": "who"}) == [
        "1 values of the key 'who' are in val and in train: a",
        "2 values of the key 'who' are in test and in train: a, b",
    ]


def test_one_long_key_takes_no_more_memory_for_the_others(project: Path, said: Said) -> None:
    rows = [f"{n},train,{n}" for n in range(10_000)]
    (project / "t.csv").write_text("x,s,who\n" + "\n".join([*rows, f"-1,val,{'k' * 20_000}", "-2,val,7"]) + "\n")
    tracemalloc.start()
    try:
        assert said({**SETTINGS, "split": "s", "key": "who"}) == [
            "1 values of the key 'who' are in val and in train: 7"
        ]
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()


def test_a_row_with_a_zero_of_the_other_sign(project: Path, said: Said) -> None:
    (project / "t.csv").write_text("x,s\n-0.0,train\n1.5,train\n2.5,val\n0.0,test\n")
    assert said({**SETTINGS, "split": "s"}) == ["1 of 1 examples of test are also in train: 3"]


def test_the_same_row_on_both_sides_of_the_validation_cut(project: Path, said: Said) -> None:
    (project / "t.csv").write_text("x,who\n" + "".join(f"{n % 50 / 4},{n}\n" for n in range(100)))
    assert not said({**SETTINGS, "validation": 0.5}), "the content decides, so copies are on one side"
    (note,) = said({**SETTINGS, "validation": 0.5, "key": "who"})
    assert "examples of val are also in train: " in note


@pytest.mark.parametrize(
    ("header", "row", "features", "note"),
    [
        ("x,y", "{n},7", {"x": "x", "y": "y"}, "feature 'y' is 7.0 in every example"),
        ("x,y,z", "0,{n},0", {"v": ["x", "y", "z"]}, "feature 'v': columns that are the same in every example: "
         "2 (v[0] is 0.0, v[2] is 0.0)"),
    ],
)  # fmt: skip
def test_a_constant_column(
    project: Path, said: Said, header: str, row: str, features: dict[str, Any], note: str
) -> None:
    (project / "t.csv").write_text(header + "\n" + "".join(row.format(n=n) + "\n" for n in range(5000)))
    assert said({**SETTINGS, "features": features}) == [note]


def test_a_class_in_test_only(project: Path, said: Said) -> None:
    (project / "t.csv").write_text("x,y,s\n1,a,train\n2,b,train\n3,c,test\n4,a,test\n5,d,val\n")
    settings = {**SETTINGS, "features": {"x": "x", "y": "y"}, "label": "y", "split": "s"}
    assert sorted(said(settings)) == [
        "y: classes that test has and train lacks: 1 (c)",
        "y: classes that train has and test lacks, and macro averages count as 0: 1 (b)",
        "y: classes that val has and train lacks: 1 (d)",
    ]


def test_a_label_of_one_class(project: Path, said: Said) -> None:
    (project / "t.csv").write_text("x,y\n1,a\n2,a\n3,a\n4,a\n")
    settings = {**SETTINGS, "features": {"x": "x", "y": "y"}, "label": "y"}
    assert said(settings) == ["y has one class, 'a', in every example: there is nothing to tell apart"]


def test_classes_that_test_lacks(project: Path, said: Said) -> None:
    rows = [f"{n},{'abcdef'[n % 6]},train" for n in range(12)]
    settings = {**SETTINGS, "features": {"x": "x", "y": "y"}, "label": "y", "split": "s"}
    for tested, notes in (("", []), ("20,f,test\n", ["5 (a, b, c, ...)"])):
        (project / "t.csv").write_text("x,y,s\n" + "\n".join(rows) + f"\n{tested}")
        start = "y: classes that train has and test lacks, and macro averages count as 0: "
        assert said(settings) == [start + note for note in notes], "without a test split, nothing is tested"


def test_class_names_that_look_the_same(project: Path, said: Said) -> None:
    for place, name in enumerate(["Cat", "cat", "caf\u00e9", "cafe\u0301"]):
        folder = project / "pictures" / "train" / name
        folder.mkdir(parents=True)
        Image.fromarray(np.full((2, 2), place, np.uint8)).save(folder / "1.png")
    assert said({"source": "images", "needs": "pictures", "size": [2, 2]}) == [
        "classes 'Cat' and 'cat' differ in case only, and are 2 classes",
        "classes 'cafe\\u0301' and 'caf\\xe9' differ in Unicode normalization only, and are 2 classes",
    ]


def test_class_names_that_differ_in_what_nobody_sees(project: Path, said: Said) -> None:
    (project / "t.csv").write_text("x,y\n1,pear\n2,pe\u200bar\n3,plum\n4,pear\n", encoding="utf-8")
    settings = {**SETTINGS, "features": {"x": "x", "y": "y"}, "label": "y"}
    assert said(settings) == ["classes 'pear' and 'pe\\u200bar' differ in invisible characters only, and are 2 classes"]
