"""What is proposed for a table goes through ingest; what ingest would refuse is refused before."""

import datetime

import pyarrow as pa
import pytest
from proposals import ingested
from pyarrow import csv, parquet

from tapeline.runtime.errors import InputError
from tapeline.scaffold.table import propose


def csv_of(folder, header, row, rows=60, name="t.csv"):
    path = folder / name
    path.write_text("\n".join([header, *(row(n) for n in range(rows))]) + "\n")
    return path


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("a,kind", lambda n: f"{n * 2},{'xy'[n % 2]}"),
        ("a,label", lambda n: f"{n * 2},{n % 3}"),
        ("a,price", lambda n: f"{n * 2},{n / 7}"),
        ("a,quality", lambda n: f"{n * 2},{n % 5 + 3}"),
        ("a,flag", lambda n: f"{n * 2},{'true' if n % 2 else 'false'}"),
        ("a,split,y", lambda n: f"{n * 2},{('train', 'validation', 'test')[n % 3]},{n}"),
        (" a , b", lambda n: f" {n * 2} , {n / 2} "),
        ("a,phone,empty,NA,y", lambda n: f"{n * 2},{5551234567 + n},,{'NA' if n == 5 else n},{n / 3}"),
        (",a,y", lambda n: f"{n},{n % 9},{n / 3}"),
        ("a,class,b", lambda n: f'{n * 2},"{"pq"[n % 2]}, ""x""",{n}'),
    ],
)
def test_a_proposal_goes_through_ingest(tmp_path, header, row):
    ingested(propose, tmp_path, csv_of(tmp_path, header, row))


@pytest.mark.parametrize(
    "target",
    [
        pa.array([n % 3 for n in range(60)], pa.int8()),
        pa.array(["x", "y"] * 30).dictionary_encode(),
        pa.array([n / 8 for n in range(60)]).cast(pa.decimal128(12, 4)),
        pa.array([n / 8 for n in range(60)], pa.float32()),
    ],
    ids=str,
)
def test_a_proposal_for_parquet_goes_through_ingest(tmp_path, target):
    days = [datetime.date(2024, 1, 1)] * 60
    table = pa.table({"__index_level_0__": range(60), "a": range(2, 62), "day": days, "t": target})
    parquet.write_table(table, tmp_path / "t.parquet")
    proposal = ingested(propose, tmp_path, tmp_path / "t.parquet")
    assert proposal.dataset["features"]["x"] == ["a"]


@pytest.mark.parametrize("index", ["", "Unnamed: 0", "Unnamed: 0.1", "__index_level_0__"])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_an_index_of_pandas_is_no_input_and_no_target_although_it_repeats(tmp_path, index, suffix):
    """It does after `pd.concat` or a filter."""
    for header, row in (
        (f"{index},a,price", lambda n: f"{n % 20},{n % 9},{n / 3}"),
        (f"a,price,{index}", lambda n: f"{n % 9},{n / 3},{n % 20}"),
    ):
        path = csv_of(tmp_path, header, row)
        if suffix == "parquet":
            parquet.write_table(csv.read_csv(path), path := tmp_path / "t.parquet")
        proposal = propose(path, path.name, tmp_path)
        assert proposal.dataset["features"] == {"x": ["a"], "price": ["price"]}
        assert f"column {index!r} is ignored: it is a row index, as pandas writes it" in proposal.said


def test_a_column_without_a_name_is_data_if_its_numbers_have_fractions(tmp_path):
    path = csv_of(tmp_path, ",a,price", lambda n: f"{n % 9 if n < 50 else 0.5},{n % 9},{n / 3}")
    assert propose(path, "t.csv", tmp_path).dataset["features"]["x"] == ["", "a"]


@pytest.mark.parametrize(
    "last",
    [
        ("date", pa.array([datetime.datetime(2024, 1, 1)] * 60)),
        ("parts", pa.array([[1.0]] * 60)),
        ("__index_level_0__", pa.array([f"house {n}" for n in range(60)])),
    ],
    ids=lambda last: last[0],
)
def test_a_last_column_that_cannot_be_learned_is_not_the_target(tmp_path, last):
    columns = {"a": range(2, 62), "price": [n / 3 for n in range(60)], last[0]: last[1]}
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    proposal = ingested(propose, tmp_path, tmp_path / "t.parquet")
    assert proposal.dataset["features"] == {"x": ["a"], "price": ["price"]}
    assert any(line.startswith(f"column {last[0]!r} is ignored: ") for line in proposal.said)


