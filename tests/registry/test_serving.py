"""The serving folder by itself: which integer is next, what is live, what goes, what a failed copy leaves."""

import hashlib
import json
import os

import pytest

from tapeline.registry import serving
from tapeline.registry.serving import Serving
from tapeline.registry.store import Store
from tapeline.runtime import files
from tapeline.runtime.errors import InputError


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache of objects in a folder, and a function that adds a model to it."""
    monkeypatch.setattr(Store, "path", lambda self, md5: tmp_path / "cache" / md5)
    (tmp_path / "cache").mkdir()

    def add(content):
        def kept(data, ending=""):
            md5 = hashlib.md5(data).hexdigest() + ending
            (tmp_path / "cache" / md5).write_bytes(data)
            return md5

        files = {"model.json": b"{}", "saved_model/saved_model.pb": content, "saved_model/variables/v": content * 3}
        listing = [{"md5": kept(data), "relpath": name} for name, data in files.items()]
        return kept(json.dumps(listing).encode(), ".dir")

    return add


@pytest.fixture
def served(tmp_path):
    return Serving(tmp_path / "serving" / "one")


def test_integers_grow_and_the_last_two_stay(served, cache, tmp_path):
    assert (served.exists, served.integers(), served.live()) == (False, [], None)
    for number in (1, 2, 3):
        served.put(f"v1.0.{number}", cache(b"%d" % number), Store(tmp_path))
        assert served.live()["version"] == f"v1.0.{number}"
    assert served.integers() == [1, 2, 3]
    served.put("v1.0.3", cache(b"3"), Store(tmp_path))  # is live already
    assert served.integers() == [1, 2, 3]
    served.put("v1.0.2", cache(b"3"), Store(tmp_path))  # another version of these bytes is not
    served.put("v1.0.2", cache(b"2"), Store(tmp_path))  # nor are other bytes of this version
    assert served.integers() == [1, 2, 3, 4, 5]
    (served.folder / ".9.partial").mkdir()
    served.tidy()
    assert sorted(path.name for path in served.folder.iterdir()) == ["4", "5"]
    found = {p.relative_to(served.folder / "5").as_posix() for p in (served.folder / "5").rglob("*") if p.is_file()}
    assert found == {"saved_model.pb", "variables/v", "version.json"}
    assert (served.folder.parent / ".gitignore").read_text() == "*\n"
    served.clear()
    assert served.exists and served.integers() == []


@pytest.mark.parametrize("left", ["clear", "drop"])
def test_a_number_that_was_served_is_not_given_to_other_bytes(served, cache, tmp_path, left):
    """Whoever goes by the number would keep the revoked model."""
    for number in (1, 2):
        served.put(f"v1.0.{number}", cache(b"%d" % number), Store(tmp_path))
    served.clear() if left == "clear" else served.drop(["v1.0.2"])
    served.put("v1.0.3", cache(b"3"), Store(tmp_path))
    assert served.integers()[-1] == 3 and served.live()["version"] == "v1.0.3"
    (served.folder.parent / ".one.last").write_text("no number")
    served.clear()
    served.put("v1.0.4", cache(b"4"), Store(tmp_path))
    assert served.integers() == [4]


def test_a_folder_that_only_says_it_is_the_model_is_not(served, cache, tmp_path):
    """Of a version that was registered without SHA-256, the files are those of DVC's list."""
    model, other, store = cache(b"1"), cache(b"2"), Store(tmp_path)
    served.put("v1.0.0", model, store)
    assert served.served_as(model, store, sums=None) and not served.served_as(other, store, sums=None)
    index = served.folder / "1" / "version.json"
    (served.folder / "1" / "saved_model.pb").write_bytes(b"2")
    said = json.loads(index.read_text())
    index.write_text(json.dumps(said | {"files": said["files"] | {"saved_model.pb": hashlib.md5(b"2").hexdigest()}}))
    assert served.live()["version"] == "v1.0.0" and not served.served_as(model, store, sums=None)
    served.put("v1.0.0", model, store)
    assert served.integers() == [1, 2] and served.served_as(model, store, sums=None)


def test_what_is_no_integer_is_not_served(served):
    for name in ("7", "10", "x", "²", ".11.partial"):
        (served.folder / name).mkdir(parents=True)
    (served.folder / "12").write_text("a file")
    assert served.integers() == [7, 10]
    assert served.live() is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"files": 1}',
        b'{"files": {"../x": "0"}}',
        b'{"files": {}, "name": "one"}',
        None,
    ],
)
def test_an_index_that_is_not_whole_is_none(served, content):
    (served.folder / "1").mkdir(parents=True)
    if content is not None:
        (served.folder / "1" / serving.INDEX).write_bytes(content)
    assert served.live() is None


def test_an_altered_a_missing_and_a_further_file_are_seen(served, cache, tmp_path):
    served.put("v1.0.0", cache(b"1"), Store(tmp_path))
    file = served.folder / "1" / "variables" / "v"
    for damage in (lambda: file.write_bytes(b"112"), file.unlink, (file.parent / "more").touch):
        damage()
        assert served.live() is None
        file.write_bytes(b"111")
        assert (served.live() is None) == (file.parent / "more").exists()


