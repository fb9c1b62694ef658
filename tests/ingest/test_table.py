import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from tapeline.dataset.columns import Dataset
from tapeline.ingest.split import held_out
from tapeline.ingest.table_features import Decoder
from tapeline.ingest.table_file import Table

FLOWERS = (
    "species,length,width,part\nrose,1,2.5,train\nlily,-3,0.5,test\nrose,1e2, 7 ,train\ndaisy,0,-0.25,validation\n"
)
SETTINGS: dict[str, Any] = {
    "source": "table",
    "needs": "flowers.csv",
    "features": {"size": ["length", "width"], "length": "length", "species": "species"},
    "label": "species",
    "split": "part",
}
Ingested = Callable[..., Path]
Refused = Callable[[dict[str, Any], str], None]


def table(content: str | bytes, project: Path, **settings: Any) -> dict[str, Any]:
    (project / "t.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    return {"source": "table", "needs": "t.csv", "features": {"x": "x"}, **settings}


def parquet_table(columns: dict[str, pa.Array], project: Path, **settings: Any) -> dict[str, Any]:
    parquet.write_table(pa.table(columns), project / "t.parquet")
    return {"source": "table", "needs": "t.parquet", "features": {"x": "x"}, **settings}


def test_a_csv_becomes_scalar_and_vector_features_and_a_label_by_split(project: Path, ingested: Ingested) -> None:
    (project / "flowers.csv").write_text(FLOWERS)
    dataset = Dataset.open(ingested(SETTINGS))
    assert dataset.splits == ("test", "train", "val")
    assert dataset.column("train", "size").tolist() == [[1, 2.5], [100, 7]]
    assert dataset.column("train", "size").dtype == np.float32
    assert dataset.column("train", "length").tolist() == [1, 100]
    assert dataset.column("val", "size").tolist() == [[0, -0.25]]
    assert dataset.features["species"].classes == ("daisy", "lily", "rose")
    assert [dataset.column(split, "species").tolist() for split in ("train", "val", "test")] == [[2, 2], [0], [1]]


def test_parquet_gives_the_bytes_that_csv_gives(
    project: Path, ingested: Ingested, hashes: Callable[[Path], dict[str, str]]
) -> None:
    (project / "flowers.csv").write_text(FLOWERS.replace(" 7 ", "7"))
    parquet.write_table(csv.read_csv(project / "flowers.csv"), project / "flowers.parquet", row_group_size=2)
    of_csv = hashes(ingested(SETTINGS))
    of_parquet = hashes(ingested({**SETTINGS, "needs": "flowers.parquet"}, out="data/parquet"))
    assert of_csv.pop("dataset.json") != of_parquet.pop("dataset.json")
    assert of_csv == of_parquet
    assert len(of_csv) == 9


def test_what_spreadsheets_add_is_no_mistake(project: Path, ingested: Ingested) -> None:
    settings = table('\ufeffx,y\r\n 1 ,"2"\r\n\r\n3,4\r\n', project, features={"x": "x", "y": "y"})
    dataset = Dataset.open(ingested(settings))
    assert dataset.column("train", "x").tolist() == [1, 3]
    assert dataset.column("train", "y").tolist() == [2, 4]


@pytest.mark.parametrize("rows", ["1,a\n2,b\n", '"1",a\n2,"b"\n', '1,"a\n""a\n"\n"2","x,y"', '1,19" rack\n2,"b"c"\n'])
def test_quotes_that_are_closed_and_those_inside_a_cell_are_no_mistake(
    project: Path, ingested: Ingested, rows: str
) -> None:
    column = Dataset.open(ingested(table(f'\ufeff"x",y\r\n{rows}', project))).column("train", "x")
    assert column.tolist() == [1, 2]


@pytest.mark.parametrize(
    "text", ["x\n5\n6\n", "x\n5\n6\n\n\n", "\n\nx\r\n5\r\n6\r\n\r\n", "\ufeff\n\nx\n5\n6", '\n"x"\n5\n"6"']
)
def test_empty_lines_around_a_single_column_are_no_mistake(project: Path, ingested: Ingested, text: str) -> None:
    assert Dataset.open(ingested(table(text.encode(), project))).column("train", "x").tolist() == [5, 6]


def test_class_ids_are_kept(project: Path, ingested: Ingested) -> None:
    settings = table("x,y\n1,2\n1,0\n1,10\n" + "".join(f"1,{n}\n" for n in range(10)), project)
    dataset = Dataset.open(ingested({**settings, "features": {"x": "x", "y": "y"}, "label": "y"}))
    assert dataset.column("train", "y")[:3].tolist() == [2, 0, 10]
    assert dataset.features["y"].classes == tuple(map(str, range(11)))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array([True, False]), [1, 0]),
        (pa.array([2**62, -5]), [2.0**62, -5]),
        (pa.array([2**63], pa.uint64()), [2.0**63]),
        (pa.array([1, 2], pa.uint8()), [1, 2]),
        (pa.array([0.5, 1], pa.float32()), [0.5, 1]),
        (pa.array(["1", "2e0"], pa.large_string()), [1, 2]),
        (pa.array(["1", "2e0"], pa.string_view()), [1, 2]),
        (pa.array(["1", "2"]).dictionary_encode(), [1, 2]),
    ],
)
def test_every_number_of_parquet_is_a_feature(
    project: Path, ingested: Ingested, values: pa.Array, expected: list[float]
) -> None:
    dataset = Dataset.open(ingested(parquet_table({"x": values}, project)))
    assert dataset.column("train", "x").tolist() == expected