@pytest.mark.parametrize("index", ["Id", "n"])
def test_a_column_that_numbers_the_rows_is_no_input(tmp_path, index):
    path = csv_of(tmp_path, f"{index},a,y", lambda n: f"{n},{n % 9},{n / 3}")
    proposal = propose(path, "t.csv", tmp_path)
    assert proposal.dataset["features"]["x"] == ["a"]
    assert f"column {index!r} is ignored: it numbers the rows" in proposal.said


@pytest.mark.parametrize("name", ["item_index", "row no", "User-ID", "KEY", "nr", "userId", "orderID", "row"])
def test_an_identifier_that_does_not_count_is_no_input_and_no_target(tmp_path, name):
    for header, row in (
        (f"{name},a,price", lambda n: f"{2**40 + n * 7},{n % 9},{n / 3}"),
        (f"a,price,{name}", lambda n: f"{n % 9},{n / 3},{n * 7}.0"),
    ):
        proposal = propose(csv_of(tmp_path, header, row), "t.csv", tmp_path)
        assert proposal.dataset["features"] == {"x": ["a"], "price": ["price"]}
        why = "it has a different whole number in each row, and the name of an identifier"
        assert f"column {name!r} is ignored: {why}" in proposal.said


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("header", ["a,price,house", "house,a,price"])
def test_numbers_that_run_through_are_a_row_number_whatever_their_name(tmp_path, first, header):
    def row(n):
        values = {"a": n % 9, "price": n / 3, "house": first + (n * 7) % 60}
        return ",".join(str(values[name]) for name in header.split(","))

    proposal = propose(csv_of(tmp_path, header, row), "t.csv", tmp_path)
    assert proposal.dataset["features"] == {"x": ["a"], "price": ["price"]}
    assert "column 'house' is ignored: it numbers the rows" in proposal.said


@pytest.mark.parametrize("name", ["year", "paid", "identity", "piano", "ID_of_shop"])
def test_other_whole_numbers_are_an_input(tmp_path, name):
    path = csv_of(tmp_path, f"{name},shop_id,price", lambda n: f"{1960 + n},{n % 9},{n / 3}")
    assert propose(path, "t.csv", tmp_path).dataset["features"]["x"] == [name, "shop_id"]


@pytest.mark.parametrize("header", ["a,price,year", "year,a,price"])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("last", [2019, 2020])
def test_a_column_that_is_the_same_in_all_rows_is_no_input_and_no_target(tmp_path, header, suffix, last):
    def row(n):
        values = {"a": n % 9, "price": n / 3, "year": 2019 if n < 19_999 else last}
        return ",".join(str(values[name]) for name in header.split(","))

    path = csv_of(tmp_path, header, row, rows=20_000)
    if suffix == "parquet":
        parquet.write_table(csv.read_csv(path), path := tmp_path / "t.parquet")
    proposal = propose(path, path.name, tmp_path)
    assert ("year" not in str(proposal.dataset["features"])) == (last == 2019)
    assert ("column 'year' is ignored: it is constant" in proposal.said) == (last == 2019)


def test_numbers_that_float32_cannot_tell_from_0_are_not_called_constant(tmp_path):
    path = csv_of(tmp_path, "a,b,y", lambda n: f"{n * 1e-50},{n % 9},{n / 3}")
    said = "column 'a' is ignored: row 2 below the header: '1e-50' would become 0 as float32"
    assert said in propose(path, "t.csv", tmp_path).said


def test_a_comma_at_the_end_of_each_line_makes_no_target(tmp_path):
    proposal = ingested(propose, tmp_path, csv_of(tmp_path, "a,price,", lambda n: f"{n % 9},{n / 3},"))
    assert proposal.dataset["features"] == {"x": ["a"], "price": ["price"]}
    assert "column '' is ignored: it has no name and no values, as where lines end with a comma" in proposal.said


