"""What is a `dvc.lock`."""

import pytest

from tapeline.repository.dvc.lock_file import is_lock


@pytest.mark.parametrize(
    ("tree", "valid"), [({"schema": "2.0", "stages": {}}, True), ({"schema": "2.0", "stages": 3}, False), (None, False)]
)
def test_the_schema_of_a_lock(tree, valid):
    assert is_lock(tree) == valid
