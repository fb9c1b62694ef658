"""Arrow and Python read the same of a text file: values, and what is refused, to the letter."""

import csv
import io
import json
import random
import re

import numpy as np
import pytest

from tapeline.prediction import inputs, json_rows, text_blocks, text_rows
from tapeline.prediction.signature import Signature
from tapeline.runtime.errors import InputError


def signature(**specs):
    return Signature.of({name: {"dtype": kind, "shape": [None, *shape]} for name, (kind, shape) in specs.items()}, {})


TAKEN = [
    signature(x=("float32", (2,)), n=("int64", ())),
    signature(x=("uint8", (2, 2))),
    signature(w=("string", ()), n=("float32", ())),
    signature(x=("float64", (None,)), b=("bool", ())),
    signature(x=("float16", (2,))),
    signature(x=("float32", ())),
    signature(w=("string", ())),
]
CELLS = [
    "1",
    "0",
    "-3",
    "300",
    "1.5",
    "+1",
    " 7",
    "7 ",
    "0x10",
    "0X1f",
    "nan",
    "NaN",
    "inf",
    "-inf",
    "1e5",
    "1e400",
    "9" * 400,
    "007",
    "1_0",
    "5.0",
    "-5.00",
    "",
    "a",
    "ö",
    "nan(1)",
    ".5",
    "5.",
    "null",
    "true",
    "1e",
    "16777217",
    "0.1",
    "9007199254740993",
    "18446744073709551615",
    "123456789012345678901234567890",
    "3.4e38",
    "\x00",
    "a\x00",
    "٣",
]
BYTES = [b"", b'"', b"\n", b"\r", b",", b"x", b" ", b"{", b"}", b"\t", b"[", b"(", b"\\"]


def table(draw, taken):
    names = [column for columns in taken.columns.values() for column in columns] + ["more"] * draw.randint(0, 1)
    draw.shuffle(names)
    odd = draw.random() < 0.3
    rows = [[str(draw.randint(0, 200)) for _ in names] for _ in range(draw.randint(0, 12))]
    for row in rows:
        if odd and draw.random() < 0.5:
            row[draw.randrange(len(row))] = draw.choice(CELLS)
        if draw.random() < 0.02:
            row.pop()
    if draw.random() < 0.1:
        rows.insert(draw.randint(0, len(rows)), [])
    end = draw.choice(["\n", "\n", "\r\n", "\r"])
    text = end.join([",".join(names), *map(",".join, rows)]) + draw.choice(["", end, end + end])
    return (draw.choice(["", "\ufeff"]) + text).encode()


def value(draw, shape):
    if not shape:
        odd = [None, True, "a", 1e400, 2**60, 2**53 + 1, 2**64, float("nan"), [1]]
        return draw.choice([1, 2, 3.5, 0]) if draw.random() < 0.97 else draw.choice(odd)
    return [value(draw, shape[1:]) for _ in range(draw.randint(0, 3) if shape[0] is None else shape[0])]


def lines(draw, taken):
    rows = []
    for _ in range(draw.randint(0, 10)):
        row = {name: "w" if taken.dtypes[name] == "string" else value(draw, of) for name, of in taken.shapes.items()}
        if draw.random() < 0.2:
            row["id"] = draw.choice([1, "q", [1], {"a": [1]}, "\\", "ö", None])
        rows.append(json.dumps(next(iter(row.values())) if draw.random() < 0.02 else row))
    return draw.choice(["\n", "\n", "\r\n"]).join(rows).encode() + draw.choice([b"", b"\n", b"\n\n"])


def read(file, taken, batch_size):
    try:
        found = list(inputs.pieces([file], taken, batch_size))
    except InputError as error:
        return str(error)
    return [(one.first, {n: (v.dtype, v.shape, v.tolist()) for n, v in one.inputs.items()}) for one in found]


def test_a_mark_of_utf_8_below_the_header_is_a_part_of_its_cell(tmp_path):
    (tmp_path / "a.csv").write_text("x\n\ufeff1\n2\n")
    taken = Signature({"x": ()}, {"x": "float32"}, {"x": ["x"]})
    assert read(tmp_path / "a.csv", taken, 8).endswith("line 2: x is '\\ufeff1', which is not a float32")