def test_the_split_is_not_the_target(tmp_path):
    path = csv_of(tmp_path, "a,price,split", lambda n: f"{n % 9},{n / 3},{('train', 'test')[n % 2]}")
    proposal = ingested(propose, tmp_path, path)
    assert proposal.dataset["features"] == {"x": ["a"], "price": ["price"]}
    assert proposal.dataset["split"] == "split"


@pytest.mark.parametrize("header", ["a,price,Split", "split,a,price"])
@pytest.mark.parametrize("late", [0, 11_000])
def test_a_split_column_with_other_names_is_refused(tmp_path, header, late):
    def row(n):
        split = ("dev", "train", "test")[n % 3] if n >= late else ("train", "test")[n % 2]
        values = {"a": n % 9, "price": n / 3, "split": split}
        return ",".join(str(values[name.lower()]) for name in header.split(","))

    said = (
        r"'[Ss]plit' has a split 'dev': name splits train, val \(or validation\) and test, or rename the column if it"
    )
    with pytest.raises(InputError, match=said):
        propose(csv_of(tmp_path, header, row, rows=late + 60), "t.csv", tmp_path)


def test_a_split_column_that_lacks_a_name_is_refused(tmp_path):
    path = csv_of(tmp_path, "split,a,price", lambda n: f"{('train', 'test', ' ')[n % 3]},{n % 9},{n / 3}")
    with pytest.raises(InputError, match="column 'split', row 3 below the header: ' ' is blank"):
        propose(path, "t.csv", tmp_path)


def test_a_split_column_of_numbers_is_an_input(tmp_path):
    path = csv_of(tmp_path, "split,a,price", lambda n: f"{n % 7 / 4},{n % 9},{n / 3}")
    assert propose(path, "t.csv", tmp_path).dataset["features"]["x"] == ["split", "a"]


def test_a_column_that_ingest_would_refuse_is_left_out_with_the_reason(tmp_path):
    path = csv_of(tmp_path, "a,b,c,y", lambda n: f"{n * 2},{'NA' if n == 5 else n},{2**24 + 1 + 2 * n},{n / 3}")
    said = propose(path, "t.csv", tmp_path).said
    assert "column 'b' is ignored: row 6 below the header: 'NA' is not a number" in said
    assert any(
        line.startswith("column 'c' is ignored: row 1 below the header: '16777217' would become") for line in said
    )


