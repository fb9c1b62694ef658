"""DVC's own lock of a file."""

import pytest

from tapeline.repository.dvc.exceptions import LockError
from tapeline.repository.dvc.locking import file_lock


def test_a_lock_that_another_holds(tmp_path):
    with file_lock(tmp_path / "lock"), pytest.raises(LockError), file_lock(tmp_path / "lock"):
        pass
    with file_lock(tmp_path / "lock"):
        pass