def test_whichever_reads_the_answer_is_the_same(tmp_path, monkeypatch):
    fast = {"csv": 0, "jsonl": 0}
    by_arrow, json_by_arrow = text_rows._Csv.fast, json_rows._fast_json

    def counted(kind, found):
        fast[kind] += found is not None
        return found

    for number in range(600):
        draw = random.Random(number)
        taken, kind = draw.choice(TAKEN), draw.choice(["csv", "jsonl"])
        content = (table if kind == "csv" else lines)(draw, taken)
        if content and draw.random() < 0.2:
            at = draw.randrange(len(content))
            content = content[:at] + draw.choice(BYTES) + content[at + draw.randint(0, 1) :]
        file = tmp_path / f"a.{kind}"
        file.write_bytes(content)
        batch_size = draw.choice([1, 3, 100])
        monkeypatch.setattr(text_blocks, "BLOCK", draw.choice([16, 64, 1000]))
        monkeypatch.setattr(text_rows._Csv, "fast", lambda self, block: counted("csv", by_arrow(self, block)))
        monkeypatch.setattr(json_rows, "_fast_json", lambda *given: counted("jsonl", json_by_arrow(*given)))
        found = read(file, taken, batch_size)
        monkeypatch.setattr(text_rows._Csv, "fast", lambda self, block: None)
        monkeypatch.setattr(json_rows, "_fast_json", lambda *given: None)
        assert repr(found) == repr(read(file, taken, batch_size)), (content, taken, batch_size)
    assert min(fast.values()) > 50, "Arrow reads the most of them"


@pytest.mark.parametrize("columns", [3, 64])
def test_arrow_reads_plain_files_alone(tmp_path, monkeypatch, columns):
    values = np.random.default_rng(0).integers(0, 17, (20_000, columns))
    names = [f"x.{number}" for number in range(columns)]
    with (tmp_path / "a.csv").open("w", newline="") as file:
        csv.writer(file).writerows([names, *values.tolist()])
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"x": row, "id": "k"}) + "\n" for row in values.tolist()))
    for name in ("slow", "_slow_json"):
        monkeypatch.setattr(text_rows._Csv if name == "slow" else json_rows, name, None)
    for file in ("a.csv", "a.jsonl"):
        found = list(inputs.pieces([tmp_path / file], signature(x=("uint8", (columns,))), 4096))
        assert [piece.first for piece in found] == list(range(0, 20_000, 4096))
        np.testing.assert_array_equal(np.concatenate([piece.inputs["x"] for piece in found]), values)


BLANK = r"a.csv, line 3 is blank, so {} is missing: write its value, \"\" for an empty text, or remove the line"


@pytest.mark.parametrize("block", [1, 7, 1000])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("column", ["x", "w"])
def test_a_blank_line_of_one_column_is_a_missing_value(tmp_path, monkeypatch, column, end, block):
    monkeypatch.setattr(text_blocks, "BLOCK", block)
    taken = signature(**{column: ("float32" if column == "x" else "string", ())})
    rows = [column, "1", "", "3", "", "", "4"]
    for given in (rows, rows[:4], [*rows, ""], [column, "1", "", *("5" for _ in range(100))]):
        (tmp_path / "a.csv").write_text(end.join(given) + end, newline="")
        with pytest.raises(InputError, match=BLANK.format(column)):
            list(text_rows.csv_rows(tmp_path / "a.csv", taken))
    (tmp_path / "a.csv").write_text(end.join([column, "1", "3", "", "", ""]) + end, newline="")
    found = np.concatenate([one[column] for one in text_rows.csv_rows(tmp_path / "a.csv", taken)])
    assert found.tolist() == ([1, 3] if column == "x" else ["1", "3"]), "blank lines at the end are none"


@pytest.mark.parametrize("begin", ["", "\ufeff", "\n\r\n", "\ufeff\n"])
def test_what_stands_above_the_first_line_is_left_out(tmp_path, begin):
    """Spreadsheets and PowerShell write a mark of UTF-8, and ingest leaves out blank lines above the header."""
    taken = signature(n=("float32", ()))
    (tmp_path / "a.csv").write_text(f"{begin}w,n\na,1\nb,2\n", newline="")
    (tmp_path / "a.jsonl").write_text(f'{begin}{{"n": 1}}\n{{"n": 2}}\n', newline="")
    for found in (text_rows.csv_rows(tmp_path / "a.csv", taken), json_rows.json_rows(tmp_path / "a.jsonl", taken)):
        assert np.concatenate([one["n"] for one in found]).tolist() == [1, 2]


def test_a_blank_line_of_several_columns_is_no_row(tmp_path):
    (tmp_path / "a.csv").write_text("w,n\na,1\n\nb,2\n\n")
    rows = text_rows.csv_rows(tmp_path / "a.csv", TAKEN[2])
    assert np.concatenate([one["n"] for one in rows]).tolist() == [1, 2]