@pytest.mark.parametrize(
    ("used", "unused", "classes", "ids"),
    [
        (["b ", "a", "b"], [" ", "c"], ("a", "b"), [1, 0, 1]),
        (["1", "0", "2"], ["no id", ""], ("0", "1", "2"), [1, 0, 2]),
        ([1, 0, 1], [7], ("0", "1"), [1, 0, 1]),
    ],
)
def test_what_a_dictionary_has_and_no_row_is_no_class(
    project: Path, ingested: Ingested, used: list[Any], unused: list[Any], classes: tuple[str, ...], ids: list[int]
) -> None:
    column = pa.DictionaryArray.from_arrays(
        pa.array([place + len(unused) for place in range(len(used))], pa.uint8()), pa.array([*unused, *used])
    )
    settings = parquet_table({"x": pa.array([1, 2, 3]), "y": column}, project)
    dataset = Dataset.open(ingested({**settings, "features": {"x": "x", "y": "y"}, "label": "y"}))
    assert dataset.features["y"].classes == classes
    assert dataset.column("train", "y").tolist() == ids


def test_a_blank_label_of_a_dictionary_is_named_by_its_row(project: Path, refused: Refused) -> None:
    column = pa.array(["a", "b", " ", "a"]).dictionary_encode()
    settings = parquet_table({"x": pa.array([1, 2, 3, 4]), "y": column}, project)
    refused({**settings, "features": {"x": "x", "y": "y"}, "label": "y"}, "column 'y', row 3 below the header: ' ' is")


