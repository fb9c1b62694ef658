"""After a crash at any moment the old thing or the new one is there whole; after the end, the new one is certain."""

from collections.abc import Callable
from pathlib import Path

import crashes
import numpy as np
import pytest

from tapeline.runtime import files, processes


@pytest.mark.parametrize(
    ("write", "new"),
    [
        (lambda path: files.write_bytes(path, b"new"), b"new"),
        (lambda path: files.write_text(path, "new"), b"new"),
        (lambda path: files.write_json(path, 1), b"1\n"),
    ],
)
@pytest.mark.parametrize("old", [b"old", None])
def test_a_file_is_old_or_new(tmp_path: Path, write: Callable[[Path], None], new: bytes, old: bytes | None) -> None:
    path = tmp_path / "x"
    if old:
        path.write_bytes(old)
    moments = crashes.recorded(tmp_path, lambda: write(path))
    assert len(moments) > 3
    for moment in moments:
        for tree in moment.trees():
            assert tree.get("x") in (old, new), moment
    assert moments[-1].flushed == {"x": new}


def test_a_folder_is_old_or_new_and_the_old_one_lasts_until_then(tmp_path: Path) -> None:
    old, new = {"a": b"old", "b": b"old"}, {"a": b"new", "c": b"new"}
    (tmp_path / "out").mkdir()
    for name, content in old.items():
        (tmp_path / "out" / name).write_bytes(content)

    def replace() -> None:
        with files.replacing(tmp_path / "out") as folder:
            for name, content in new.items():
                (folder / name).write_bytes(content)

    moments = crashes.recorded(tmp_path, replace)
    for moment in moments:
        for tree in moment.trees():
            out, aside = below(tree, "out"), below(tree, ".out.old.partial")
            assert out in (old, new) or (not out and aside == old), moment
    assert below(moments[-1].flushed, "out") == new


def below(tree: crashes.Tree, folder: str) -> crashes.Tree:
    return {name.removeprefix(f"{folder}/"): content for name, content in tree.items() if name.startswith(f"{folder}/")}


def test_a_checkpoint_is_whole_or_not_there(tf, tmp_path: Path) -> None:
    from tapeline.train.checkpoints import disk
    from tapeline.train.engine.state import State

    state = State({"w": tf.Variable(np.arange(9, dtype=np.float32))}, ("w",), ("loss",))
    moments = crashes.recorded(tmp_path, lambda: disk.write(tmp_path, state.snapshot()))
    whole = below(moments[-1].killed, "step-000000000000")
    assert set(whole) == {"manifest", "state.index", "state.data-00000-of-00001"}
    for moment in moments:
        for tree in moment.trees():
            assert below(tree, "step-000000000000") in ({}, whole), moment
    assert below(moments[-1].flushed, "step-000000000000") == whole


@pytest.mark.parametrize("made", ["file", "folder", "lock", "checkpoint"])
def test_what_stands_in_new_folders_is_certain_too(tf, tmp_path: Path, made: str) -> None:
    from tapeline.train.checkpoints import disk
    from tapeline.train.engine.state import State

    def folder() -> None:
        with files.replacing(tmp_path / "a/b/c") as new:
            (new / "x").write_bytes(b"new")

    def checkpoint() -> None:
        with processes.exclusive(tmp_path / "a/b/lock", waiting=print):  # as training holds it
            disk.write(tmp_path / "a/b", State({"w": tf.Variable(1.0)}, ("w",), ()).snapshot())

    def lock() -> None:
        with processes.exclusive(tmp_path / "a/b/lock", waiting=print):
            files.write_bytes(tmp_path / "a/b/x", b"new")

    operations = {
        "file": lambda: files.write_bytes(tmp_path / "a/b/x", b"new"),
        "folder": folder,
        "lock": lock,
        "checkpoint": checkpoint,
    }
    last = crashes.recorded(tmp_path, operations[made])[-1]
    assert last.killed
    assert {name: content for name, content in last.killed.items() if not name.endswith("lock")}.items() <= (
        last.flushed.items()
    )
