"""Tables for a terminal."""

from tapeline.runtime.text_table import aligned


def test_columns_are_as_wide_as_their_widest_cell():
    assert aligned([("name", "is"), ("a", "longer"), ("", "")]) == ["name  is", "a     longer", ""]