@pytest.mark.parametrize(
    ("name", "header", "row", "said"),
    [
        ("t.tsv", "a\ty", lambda n: f"{n}\t{n}", "t.tsv is not a table: give a .csv or .parquet file: commas"),
        (
            "t.csv",
            "a,price",
            lambda n: f"{n * 2},{'NA' if n == 7 else n * 10}",
            "column 'price', row 8 below the header: 'NA'",
        ),
        ("t.csv", "a,label", lambda n: f"{n * 2},{n % 3 + 1}", "has class ids 1, 2, 3: they must be 0, 1, 2"),
        ("t.csv", "a,split,y", lambda n: f"{n * 2},{('train', 'val')[n % 2]},{n}", "t.csv has no test split"),
        ("t.csv", "a,y", lambda n: f"{n % 2},{n % 2 + 0.5}", "too few rows differ"),
    ],
)
def test_what_ingest_would_refuse_is_refused(tmp_path, name, header, row, said):
    path = csv_of(tmp_path, header, row, name=name)
    with pytest.raises(InputError) as refused:
        propose(path, name, tmp_path)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("header", "row", "features", "said"),
    [
        ("a,label", lambda n: 9 - n // 2000, {"x": ["a"], "label": "label"}, None),
        ("a,digit", lambda n: 9 - n // 2000, {"x": ["a"], "digit": "digit"}, None),
        (
            "a,visits",
            lambda n: n // 5000 * 5,
            {"x": ["a"], "visits": ["visits"]},
            "its whole numbers 0, 5, 10, ... are",
        ),
        ("a,label", lambda n: 7.5 if n == 15_000 else n % 3, {"x": ["a"], "label": ["label"]}, None),
        ("a,name", lambda n: f"p{n if n < 10_000 else n % 9}", {"x": ["a"], "name": "name"}, None),
        ("price,count", lambda n: n % 10_000, {"x": ["price"], "count": ["count"]}, None),
    ],
    ids=[
        "sorted label",
        "sorted digits",
        "sorted counts",
        "a late fraction",
        "late repeats",
        "a counter that restarts",
    ],
)
def test_all_rows_decide(tmp_path, header, row, features, said):
    proposal = propose(csv_of(tmp_path, header, lambda n: f"{n % 97 / 4},{row(n)}", rows=20_000), "t.csv", tmp_path)
    assert proposal.dataset["features"] == features
    assert [line for line in proposal.said[1:] if said is None or not line.startswith(said)] == []


@pytest.mark.parametrize("cell", ["?", ""])
def test_an_input_with_a_bad_cell_in_a_late_row_is_left_out(tmp_path, cell):
    path = csv_of(tmp_path, "a,b,y", lambda n: f"{cell if n == 15_000 else n * 2},{n % 9},{n / 3}", rows=20_000)
    proposal = propose(path, "t.csv", tmp_path)
    assert proposal.dataset["features"]["x"] == ["b"]
    what = f"{cell!r} is not a number" if cell else "the value is missing"
    assert f"column 'a' is ignored: row 15001 below the header: {what}" in proposal.said


def test_whole_numbers_that_float32_rounds_in_late_rows_are_left_out_unless_another_has_a_fraction(tmp_path):
    rows = [2.0**24 + 1 if n == 15_000 else float(n) for n in range(20_000)]
    columns = {"a": rows, "b": [n / 4 for n in rows], "c": [*rows[:-1], 0.5], "y": [n / 3 for n in range(20_000)]}
    parquet.write_table(pa.table(columns), path := tmp_path / "t.parquet")
    proposal = propose(path, path.name, tmp_path)
    assert proposal.dataset["features"]["x"] == ["b", "c"]
    [said] = proposal.said[1:]
    assert said == "column 'a' is ignored: row 15001 below the header: 16777217.0 would become 16777216 as float32"


@pytest.mark.parametrize(
    ("header", "because"),
    [
        ("a,b,port", "; 'port' is taken as the target because it is last: to predict another column, call that one `t"),
        ("port,a,label", "; 'label' is taken as the target because of its name: to predict another column, call that"),
        ("port,label,Target", "fix the row or drop it"),
    ],
)
def test_an_error_of_the_target_says_why_it_is_the_target(tmp_path, header, because):
    path = csv_of(tmp_path, header, lambda n: f"{n % 7},{n % 9},{'' if n == 9 else 'SQ'[n % 2]}")
    with pytest.raises(InputError, match="row 10 below the header: the value is missing") as refused:
        propose(path, "t.csv", tmp_path)
    assert because in str(refused.value)
    assert (" is taken as " in str(refused.value)) == ("Target" not in header)


@pytest.mark.parametrize("other", ["label", "class", "y"])
def test_target_is_the_target_whatever_else_is_there(tmp_path, other):
    path = csv_of(tmp_path, f"{other},a,target", lambda n: f"item{n},{n % 9},{n / 3}")
    assert propose(path, "t.csv", tmp_path).dataset["features"] == {"x": ["a"], "target": ["target"]}


def test_too_few_rows_for_a_validation_split_have_none(tmp_path):
    for count in range(2, 30):
        path = csv_of(tmp_path, "a,y", lambda n: f"{n * 2},{n / 3}", rows=count)
        try:
            proposal = propose(path, "t.csv", tmp_path)
        except InputError:
            continue
        if "validation" not in proposal.dataset:
            break
    assert any(line.startswith("no validation split: ") for line in proposal.said)
    ingested(propose, tmp_path, path)


def test_years_as_names_of_columns(tmp_path):
    """They may be a row of data, which would be lost."""
    said = propose(csv_of(tmp_path, "2019,2020,y", lambda n: f"{n * 2},{n / 7},{'ab'[n % 2]}"), "t.csv", tmp_path).said
    assert (
        "the first row, with '2019' in it, is read as the column names: if it is data, add a row with names above it"
        in said
    )
