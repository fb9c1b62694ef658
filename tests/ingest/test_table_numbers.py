"""Numbers of a table: kept exactly or refused, all bad cells counted, and what is said about them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from tapeline.dataset.columns import Dataset

SETTINGS: dict[str, Any] = {"source": "table", "needs": "t.csv", "features": {"x": "x"}}
Ingested = Callable[..., Path]
Refused = Callable[[dict[str, Any], str], None]


def write(project: Path, name: str, column: pa.Array) -> dict[str, Any]:
    """Write the column `x` as a CSV or a Parquet file."""
    if name.endswith(".csv"):
        (project / name).write_text("x\n" + "".join(f"{value}\n" for value in column.to_pylist()))
    else:
        parquet.write_table(pa.table({"x": column}), project / name)
    return {**SETTINGS, "needs": name}


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
@pytest.mark.parametrize(
    ("values", "row", "value", "stored"),
    [
        ([1, 2**24 + 1], 2, 16777217, 16777216),
        ([-(2**24) - 1], 1, -16777217, -16777216),
        ([2**24, 2**25, 2**53 + 1], 3, 9007199254740993, 9007199254740992),
        ([2**63 - 1], 1, 2**63 - 1, 2**63),
    ],
)
def test_a_whole_number_that_float32_would_round_is_refused(
    project: Path, refused: Refused, name: str, values: list[int], row: int, value: int, stored: int
) -> None:
    settings = write(project, name, pa.array(values, pa.int64()))
    said = f"{value!r}" if name == "t.parquet" else f"'{value}'"
    refused(
        settings,
        f"{name}: column 'x', row {row} below the header: {said} would become {stored} as float32; a whole number that "
        "float32 rounds: keep the feature as int64 with `integers`, or store it in smaller units",
    )


FLOATS = [float(2**24), *(1.7e9 + number for number in range(9))]


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "words.parquet"])
def test_a_whole_number_among_floats_is_refused_too(project: Path, refused: Refused, name: str) -> None:
    values = pa.array([repr(value) for value in FLOATS]).dictionary_encode() if "words" in name else pa.array(FLOATS)
    said = "1700000001.0" if name == "t.parquet" else "'1700000001.0'"
    refused(
        write(project, name, values),
        f"{name}: column 'x', row 3 below the header: {said} would become 1700000000 as float32; a whole number that "
        "float32 rounds, in a column without fractions: keep the feature as int64 with `integers`, or store it in "
        f"smaller units (8 bad cells; also column 'x' row 4 {said.replace('1.', '2.')},",
    )


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_a_fraction_in_any_part_tells_that_a_column_is_measured(
    project: Path, ingested: Ingested, refused: Refused, name: str
) -> None:
    refused(
        write(project, name, pa.array([*([1.0] * 299_999), 1.7e9 + 1, 2.0])),
        "column 'x', row 300000 below the header: ",
    )
    numbers = [1.7e9 + number for number in range(300_000)]  # several parts
    for measured in (0.5, 1e30):
        settings = write(project, name, pa.array([*numbers, measured]))
        assert Dataset.open(ingested(settings)).column("train", "x")[3] == np.float32(1.7e9)


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
@pytest.mark.parametrize("large", [1e-40, -0.5])
def test_a_column_that_float32_makes_0_is_refused_unless_a_number_remains(
    project: Path, ingested: Ingested, refused: Refused, name: str, large: float
) -> None:
    numbers = [*([0.0] * 299_999), 1e-50, *([0.0] * 300_000)]  # several parts
    stays = write(project, name, pa.array([*numbers, large]))
    assert Dataset.open(ingested(stays)).column("train", "x")[-1] == np.float32(large)
    (project / "data").rename(project / "before")
    refused(
        write(project, name, pa.array(numbers)),
        f"{name}: column 'x', row 300000 below the header: 1e-50 would become 0 as float32; the column has no number "
        "that float32 can tell from 0: store it in smaller units",
    )


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_integers_are_kept_of_floats(project: Path, ingested: Ingested, name: str) -> None:
    settings = write(project, name, pa.array(FLOATS))
    dataset = Dataset.open(ingested({**settings, "integers": ["x"]}))
    assert dataset.column("train", "x").tolist() == [int(value) for value in FLOATS]


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_integers_are_kept(project: Path, ingested: Ingested, name: str) -> None:
    values = [2**24 + 1, -(2**63), 2**63 - 1, 0]
    settings = write(project, name, pa.array(values, pa.int64()))
    dataset = Dataset.open(ingested({**settings, "integers": ["x"]}))
    assert dataset.features["x"].dtype == "int64"
    assert dataset.column("train", "x").tolist() == values


@pytest.mark.parametrize("integers", [[], ["x"]])
@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "words.parquet"])
def test_a_plus_sign_is_no_mistake(project: Path, ingested: Ingested, name: str, integers: list[str]) -> None:
    values = pa.array(["+5", " +0012 ", "-3", "4"])
    settings = write(project, name, values.dictionary_encode() if name == "words.parquet" else values)
    assert Dataset.open(ingested({**settings, "integers": integers})).column("train", "x").tolist() == [5, 12, -3, 4]


def test_decimal_fractions_are_rounded_as_ever(project: Path, ingested: Ingested) -> None:
    (project / "t.csv").write_text("x\n0.1\n16777217.3\n1e20\n")
    assert np.array_equal(
        Dataset.open(ingested(SETTINGS)).column("train", "x"), np.array([0.1, 16777217.3, 1e20], np.float32)
    )


@pytest.mark.parametrize(
    ("cell", "message"),
    [("1.5", "row 2 below the header: '1.5' is not a whole number of 64 bits"), (str(2**63), "is not a whole number of 64"),
     ("0x10", "'0x10' is not a whole number"), ("a", "'a' is not a whole number"), ("+", "'+' is not a whole number"),
     ("+1.5", "'+1.5' is not a whole number"), ("+-1", "'+-1' is not a whole number"),
     (f"+{2**63}", "is not a whole number of 64"), (f"{2**63}.0", "is not a whole number of 64"),
     ("5.", "'5.' is not a whole number"), (".0", "'.0' is not a whole number")],
)  # fmt: skip
def test_what_is_no_integer_is_refused(project: Path, refused: Refused, cell: str, message: str) -> None:
    (project / "t.csv").write_text(f"x\n1\n{cell}\n")
    refused({**SETTINGS, "integers": ["x"]}, message)


def test_an_unknown_name_among_integers_is_refused(ingested: Ingested) -> None:
    with pytest.raises(ValueError, match="integers has 'z': it must be a feature other than the label"):
        ingested({**SETTINGS, "integers": ["z"]})


def test_all_bad_cells_are_counted_over_columns_and_blocks(project: Path, refused: Refused) -> None:
    rows = [f"{number},1" for number in range(300_000)]
    rows[4], rows[7], rows[250_000], rows[290_000], rows[299_999] = "nan,1", "7,", "?,1", "1,!", "1,?"
    (project / "t.csv").write_text("x,y\n" + "\n".join(rows) + "\n")
    refused(
        {**SETTINGS, "features": {"v": ["x", "y"]}},
        "t.csv: column 'x', row 5 below the header: 'nan' is not finite as float32; fix the row or drop it "
        "(5 bad cells; also column 'y' row 8 the value, column 'x' row 250001 '?', column 'y' row 290001 '!', ...)",
    )


def test_bad_labels_are_counted_too(project: Path, refused: Refused) -> None:
    (project / "t.csv").write_text("x,y\n1,a\n2,\n3, \n")
    settings = {**SETTINGS, "features": {"x": "x", "y": "y"}, "label": "y"}
    refused(settings, "the value is missing; fix the row or drop it")


def test_a_column_of_text_is_told_what_it_can_be(project: Path, refused: Refused) -> None:
    (project / "t.csv").write_text("x\n" + "".join(f"name{number}\n" for number in range(2000)))
    refused(
        SETTINGS,
        "row 1 below the header: 'name0' is not a number; most of the column is text: it can be the `label` or the "
        "`split` column; for a feature write numbers, or leave the column out (1,000 or more bad cells; also",
    )


def test_a_long_cell_is_shown_by_its_beginning(project: Path, refused: Refused) -> None:
    (project / "t.csv").write_text("x\n1\n" + "a" * 200_000 + "\n")
    refused(SETTINGS, f"row 2 below the header: '{'a' * 59}... (200,000 characters) is not a number; fix the row")


def test_an_unusable_type_is_told_before_any_row_is_read(project: Path, refused: Refused) -> None:
    columns = {"x": pa.array(["a", "b"]), "y": pa.array([0, 1], pa.timestamp("ms"))}
    parquet.write_table(pa.table(columns), project / "t.parquet")
    settings = {**SETTINGS, "needs": "t.parquet", "features": {"x": "x", "y": "y"}}
    refused(settings, "t.parquet: column 'y' is timestamp[ms]: a feature needs numbers: integers, floats, decimals")


@pytest.mark.parametrize("first", [0, 1])
def test_class_ids_without_a_label_are_said(
    project: Path, ingested: Ingested, capfd: pytest.CaptureFixture[str], first: int
) -> None:
    (project / "t.csv").write_text("x,y\n" + "".join(f"{n / 4},{n % 3 + first}\n" for n in range(9)))
    settings = {**SETTINGS, "features": {"x": "x", "y": "y"}}
    ingested(settings)
    assert (
        f"set: note: feature 'y' is stored as float32 and looks like class ids {first} to {first + 2}: `label: y` makes "
        "it int64 classes if the table has integers from 0, `integers: [y]` int64 numbers\n" in capfd.readouterr().out
    )
    ingested({**settings, "integers": ["y"]})
    assert "note" not in capfd.readouterr().out
