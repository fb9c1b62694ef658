"""A lock has one holder, also where others remove its file."""

import threading
import time

import pytest

from tapeline.runtime import locks, processes


@pytest.mark.timeout(60)
def test_who_has_waited_for_a_file_that_is_gone_holds_the_one_that_others_find(tmp_path):
    path = tmp_path / "lock"
    told, found = threading.Event(), []

    def wait():
        with processes.exclusive(path, waiting=lambda said: told.set(), poll=0.01):
            found.append(path.exists() and locks.is_held(path))

    with processes.exclusive(path, waiting=print):
        other = threading.Thread(target=wait)
        other.start()
        assert told.wait(30)
        path.unlink()
    other.join()
    assert found == [True]


@pytest.mark.timeout(60)
def test_one_holder_at_a_time_whoever_tidies(tmp_path):
    path, inside, most = tmp_path / "lock", [], []
    end = time.monotonic() + 1

    def hold():
        while time.monotonic() < end:
            with processes.exclusive(path, waiting=lambda said: None, poll=0):
                inside.append(1)
                most.append(len(inside))
                time.sleep(0.0005)
                inside.pop()

    def tidy():
        while time.monotonic() < end:
            locks.remove_unheld(path)

    threads = [threading.Thread(target=one) for one in (hold, hold, tidy, tidy)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) > 20 and set(most) == {1}
