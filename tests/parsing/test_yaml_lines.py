"""The last line of a value, which is not where the next token begins."""

import pytest
from ruamel.yaml import YAML

from tapeline.parsing.yaml_lines import last_line


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("a: 1\nd: 2\n", 0),
        ("a:\n  b: 1\n\n# more\nd: 2\n", 1),
        ("a: {b: 1,\n  c: 2}\nd: 2\n", 1),
        ("a:\n  - 1\n  - |\n    x\n    y\nd: 2\n", 4),
        ("a:\n  b:\n  c:\nd: 2\n", 2),
        ("a:\n  b:\n    c:\n  d: 2", 3),
        ("a:\n  b: 1\n  c:", 2),
        ("a:\n", 0),
        ("a:\n\n# of b\nb: 1\n", 0),
        ("a:\n  b:\n\n  # of c\nc: 1\n", 1),
        ("a:\n  - 1\n  -\n\n# of b\nb: 1\n", 2),
        ("a:\n  - 1\n  -", 2),
        ("a: |\n\nb: 1\n", 1),
    ],
)
def test_the_last_line(text, last):
    (key, value), *_ = YAML().compose(text).value
    assert max(key.start_mark.line, last_line(value)) == last


def test_a_value_that_is_empty_ends_before_the_next_key():
    [(_, value)] = YAML().compose("a:\n  b:\n    c:\n  d: 2\n").value
    assert last_line(value.value[0][1]) == 2
