"""A failure is one line that a terminal only shows, whatever stands in it."""

import pytest

from tapeline.runtime.errors import InputError, RunError, TapelineError, plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("größer 8×8 → 日本", "größer 8×8 → 日本"),
        ("a\nb\r\nc\u2028d", "a b c d"),
        ("\x1b[2J\x07\x00", "\\x1b[2J\\x07\\x00"),
        ("\udce9\u202e", "\\udce9\\u202e"),
        ("", ""),
    ],
)
def test_a_line(text, shown):
    assert plain(text) == shown and shown.isprintable()
    for kind in (TapelineError, InputError, RunError):
        assert str(kind(text)) == shown
    shown.encode()
