"""A table has the same bytes everywhere."""

from tapeline.parsing import csv_text


def test_cells_are_quoted_where_needed_and_floats_are_exact():
    rows = [['a "b"', 0.1 + 0.2, 3], ["x,\n", float("nan"), ""]]
    assert csv_text.table(["name", "v", "n"], rows) == ('name,v,n\n"a ""b""",0.30000000000000004,3\n"x,\n",nan,\n')
