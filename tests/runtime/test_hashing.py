"""One hash over several files, or over all that a folder holds."""

import hashlib
import os

import pytest

from tapeline.runtime import files


def test_a_tree_is_its_relative_names_and_contents(tmp_path):
    for top in ("one", "two"):
        for name, content in {"b": "1", "inner/a": "2", "inner/deep/c": ""}.items():
            path = tmp_path / top / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
    (tmp_path / "two" / "empty").mkdir()
    one = files.sha256_of_tree(tmp_path / "one")
    lines = [f"{name} {hashlib.sha256(text).hexdigest()}\n" for name, text in (("b", b"1"), ("inner/a", b"2"))]
    lines.append(f"inner/deep/c {hashlib.sha256(b'').hexdigest()}\n")
    assert one == hashlib.sha256("".join(lines).encode()).hexdigest() == files.sha256_of_tree(tmp_path / "two")
    seen = {one}
    (tmp_path / "two" / "b").write_text("2")
    seen.add(files.sha256_of_tree(tmp_path / "two"))
    (tmp_path / "two" / "b").rename(tmp_path / "two" / "d")
    seen.add(files.sha256_of_tree(tmp_path / "two"))
    (tmp_path / "two" / "e").touch()
    seen.add(files.sha256_of_tree(tmp_path / "two"))
    assert len(seen) == 4


def test_a_file_is_a_tree_of_its_own_and_nothing_is_none(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"content")
    assert files.sha256_of_tree(path) == files.sha256(path) == hashlib.sha256(b"content").hexdigest()
    with pytest.raises(FileNotFoundError):
        files.sha256_of_tree(tmp_path / "y")


def test_several_files_count_by_name_content_and_order(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"1")
    two.write_bytes(b"2")
    hashes = {files.sha256_of_files(paths) for paths in ([], [one], [two], [one, two], [two, one])}
    assert len(hashes) == 5
    (tmp_path / "inner").mkdir()
    elsewhere = (tmp_path / "inner" / "one").resolve()
    elsewhere.write_bytes(b"1")
    assert files.sha256_of_files([elsewhere]) == files.sha256_of_files([one])


def test_a_name_may_be_any_bytes(tmp_path):
    """It ended in a traceback of an encoder."""
    name = b"caf\xe9"
    path = tmp_path / os.fsdecode(name)
    path.write_bytes(b"1")
    line = name + b" " + hashlib.sha256(b"1").hexdigest().encode() + b"\n"
    assert files.sha256_of_tree(tmp_path) == files.sha256_of_files([path]) == hashlib.sha256(line).hexdigest()