def test_an_empty_text_of_one_column_has_quotes(tmp_path):
    (tmp_path / "a.csv").write_text('w\na\n""\nb\n')
    rows = text_rows.csv_rows(tmp_path / "a.csv", signature(w=("string", ())))
    assert [one["w"][0] for one in rows] == ["a", "", "b"]


def test_a_row_that_goes_over_the_end_of_a_block(tmp_path, monkeypatch):
    monkeypatch.setattr(text_blocks, "BLOCK", 20)
    words = ["a", "b\nc\n" * 9, "d", "e, f", "g" * 100, "h"]
    with (tmp_path / "a.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["w", "n"], *([word, number] for number, word in enumerate(words))])
        file.write("i,x\n")
    rows = text_rows.csv_rows(tmp_path / "a.csv", TAKEN[2])
    found = [next(rows) for _ in range(len(words))]
    assert [one["w"][0] for one in found] == words
    with pytest.raises(InputError, match="a.csv, line 26: n is 'x', which is not a float32"):
        next(rows)


@pytest.mark.parametrize("kind", ["float32", "int64"])
@pytest.mark.parametrize("cell", ["1_000", "٣", "1٣", "１"])
def test_what_ingest_takes_for_no_number_is_none(tmp_path, kind, cell):
    (tmp_path / "a.csv").write_text(f"x\n1\n{cell}\n")
    with pytest.raises(InputError, match=f"a.csv, line 3: x is '{cell}', which is not a {kind}$"):
        list(text_rows.csv_rows(tmp_path / "a.csv", signature(x=(kind, ()))))


def test_whole_numbers_as_pandas_writes_them(tmp_path):
    (tmp_path / "a.csv").write_text("x\n9007199254740993.0\n -5.00\n\u00a07\n")
    found = [one["x"].tolist() for one in text_rows.csv_rows(tmp_path / "a.csv", signature(x=("int64", ())))]
    assert found == [[9007199254740993], [-5], [7]]


def test_blocks_are_whole_lines(monkeypatch, tmp_path):
    monkeypatch.setattr(text_blocks, "BLOCK", 7)
    content = b"\xef\xbb\xbfab\ncd\r\nefghijklmnopq\rr\n\ns"
    blocks = text_blocks.Blocks(io.BufferedReader(io.BytesIO(content)), tmp_path, newline="")
    found = []
    while block := blocks.peek():
        found.append(block)
        blocks.drop()
    assert b"".join(found) == content[3:] and all(block[-1:] in b"\r\n" for block in found[:-1])


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
@pytest.mark.parametrize("number", ["1e400", "-1e400", "9" * 400 + ".0", " 2E+999"])
@pytest.mark.parametrize("first", ["1", '"1"', "inf"])
def test_a_number_beyond_any_float_is_too_large_whichever_reads(tmp_path, first, number, kind):
    (tmp_path / "a.csv").write_text(f"x\n{first}\n{number}\n")
    with pytest.raises(
        InputError, match=rf"a.csv, line 3: x is '{re.escape(number)[:20]}.*, which is too large for a {kind}$"
    ):
        list(text_rows.csv_rows(tmp_path / "a.csv", signature(x=(kind, (1,)))))
    for row in (f'{{"x": [0, {number}]}}', f"[Infinity, {number}]", f' {{"x": [Infinity, {number}], "id": 1}}'):
        (tmp_path / "a.jsonl").write_text(f'{{"x": [0, 1]}}\n{row}\n')
        with pytest.raises(InputError, match=rf"a.jsonl, line 2: x has values that are too large for {kind}$"):
            list(json_rows.json_rows(tmp_path / "a.jsonl", signature(x=(kind, (2,)))))


@pytest.mark.parametrize("block", [16, 1000])
def test_infinity_itself_is_taken(tmp_path, monkeypatch, block):
    monkeypatch.setattr(text_blocks, "BLOCK", block)
    words, taken = ["inf", "-Infinity", " +INF", "infinity", "1e300"], signature(x=("float64", ()))
    expected = [np.inf, -np.inf, np.inf, np.inf, 1e300]
    (tmp_path / "a.csv").write_text("\n".join(["x", *words]) + "\n")
    assert np.concatenate([one["x"] for one in text_rows.csv_rows(tmp_path / "a.csv", taken)]).tolist() == expected
    numbers = ["Infinity", "-Infinity", "Infinity", "Infinity", "1e300"]
    (tmp_path / "a.jsonl").write_text("".join(f'{{"x": {number}, "id": 1e400}}\n' for number in numbers))
    assert np.concatenate([one["x"] for one in json_rows.json_rows(tmp_path / "a.jsonl", taken)]).tolist() == expected
