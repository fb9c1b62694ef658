"""Copies of recorded folders."""

import errno
import hashlib
import json
import os
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from tapeline.registry import store
from tapeline.registry.store import Store
from tapeline.repository.dvc.repository import Remote
from tapeline.runtime.errors import InputError, RunError


def test_two_at_once_copy_once_and_both_have_it(tmp_path, monkeypatch):
    """The second comes while the first is writing: it waits, and finds what it wanted."""
    content = b"weights"
    md5 = hashlib.md5(content).hexdigest()
    listing = json.dumps([{"md5": md5, "relpath": "inner/deep/weights"}]).encode()
    folder_md5 = f"{hashlib.md5(listing).hexdigest()}.dir"
    for name, data in ((md5, content), (folder_md5, listing)):
        (tmp_path / name).write_bytes(data)
    monkeypatch.setattr(Store, "path", lambda self, md5: tmp_path / md5)
    first, second = Store(tmp_path), Store(tmp_path)
    writing, go, wrote = threading.Event(), threading.Event(), []
    write = Store.write

    def slowly(self, md5, folder, *, sums):
        wrote.append(self)
        writing.set()
        assert go.wait(30)
        write(self, md5, folder, sums=sums)

    monkeypatch.setattr(Store, "write", slowly)
    copy, errors = tmp_path / "models" / "copy", []

    def keep(store):
        try:
            assert store.kept(folder_md5, copy) == copy
            assert (copy / "inner" / "deep" / "weights").read_bytes() == content
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=keep, args=(store,)) for store in (first, second)]
    threads[0].start()
    assert writing.wait(30)
    threads[1].start()
    threads[1].join(0.5)
    assert threads[1].is_alive()
    go.set()
    for thread in threads:
        thread.join(30)
    assert (errors, wrote) == ([], [first])


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache of objects in a folder, and a function that adds a file or a folder's listing to it."""
    folder = tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setattr(Store, "path", lambda self, md5: folder / md5)

    def add(content):
        ending, data = ("", content) if isinstance(content, bytes) else (".dir", json.dumps(content).encode())
        md5 = hashlib.md5(data).hexdigest() + ending
        (folder / md5).write_bytes(data)
        return md5

    add.folder = folder
    return add


def listed(cache, files):
    return cache([{"md5": cache(content), "relpath": name} for name, content in files.items()])


def remote(folder, fails=None):
    """A remote whose objects are files of a folder."""

    def get_file(path, to):
        Path(to).write_bytes((folder / path).read_bytes())
        if fails:
            raise fails

    objects = SimpleNamespace(
        fs=SimpleNamespace(get_file=get_file), oid_to_path=lambda md5: md5, exists=lambda md5: (folder / md5).exists()
    )
    return Remote(objects)


def test_a_copy_is_mended_only_where_it_is_not_what_was_recorded(cache, tmp_path):
    md5 = listed(cache, {"a": b"1", "inner/b": b"2"})
    copy = Store(tmp_path).kept(md5, tmp_path / "copy")
    for damage in ("nothing", "altered", "more", "missing"):
        before = copy.stat().st_ino
        if damage != "nothing":
            {"altered": copy / "a", "more": copy / "c"}.get(damage, copy / "a").write_bytes(b"3")
        if damage == "missing":
            (copy / "a").unlink()
        os.utime(copy, (1, 1))
        assert Store(tmp_path).kept(md5, copy) == copy
        assert (copy.stat().st_ino == before) == (damage == "nothing") and copy.stat().st_mtime > 1
        assert {p.relative_to(copy).as_posix(): p.read_bytes() for p in copy.rglob("*") if p.is_file()} == {
            "a": b"1",
            "inner/b": b"2",
        }


def test_only_what_is_below_a_path_is_copied(cache, tmp_path):
    md5 = listed(cache, {"a": b"1", "inner/a": b"2", "inner/deep/b": b"3"})
    Store(tmp_path).write(md5, tmp_path / "copy", below="inner/")
    assert sorted(path.relative_to(tmp_path / "copy").as_posix() for path in (tmp_path / "copy").rglob("*")) == [
        "a",
        "deep",
        "deep/b",
    ]
    assert (tmp_path / "copy" / "a").read_bytes() == b"2"


def test_a_disk_that_writes_something_else_is_said(cache, tmp_path, monkeypatch):
    md5 = listed(cache, {"a": b"1"})
    monkeypatch.setattr(store, "md5_of", lambda path: "0" if path.name == "a" else path.name.removesuffix(".dir"))
    with pytest.raises(RunError, match="differs from what was copied into it: the disk or the memory is faulty"):
        Store(tmp_path).write(md5, tmp_path)


def test_what_the_cache_and_the_remote_lack(cache, tmp_path, monkeypatch):
    md5 = listed(cache, {"a": b"1", "b": b"2"})
    one, two = (hashlib.md5(content).hexdigest() for content in (b"1", b"2"))
    there = tmp_path / "remote"
    there.mkdir()
    monkeypatch.setattr(Store, "_remote", lambda self: None)
    assert Store(tmp_path).missing(md5) == Store(tmp_path).missing_in_remote(md5) == []
    monkeypatch.setattr(Store, "_remote", lambda self: remote(there))
    assert Store(tmp_path).missing_in_remote(md5) == [md5, one, two]
    for name in (md5, one):
        (there / name).write_bytes(b"")
    assert Store(tmp_path).missing_in_remote(md5) == [two]
    (cache.folder / two).unlink()
    assert Store(tmp_path).missing(md5) == [two] == Store(tmp_path).missing(two)
    (cache.folder / md5).unlink()
    assert Store(tmp_path).missing(md5) == [md5]


