"""What is listed while others are at work: what goes meanwhile is no error."""

import shutil
import threading
import time

import pytest

from tapeline.repository.retention.checkpoints import checkpoint_folders
from tapeline.repository.retention.copies import model_copies
from tapeline.repository.retention.item import Limits, size_of
from tapeline.repository.worktrees import leftovers


def checkpoints(folder):
    return list(checkpoint_folders(folder, pipelines=(), limits=Limits(), now=0.0))


def copies(folder):
    return list(model_copies(folder, limits=Limits(), now=0.0))


@pytest.mark.parametrize("listed", [checkpoints, copies, leftovers, size_of])
def test_what_goes_meanwhile_is_left_out(tmp_path, listed):
    stopped = threading.Event()

    def churn():
        while not stopped.is_set():
            for name in "abc":
                (tmp_path / name / "step-1").mkdir(parents=True)
                (tmp_path / name / "step-1" / "manifest").touch()
                (tmp_path / name / ".lock").touch()
            for name in "abc":
                shutil.rmtree(tmp_path / name)

    others = threading.Thread(target=churn)
    others.start()
    try:
        end = time.monotonic() + 1
        while time.monotonic() < end:
            listed(tmp_path)
    finally:
        stopped.set()
        others.join()


def test_the_size_of_a_folder_is_that_of_its_files_and_links(tmp_path):
    (tmp_path / "far").write_bytes(bytes(1000))
    folder = tmp_path / "folder"
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "x").write_bytes(b"123")
    (folder / "link").symlink_to(tmp_path / "far")
    (folder / "tree").symlink_to(tmp_path)
    assert size_of(folder) == 3 + len(str(tmp_path / "far")) + len(str(tmp_path))
    assert size_of(tmp_path / "missing") == 0
