"""Copies of recorded folders."""

import hashlib
import json
import threading

from tapeline.registry.store import Store


def test_two_at_once_copy_once_and_both_have_it(tmp_path, monkeypatch):
    """The second comes while the first is writing: it waits, and finds what it wanted."""
    content = b"weights"
    md5 = hashlib.md5(content).hexdigest()
    listing = json.dumps([{"md5": md5, "relpath": "inner/weights"}]).encode()
    folder_md5 = f"{hashlib.md5(listing).hexdigest()}.dir"
    for name, data in ((md5, content), (folder_md5, listing)):
        (tmp_path / name).write_bytes(data)
    monkeypatch.setattr(Store, "path", lambda self, md5: tmp_path / md5)
    first, second = Store(tmp_path), Store(tmp_path)
    writing, go, wrote = threading.Event(), threading.Event(), []
    write = Store.write

    def slowly(self, md5, folder):
        wrote.append(self)
        writing.set()
        assert go.wait(30)
        write(self, md5, folder)

    monkeypatch.setattr(Store, "write", slowly)
    copy, errors = tmp_path / "models" / "copy", []

    def keep(store):
        try:
            assert store.kept(folder_md5, copy) == copy
            assert (copy / "inner" / "weights").read_bytes() == content
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
