"""A value by a key such as DVC writes."""

import pytest

from tapeline.parsing import dotted_key


@pytest.mark.parametrize(
    ("key", "found"),
    [("a.b.1", [2]), ("a.b", [[1, 2]]), ("c", [None]), ("a.b.2", []), ("a.b.-1", []), ("a.x", []), ("c.x", [])],
)
def test_the_value_at_a_key(key, found):
    assert list(dotted_key.at({"a": {"b": [1, 2]}, "c": None}, key)) == found