def test_what_the_cache_lacks_comes_from_the_remote_and_is_checked(cache, tmp_path, monkeypatch):
    md5 = listed(cache, {"a": b"1"})
    there = cache.folder.rename(tmp_path / "remote")
    monkeypatch.setattr(Store, "_remote", lambda self: None)
    with pytest.raises(
        InputError, match="is missing and no DVC remote is set: set the remote that has it, or run `dvc repro`"
    ):
        Store(tmp_path).bring(md5)
    for error, kind, said in (
        (FileNotFoundError("x"), InputError, f"^the remote has no object {md5}: `dvc push` where it was made$"),
        (InputError("as it is"), InputError, "^as it is$"),
        (ValueError("two\n lines"), RunError, r"where it was made \(ValueError: two lines\)$"),
        (PermissionError(errno.EACCES, "no", "a file"), PermissionError, "a file"),
    ):
        monkeypatch.setattr(Store, "_remote", lambda self, error=error: remote(there, error))
        with pytest.raises(kind, match=said):
            Store(tmp_path).bring(md5)
        assert list(cache.folder.iterdir()) == []
    monkeypatch.setattr(Store, "_remote", lambda self: remote(there))
    assert Store(tmp_path).listing(md5) == {"a": hashlib.md5(b"1").hexdigest()}
    assert [path.name for path in cache.folder.iterdir()] == [md5]
    one = hashlib.md5(b"1").hexdigest()
    (there / one).write_bytes(b"altered")
    said = f"^the remote's object {one} was altered: its MD5 does not match its name; delete it there and `dvc push`"
    with pytest.raises(InputError, match=said):
        Store(tmp_path).write(md5, tmp_path / "copy")
    assert [path.name for path in cache.folder.iterdir()] == [md5], "a bad object stayed in the cache"
    (there / one).write_bytes(b"1")
    Store(tmp_path).write(md5, tmp_path / "copy")
    (cache.folder / one).write_bytes(b"altered")
    with pytest.raises(InputError, match=f"{one} was altered: .*; delete it and fetch it again"):
        Store(tmp_path).bring(one)


@pytest.mark.parametrize("content", [{}, [1], [{"md5": "0"}], [{"relpath": "a"}], 7, None])
def test_what_is_no_listing(cache, tmp_path, content):
    md5 = cache(content)
    if content == {}:
        assert Store(tmp_path).listing(md5) == {}
    else:
        with pytest.raises(InputError, match=f"^{md5} is not a list of a folder's files: dvc.lock was altered$"):
            Store(tmp_path).listing(md5)


def test_a_file_is_its_own_listing_and_a_name_that_is_no_md5_is_refused(tmp_path):
    assert Store(tmp_path).listing("0" * 32) == {"": "0" * 32}
    for name in ("", "0" * 31, "g" * 32, "../" + "0" * 29):
        with pytest.raises(InputError, match="is not an MD5: dvc.lock, or a folder's list in the cache, was altered"):
            Store(tmp_path).path(name)


def test_md5_is_had_where_a_policy_forbids_it_for_security(tmp_path, monkeypatch):
    md5 = hashlib.md5

    def forbidden(*given, usedforsecurity=True):
        assert not usedforsecurity
        return md5(*given)

    monkeypatch.setattr(hashlib, "md5", forbidden)
    (tmp_path / "a").write_bytes(b"1")
    assert store.md5_of(tmp_path / "a") == md5(b"1").hexdigest()


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ({}, ""),
        ({"export@one": []}, ""),
        ({"export@one": ["changed command"]}, "export@one is stale (changed command)"),
        (
            {
                "train@one": [{"changed deps": {"a.py": "modified", "b.py": "deleted"}}],
                "export@one": ["changed command"],
            },
            "train@one is stale (changed deps: a.py is modified)",
        ),
        (
            {"train@one": [{"changed deps": {"params.yaml": {"a": "new"}}}]},
            "train@one is stale (changed deps: params.yaml is changed)",
        ),
    ],
)
def test_which_stage_is_stale_and_why(status, said):
    assert store.first_stale(status) == said


def test_no_link_that_somebody_has_put_into_a_shared_cache_is_written_through(cache, tmp_path, monkeypatch):
    """The name had this process's number: a link for each number that there is led to any file of this user."""
    (tmp_path / "remote").mkdir()
    monkeypatch.setattr(Store, "_remote", lambda self: remote(tmp_path / "remote"))
    md5, mine = cache(b"1"), tmp_path / "mine"
    (cache.folder / md5).rename(tmp_path / "remote" / md5)
    mine.write_text("precious")
    (cache.folder / f".{md5}.{os.getpid()}.partial").symlink_to(mine)
    assert Store(tmp_path).bring(md5).read_bytes() == b"1"
    assert mine.read_text() == "precious"