@pytest.mark.parametrize(("columns", "rows"), [(1, 2**17), (10, 2**21 // 80), (100, 4096)])
def test_parts_of_a_parquet_file_are_neither_small_nor_of_many_rows(tmp_path: Path, columns: int, rows: int) -> None:
    path, count = tmp_path / "t.parquet", 200_000
    parquet.write_table(pa.table({f"c{number}": np.zeros(count, np.float32) for number in range(columns)}), path)
    types = {f"c{number}": None for number in range(columns)}
    found = [count for _, count in Table(path).in_parts(types, lambda rows, plain: rows.batch.num_rows)]
    assert found == [rows] * (count // rows) + [count % rows]


def test_labels_of_a_csv_are_parsed_dictionary_encoded(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,y\n1,a\n2,b\n3,a\n")
    types = Decoder({"x": "x", "y": "y"}, "y", None, ()).types
    found = Table(tmp_path / "t.csv").in_parts(types, lambda rows, plain: rows.cells("y").words())
    assert [words.dictionary.to_pylist() for _, words in found] == [["a", "b"]]


def test_columns_that_are_not_kept_are_not_even_read(project: Path, ingested: Ingested) -> None:
    settings = table("x,y,z\n1,,a\n", project, features={"x": "x", "y": "y", "z": "z"}, label="z", columns=["x"])
    assert list(Dataset.open(ingested(settings)).features) == ["x"]


def test_rows_that_are_added_anywhere_move_no_other(project: Path, ingested: Ingested) -> None:
    sides = []
    for values in ([*range(200)], [*range(900, 950), *range(200), 7]):
        dataset = Dataset.open(
            ingested(table("x\n" + "".join(f"{value}\n" for value in values), project, validation=0.25))
        )
        sides.append({split: set(dataset.column(split, "x").tolist()) for split in ("train", "val")})
    first, later = sides
    assert first["train"] <= later["train"] and first["val"] <= later["val"] and first["val"]
    assert not later["train"] & later["val"]


def test_rows_of_one_key_stay_together(project: Path, ingested: Ingested, refused: Refused) -> None:
    text = "x,who\n" + "".join(f"{value},p{value // 10}\n" for value in range(300))
    dataset = Dataset.open(ingested(table(text, project, validation=0.3, key="who")))
    moved = held_out([f"p{value // 10}" for value in range(300)], 0.3)
    assert dataset.column("val", "x").tolist() == np.arange(300)[moved].tolist()
    assert dataset.column("train", "x").tolist() == np.arange(300)[~moved].tolist()


@pytest.mark.parametrize(
    ("text", "said"),
    [("x,who\n1,\n", "row 1 below the header: the value is missing"), ("x\n1\n", "has no column 'who'")],
)
def test_a_key_that_is_not_there(project: Path, refused: Refused, text: str, said: str) -> None:
    refused(table(text, project, validation=0.3, key="who"), said)


def test_a_table_of_many_blocks_keeps_its_order(project: Path, ingested: Ingested) -> None:
    rows = 200_000
    values = np.arange(rows) / 8
    settings = table("x,y\n" + "".join(f"{value},{row % 3}\n" for row, value in enumerate(values)), project)
    assert (project / "t.csv").stat().st_size > 2 * 2**20
    dataset = Dataset.open(ingested({**settings, "features": {"x": "x", "y": "y"}, "label": "y"}))
    assert np.array_equal(dataset.column("train", "x"), values.astype(np.float32))
    assert np.array_equal(dataset.column("train", "y"), np.arange(rows) % 3)
    parquet.write_table(csv.read_csv(project / "t.csv"), project / "t.parquet")
    dataset = Dataset.open(ingested({**settings, "needs": "t.parquet"}))
    assert np.array_equal(dataset.column("train", "x"), values.astype(np.float32))


def test_a_mistake_far_down_is_named_by_its_row(project: Path, refused: Refused) -> None:
    rows = ["1.2345678\n"] * 300_000
    rows[250_000] = "1.2.3\n"
    refused(
        table("x\n" + "".join(rows), project), "t.csv: column 'x', row 250001 below the header: '1.2.3' is not a number"
    )


@pytest.mark.parametrize(
    ("content", "settings", "message"),
    [
        ("", {}, "t.csv cannot be read as CSV: Empty CSV file; fix it or get a new copy"),
        ("x\n", {}, "its source has no examples"),
        ("x\n1\nnan\n", {}, "row 2 below the header: 'nan' is not finite as float32; fix the row or drop it"),
        ("x\n-inf\n", {}, "row 1 below the header: '-inf' is not finite"),
        ("x\n1e39\n", {}, "'1e39' is not finite as float32"),
        ("x,y\n1,2\n,2\n", {}, "column 'x', row 2 below the header: the value is missing; fix the row or drop it"),
        ("x\n0x10\n", {}, "'0x10' is not a number"),
        ('x\n"a\nb"\n', {}, r"'a\nb' is not a number"),
        ("x\n1,2\n", {}, "CSV parse error: Row #2: Expected 1 columns, got 2: 1,2"),
        (b"x\n\xff\n", {}, "invalid UTF8 data; save it as UTF-8"),
        (b"x,\xff\n1,2\n", {}, "invalid start byte; save it as UTF-8"),
        ("x,y\n1,2\n".encode("utf-16"), {}, "t.csv is not UTF-8: it begins like UTF-16; save it as UTF-8"),
        ("\ufeffx,y\n1,2\n".encode("utf-16-be"), {}, "t.csv is not UTF-8: it begins like UTF-16; save it as UTF-8"),
        ("\ufeffx\n1\n".encode("utf-16-le"), {}, "t.csv is not UTF-8: it begins like UTF-16; save it as UTF-8"),
        ("x;y\n1;2\n", {}, "t.csv has no column 'x': it has x;y"),
        ('"x\ny",z\n1,2\n', {}, "t.csv has no column 'x': it has x y, z"),
        ("x\n5\n\n6\n", {}, "column 'x', row 2 below the header: the value is missing; fix the row or drop it"),
        ("x\n5\n\n6\n\n", {}, "column 'x', row 2 below the header: the value is missing; fix the row or drop it"),
        ('x\n"5"\r\n\r\n6', {}, "column 'x', row 2 below the header: the value is missing; fix the row or drop it"),
        ('x\n5\n""\n', {}, "column 'x', row 2 below the header: the value is missing; fix the row or drop it"),
        ("x\n\n5\n", {"integers": ["x"]}, "column 'x', row 1 below the header: the value is missing; fix the row"),
        ("x\n\n", {}, "its source has no examples"),
        ('x,y\n1,a\n2,"b\n3,c\n', {}, "t.csv cannot be read as CSV: in line 3 a cell begins with an unclosed quote"),
        ('x,y\r1,a\r2,"b\r3,c', {}, "in line 3 a cell begins with an unclosed quote, and would swallow"),
        ('x,y\n1,a\n2,"b\n3,"c"\n4,d\n', {}, "in line 3 a cell begins with an unclosed quote, and would"),
        ('x,y\n1,"a\n\na"\n2,"\n', {}, "in line 5 a cell begins with an unclosed quote, and would swallow"),
        ('x,"y\n1,a\n2,b\n', {}, "in line 1 a cell begins with an unclosed quote, and would swallow"),
        ('\ufeff"x,y\n1,a\n', {"features": {"x": "x,y\n1,a\n"}}, "in line 1 a cell begins with an unclosed quote"),
        ('w,x"y,"z\n1,2,3\n', {"features": {"x": "w"}}, "in line 1 a cell begins with an unclosed quote"),
        ("x,x\n1,2\n", {}, "t.csv has more than one column 'x'"),
        ("x,s\n1,trian\n", {"split": "s"}, "column 's' has a split 'trian': name splits train, val (or"),
        ("x,s\n1,train\n1,\n", {"split": "s"}, "column 's', row 2 below the header: the value is missing"),
        (
            "x,s\n1,test\n",
            {"split": "s"},
            "dataset 'set' has no train split, on which a model is trained (it has test)",
        ),
        ("x,s\n1,train\n", {"split": "part"}, "t.csv has no column 'part'"),
        ("x,s\n1,val\n1,train\n", {"split": "s", "validation": 0.5}, "dataset 'set' has a val split, but `validation:"),
        ("x\n1\n", {"validation": 0.001}, "split val is empty (`validation: 0.001` of 1 examples)"),
        ("x\n1\n", {"validation": 0.999}, "split train is empty (`validation: 0.999` of 1 examples)"),
        ("x\n1\n", {"columns": ["z"]}, "table t.csv has no feature 'z', which `columns` lists: it has x"),
        ("x\n1\n", {"features": {"../x": "x"}}, "feature '../x' becomes a file of that name"),
        (
            "x,y\n1,2\n",
            {"features": {"a": "x", "a.npy/b": "y"}},
            "feature 'a' becomes the file a.npy, and 'a.npy/b' needs a folder of that name: rename one",
        ),
        ("x\n1\n", {"features": {"a" * 252: "x"}}, "a...' is too long for the name of its file: shorten it"),
    ],
)
def test_a_bad_csv_is_refused(
    project: Path, refused: Refused, content: str | bytes, settings: dict[str, Any], message: str
) -> None:
    refused(table(content, project, **settings), message)


@pytest.mark.parametrize(
    "names", [["18_25", "26_35"], ["1_1"], ["٣", "٤"], ["nan", "inf"], ["0x1", "0x2"], ["1e400"], ["nan", "a", "0.5"]]
)
def test_class_names_that_python_alone_reads_as_numbers(project: Path, ingested: Ingested, names: list[str]) -> None:
    settings = table("x,y\n" + "".join(f"1,{name}\n" for name in names), project)
    dataset = Dataset.open(ingested({**settings, "features": {"x": "x", "y": "y"}, "label": "y"}))
    assert dataset.features["y"].classes == tuple(sorted(names))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (
            ["0", "2"],
            "column 'y' has class ids 0, 2: they must be 0, 1, 2, ... without gaps: renumber them, or",
        ),
        (["1", "2"], "has class ids 1, 2"),
        (
            ["0", "1", "01"],
            "column 'y' has the class ids '01' and '1', which are the same number: write it in one form",
        ),
        (["-1", "0", "1"], "has class ids -1, 0, 1"),
        ([str(10 * n) for n in range(9)], "has class ids 0, 10, 20, ... 80"),
        (["0", "1", "nan"], "has the value nan: a label is a class name or id; remove `label` to predict a number"),
        (["0.5", "1"], "has the value 0.5: a label is a class name or id; remove `label` to predict a number"),
        (
            ["0", "1" * 5000],
            "has a class id of 5,000 digits, 111111111111111111...: ids must be 0, 1, 2, ... without gaps",
        ),
        (["a", ""], "row 2 below the header: the value is missing"),
        (["a", "  "], "row 2 below the header: '  ' is blank"),
    ],
)
def test_bad_labels_are_refused(project: Path, refused: Refused, labels: list[str], message: str) -> None:
    content = "x,y\n" + "".join(f"1,{label}\n" for label in labels)
    refused(table(content, project, features={"x": "x", "y": "y"}, label="y"), message)


@pytest.mark.parametrize(
    ("columns", "settings", "message"),
    [
        ({"x": pa.array([None, None])}, {}, "row 1 below the header: the value is missing"),
        ({"x": pa.array([1.0, float("nan")])}, {}, "row 2 below the header: nan is not finite as float32"),
        ({"x": pa.array([[1.0], [2.0]])}, {}, "column 'x' is list<element: double>: a feature needs numbers"),
        ({"x": pa.array([0], pa.timestamp("ms"))}, {}, "column 'x' is timestamp[ms]: a feature needs numbers"),
        ({"y": pa.array([1])}, {}, "t.parquet has no column 'x': it has y"),
        (
            {f"y{number}": pa.array([1]) for number in range(5000)},
            {},
            ", y48, y49, ... (5,000 in all)",
        ),
        ({"x": pa.array([], pa.float64())}, {}, "dataset 'set': its source has no examples"),
        (
            {"x": pa.array([], pa.float64()), "y": pa.array([], pa.string())},
            {"features": {"x": "x", "y": "y"}, "label": "y", "test": 0.2},
            "dataset 'set': its source has no examples",
        ),
        (
            {"x": pa.array([1.0]), "y": pa.array([0.0])},
            {"features": {"x": "x", "y": "y"}, "label": "y"},
            "column 'y' is double: names or whole numbers are needed here",
        ),
    ],
)
def test_a_bad_parquet_is_refused(
    project: Path, refused: Refused, columns: dict[str, pa.Array], settings: dict[str, Any], message: str
) -> None:
    refused(parquet_table(columns, project, **settings), message)


@pytest.mark.parametrize("keep", [0, 3, 40, -1])
def test_a_cut_parquet_is_refused(project: Path, refused: Refused, keep: int) -> None:
    settings = parquet_table({"x": pa.array(range(1000))}, project)
    path = project / "t.parquet"
    path.write_bytes(path.read_bytes()[:keep])
    refused(settings, "t.parquet cannot be read as Parquet")


def test_a_parquet_that_is_damaged_inside_is_refused(project: Path, refused: Refused) -> None:
    settings = parquet_table({"x": pa.array(np.random.default_rng(0).random(10_000))}, project)
    path = project / "t.parquet"
    content = bytearray(path.read_bytes())
    content[4:200] = bytes(196)
    path.write_bytes(content)
    refused(settings, "t.parquet cannot be read as Parquet")


def test_a_file_of_another_kind_is_refused(project: Path, refused: Refused) -> None:
    (project / "t.json").write_text(json.dumps([{"x": 1}]))
    settings = {"source": "table", "needs": "t.json", "features": {"x": "x"}}
    refused(settings, "t.json is not a table: save it as Parquet, such as with pandas")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (gzip.compress(b"x\n1\n"), "it is compressed with gzip; unpack it, or save it as Parquet"),
        (bz2.compress(b"x\n1\n"), "it is compressed with bzip2; unpack it"),
        (lzma.compress(b"x\n1\n"), "it is compressed with xz; unpack it"),
        (b"PAR1\x15\x04", "it is a Parquet file; call it .parquet"),
    ],
)
def test_a_csv_that_is_no_text_is_named(project: Path, refused: Refused, content: bytes, said: str) -> None:
    (project / "t.csv").write_bytes(content)
    refused({"source": "table", "needs": "t.csv", "features": {"x": "x"}}, f"t.csv is not text: {said}")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "t.csv.gz",
            "t.csv.gz is not a table: unpack it, or save it as Parquet",
        ),
        ("t.parquet", "t.parquet is not a table, but a folder: write the parts in it into one Parquet file"),
    ],
)
def test_what_is_a_table_once_it_is_unpacked_or_joined(
    project: Path, refused: Refused, name: str, message: str
) -> None:
    (project / name).mkdir() if name == "t.parquet" else (project / name).write_bytes(gzip.compress(b"x\n1\n"))
    refused({"source": "table", "needs": name, "features": {"x": "x"}}, message)
