"""Which places are left out of mutation testing: each is one of the source as it is."""

import re

import pytest

from tests.mutants.equivalent import EQUIVALENT, is_equivalent
from tests.mutants.targets import TARGETS


@pytest.mark.parametrize(("file", "pattern"), [entry[:2] for entry in EQUIVALENT])
def test_each_is_of_a_line_that_is_there(root, file, pattern):
    texts = {name: (root / "src" / "tapeline" / name).read_text() for name in TARGETS if file in ("*", name)}
    found = [match for text in texts.values() for match in re.finditer(pattern, text, re.MULTILINE)]
    assert len(found) > 1 if file == "*" else len(found) == 1


def test_nothing_else_of_such_a_line_is_left_out():
    line = "@dataclass(frozen=True, eq=True)"
    assert [column for column in range(len(line)) if is_equivalent("any.py", line, column)] == [18, 19, 20, 21]
    line = "CHUNK_BYTES = 64 << 20"
    assert [column for column in range(len(line)) if is_equivalent("train/data/feed.py", line, column)] == [
        14,
        15,
        20,
        21,
    ]
    assert not is_equivalent("train/data/batches.py", line, 14)
