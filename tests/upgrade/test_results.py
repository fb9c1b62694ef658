"""Which recorded and rebuilt outputs are the same: bytes, but for what says with which version they were made."""

import hashlib
import json

import pytest

from tapeline.repository.rebuilding import Out
from tapeline.upgrade import results

RUN = {"data": "d", "settings": {"epochs": 2}, "libraries": {"keras": "3"}}
MODEL = {"name": "m", "files": {"a": "1"}, "run": RUN}


class Cache:
    """Files by their MD5, as DVC's cache has them; with what `results` asks of `Cached`."""

    def __init__(self, folder):
        self.folder = folder

    def place(self, md5):
        return self.folder / md5

    def put(self, content):
        md5 = hashlib.md5(content).hexdigest()
        (self.folder / md5).write_bytes(content)
        return md5

    def listed(self, out):
        return {entry["relpath"]: self.place(entry["md5"]) for entry in json.loads(self.place(out.md5).read_bytes())}

    def tree(self, contents):
        listing = [{"relpath": name, "md5": self.put(content)} for name, content in contents.items()]
        md5 = self.put(json.dumps(listing).encode()) + ".dir"
        (self.folder / md5).write_bytes(json.dumps(listing).encode())
        return md5


def said(content):
    return json.dumps(content).encode()


@pytest.mark.parametrize(
    ("path", "old", "new", "difference"),
    [
        ("a/metrics.json", b"{}", b"{}", ""),
        ("a/run.json", said({**RUN, "code": {"f.py": "1"}}), said(RUN), ""),
        ("a/run.json", said(RUN), said({**RUN, "libraries": {"keras": "4"}}), ""),
        ("a/run.json", said(RUN), said({**RUN, "data": "e"}), ""),  # the hash of an output that is compared itself
        ("a/run.json", said(RUN), said({**RUN, "params": {}}), "a/run.json differs: bytes "),
        ("a/run.json", said(RUN), said({**RUN, "settings": {"epochs": 2, "bits": "portable"}}), ""),
        ("a/run.json", said(RUN), said({**RUN, "settings": {"epochs": 3, "bits": "portable"}}), "a/run.json differs: "),
        ("a/run.json", said(RUN), b"no json", "a/run.json differs: bytes "),
        ("a/metrics.json", said({"code": 1}), said({"code": 2}), "a/metrics.json differs: bytes "),
    ],
)
def test_a_file(tmp_path, path, old, new, difference):
    cache = Cache(tmp_path)
    found = results.difference(Out(path, cache.put(old)), Out(path, cache.put(new)), cache)
    assert found.startswith(difference) and bool(found) == bool(difference)


@pytest.mark.parametrize(
    ("new", "difference"),
    [
        ({"model.json": said({**MODEL, "run": {**RUN, "code": {"f.py": "1"}}}), "w": b"1"}, ""),
        ({"model.json": said({**MODEL, "run": {**RUN, "settings": {"epochs": 2, "fused": False}}}), "w": b"1"}, ""),
        ({"model.json": said({**MODEL, "files": {}}), "w": b"1"}, "models/m/model.json differs: bytes "),
        ({"model.json": said(MODEL), "w": b"2"}, "models/m/w differs: bytes 0 to 0"),
        ({"model.json": said(MODEL)}, "models/m/w is only in the recorded result"),
        ({"model.json": said(MODEL), "w": b"1", "x": b""}, "models/m/x is only in the new result"),
    ],
)
def test_a_folder(tmp_path, new, difference):
    cache = Cache(tmp_path)
    old = cache.tree({"model.json": said(MODEL), "w": b"1"})
    found = results.difference(Out("models/m", old), Out("models/m", cache.tree(new)), cache)
    assert found.startswith(difference) and bool(found) == bool(difference)


def test_bytes_that_the_cache_has_lost(tmp_path):
    cache = Cache(tmp_path)
    found = results.difference(Out("a", "0" * 32), Out("a", cache.put(b"1")), cache)
    assert found == "a differs, and one of the two is missing from the cache"
