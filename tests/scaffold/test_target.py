"""Whether a column is learned as a class or as a number, and which cell is at fault where it is neither."""

import datetime
import decimal

import pyarrow as pa
import pytest

from tapeline.ingest.cells import Cells
from tapeline.runtime.errors import InputError
from tapeline.scaffold.target import target_kind


def kind_of(values, *, named_so=False, type=None):
    whole = pa.array(values, type)
    parts = [Cells(whole[first : first + 7], first, "t.csv: column 'c'") for first in range(0, len(whole), 7)]
    return target_kind(lambda: parts, named_so=named_so)


@pytest.mark.parametrize(
    ("values", "is_class"),
    [
        (["x", "y"] * 20, True),
        (["0", " 1 "] * 20, True),
        ([0, 1, 2] * 20, True),
        ([str(n) for n in range(400)], False),
        ([n / 7 for n in range(40)], False),
        ([decimal.Decimal(n) / 4 for n in range(40)], False),
        (["1.5", "2"] * 20, False),
        (["true", "false"] * 20, True),
        (pa.array(["x", "y"] * 20).dictionary_encode(), True),
    ],
)
def test_what_most_cells_are(values, is_class):
    assert kind_of(values) == (is_class, ())


def test_whole_numbers_that_are_no_class_ids_are_a_number_and_that_is_said():
    is_class, [said] = kind_of(["3", "8", "5", "4"] * 20)
    assert not is_class
    assert said == "its whole numbers 3, 4, 5, ... are not class ids: to predict a class, write names, or 0, 1, 2, ..."


@pytest.mark.parametrize(
    ("values", "first"), [(["1,5", "-2,5"], "1,5"), (["a", "10%", "20 %"], "10%"), (["1,234.5", "2,000"], "1,234.5")]
)
def test_few_numbers_of_another_notation_are_classes_and_that_is_said(values, first):
    is_class, [said] = kind_of(values * 20)
    assert is_class
    assert said == (
        f"{first!r} is text, and so a class: to predict a number, write it with a decimal point, and without thousands "
        "separators and percent signs"
    )


@pytest.mark.parametrize("values", [["1.2.3", "1.2.4"], ["a,b", "c"], [",", "%"], ["1" * 100_000 + "x,", "a"]])
def test_names_with_points_or_commas_are_classes(values):
    assert kind_of(values * 20) == (True, ())


@pytest.mark.parametrize("form", ["{},50", "{},000", "{}%", "-1.{},5"])
def test_many_numbers_of_another_notation_are_refused(form):
    with pytest.raises(InputError, match="has '.*1.*', which is text: write its numbers with a decimal point, and"):
        kind_of([form.format(n + 100) for n in range(40)])


def test_text_that_differs_in_most_rows_is_refused():
    with pytest.raises(InputError, match=r"has 21 different texts in 40 rows: a class needs several rows"):
        kind_of([f"name {n % 21}" for n in range(40)])
    assert kind_of([f"name {n % 20}" for n in range(40)]) == (True, ())


@pytest.mark.parametrize("values", [[0.0, 1.0, 2.0], ["0.0", "1", "2.0"]])
def test_floats_that_look_like_class_ids_are_a_number_and_that_is_said(values):
    is_class, [said] = kind_of(values * 20, named_so=True)
    assert not is_class
    assert said == "its numbers 0, 1, 2 look like class ids: to predict a class, write them as integers"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([str(n * 10) for n in range(300)] + ["NA"], "row 301 below the header: 'NA' is not a number; fix the row"),
        (["1.5", "NA", "2.5", "?", "3.5"], "row 2 below the header: 'NA' is not a number"),
        (["1.5", None, "2.5"], "row 2 below the header: the value is missing"),
        (["1.5", "nan", "2.5"], "row 2 below the header: 'nan' is not finite"),
        (["x", None, "y"], "row 2 below the header: the value is missing"),
        (["x", " ", "y"], "row 2 below the header: ' ' is blank"),
        ([None, None], "row 1 below the header: the value is missing"),
        (["16777217", "3"], "row 1 below the header: '16777217' would become 16777216 as float32"),
        ([True, False], "is bool: to predict it, write names such as no and yes, or 0 and 1"),
        ([datetime.date(2024, 1, 2)] * 2, "is date32[day]: a feature needs numbers"),
        ([[1], [2]], "is list<item: int64>: a feature needs numbers"),
    ],
)
def test_a_cell_or_a_type_that_does_not_fit_is_named(values, said):
    with pytest.raises(InputError) as refused:
        kind_of(values)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_column_that_is_named_as_classes_has_ids_that_ingest_takes():
    assert kind_of(["0", "1"] * 20, named_so=True) == (True, ())
    with pytest.raises(InputError, match="has class ids 1, 2, 3: they must be 0, 1, 2"):
        kind_of(["1", "2", "3"] * 20, named_so=True)


def test_text_of_more_values_than_are_counted_is_refused():
    with pytest.raises(InputError, match=r"column 'c' has more than 10,000 different texts: they are too many classes"):
        kind_of([f"name {n % 10_001}" for n in range(30_003)])
    assert kind_of([f"name {n % 10_000}" for n in range(20_000)]) == (True, ())


def test_most_of_all_cells_decide_what_text_is():
    with pytest.raises(InputError, match=r"row 1 below the header: 'x' is not a number; .*1,000 or more bad cells"):
        kind_of(["x"] * 1500 + ["1.5"] * 1501)
    assert kind_of(["x"] * 1500 + ["1.5"] * 1500) == (True, ())


def test_a_number_that_only_all_cells_tell_to_be_lost_is_named():
    with pytest.raises(InputError, match=r"row 20 below the header: '1e-50' would become 0 as float32"):
        kind_of(["0"] * 19 + ["1e-50"])
