"""DVC's own lock of a file."""

import pytest

from tapeline.repository.dvc.exceptions import LockError
from tapeline.repository.dvc.locking import file_lock


@pytest.mark.parametrize("hardlink", [False, True])
def test_a_lock_that_another_holds(tmp_path, hardlink):
    lock = tmp_path / "lock"
    with file_lock(lock, hardlink=hardlink), pytest.raises(LockError), file_lock(lock, hardlink=hardlink):
        pass
    with file_lock(lock, hardlink=hardlink):
        pass