def test_a_copy_that_fails_leaves_nothing(served, cache, tmp_path):
    served.put("v1.0.0", cache(b"1"), Store(tmp_path))
    second = cache(b"2")
    object_ = tmp_path / "cache" / hashlib.md5(b"222").hexdigest()
    object_.write_bytes(b"22X")
    with pytest.raises(InputError, match="was altered: its MD5 does not match its name"):
        served.put("v1.0.1", second, Store(tmp_path))
    assert sorted(path.name for path in served.folder.iterdir()) == ["1"]
    assert served.live()["version"] == "v1.0.0"


def test_what_went_wrong_is_told_and_not_that_nothing_was_left_to_remove(served, cache, tmp_path, monkeypatch):
    def lost(self, md5, folder, *, below, sums):
        folder.rmdir()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Store, "write", lost)
    with pytest.raises(OSError, match="No space left on device"):
        served.put("v1.0.0", cache(b"1"), Store(tmp_path))


def test_what_cannot_be_removed_is_served_no_more(served, cache, tmp_path, monkeypatch):
    for number in (1, 2, 3):
        served.put(f"v1.0.{number}", cache(b"%d" % number), Store(tmp_path))

    def refused(path, ignore_errors=False):
        if not ignore_errors:
            raise PermissionError(path)

    monkeypatch.setattr(files.shutil, "rmtree", refused)
    served.tidy()
    assert served.integers() == [2, 3] and (served.folder / ".1.old.partial").is_dir()
    served.clear()
    assert served.integers() == []


def fifo(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)


@pytest.mark.timeout(200)
@pytest.mark.parametrize("kind", ["fifo", "link", "file"])
@pytest.mark.parametrize("name", ["one/.4.partial", "one/.1.old.partial", "..gitignore.partial"])
def test_what_lies_where_a_copy_is_made_is_removed_and_not_followed(served, cache, tmp_path, name, kind):
    for number in (1, 2, 3):
        served.put(f"v1.0.{number}", cache(b"%d" % number), Store(tmp_path))
    (served.folder.parent / ".gitignore").unlink()
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "mine").write_text("as it was")
    trap = served.folder.parent / name
    {
        "fifo": fifo,
        "link": lambda path: path.symlink_to(victim / "mine" if "gitignore" in name else victim),
        "file": lambda path: path.write_text("x"),
    }[kind](trap)
    served.put("v1.0.4", cache(b"4"), Store(tmp_path))
    served.tidy()
    assert served.integers() == [3, 4] and served.live()["version"] == "v1.0.4"
    assert not os.path.lexists(trap)
    assert [path.name for path in victim.iterdir()] == ["mine"] and (victim / "mine").read_text() == "as it was"


@pytest.mark.parametrize("kind", ["fifo", "dangling link", "file"])
@pytest.mark.parametrize("name", [".", ".."])
def test_a_folder_to_serve_from_that_is_none(served, cache, tmp_path, name, kind):
    path = served.folder if name == "." else served.folder.parent
    path.parent.mkdir(exist_ok=True)
    {"fifo": fifo, "dangling link": lambda path: path.symlink_to("nowhere"), "file": lambda path: path.touch()}[kind](
        path
    )
    with pytest.raises(InputError, match=f"^{path} is not a folder, so nothing can be served from it: move it away$"):
        served.put("v1.0.0", cache(b"1"), Store(tmp_path))
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("trap", [fifo, lambda path: path.touch()], ids=["fifo", "file"])
def test_an_integer_that_is_no_folder_is_passed_over(served, cache, tmp_path, trap):
    served.put("v1.0.0", cache(b"1"), Store(tmp_path))
    trap(served.folder / "2")
    served.put("v1.0.1", cache(b"2"), Store(tmp_path))
    assert served.integers() == [1, 3] and served.live()["version"] == "v1.0.1"


def test_an_integer_that_tensorflow_serving_does_not_read(served, cache, tmp_path):
    (served.folder / str(2**63)).mkdir(parents=True)
    served.put("v1.0.0", cache(b"1"), Store(tmp_path))
    assert served.integers() == [1]
    (served.folder / str(2**63 - 1)).mkdir()
    with pytest.raises(InputError, match="9223372036854775807 has the highest number that can be served: move it away"):
        served.put("v1.0.1", cache(b"2"), Store(tmp_path))


@pytest.mark.timeout(200)
@pytest.mark.parametrize("kind", ["fifo", "link", "file"])
@pytest.mark.parametrize("name", ["md5", "md5.lock", ".md5.partial", ".md5.old.partial", "md5/model.json"])
def test_a_copy_to_load_from_is_made_whatever_lies_there(cache, tmp_path, name, kind):
    md5, copy = cache(b"1"), tmp_path / "models" / "md5"
    if "/" in name:
        Store(tmp_path).kept(md5, copy)
        (copy / "model.json").unlink()
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "mine").write_text("as it was")
    trap = tmp_path / "models" / name
    trap.parent.mkdir(exist_ok=True)
    to = victim / "mine" if name.endswith((".lock", ".json")) else victim
    {"fifo": fifo, "link": lambda path: path.symlink_to(to), "file": lambda path: path.write_text("x")}[kind](trap)
    assert Store(tmp_path).kept(md5, copy) == copy
    assert sorted(p.name for p in copy.rglob("*") if p.is_file()) == ["model.json", "saved_model.pb", "v"]
    assert (copy / "model.json").read_bytes() == b"{}" and not copy.is_symlink()
    assert [path.name for path in victim.iterdir()] == ["mine"] and (victim / "mine").read_text() == "as it was"
