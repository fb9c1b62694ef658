"""What leads out of DVC's cache, or out of a folder, is refused."""

import json

import pytest

from tapeline.repository import objects
from tapeline.runtime.errors import InputError

MD5 = "0" * 32


@pytest.mark.parametrize("path", ["", "/x", "..", "a/../b", "../a", "a\\b", "a\0b"])
def test_a_path_that_leaves_its_folder(path):
    with pytest.raises(InputError, match="leads out of its folder: the record was altered"):
        objects.safe(path)


@pytest.mark.parametrize("path", ["a", "a/b.c", "a..b", "...", ".hidden"])
def test_a_path_that_stays(path):
    assert objects.safe(path) == path


def test_where_an_object_is():
    assert [objects.place(name).as_posix() for name in (MD5, f"{MD5}.dir")] == [f"00/{'0' * 30}", f"00/{'0' * 30}.dir"]
    with pytest.raises(InputError, match="is not an MD5"):
        objects.place("../" + "0" * 29)


def test_the_list_of_a_folder():
    content = json.dumps([{"relpath": name, "md5": MD5} for name in ("a/b", "a/c")]).encode()
    assert objects.listing(content, MD5) == {"a/b": MD5, "a/c": MD5}
    with pytest.raises(InputError, match="has 'a' as a file and as a folder"):
        objects.listing(content.replace(b"a/c", b"a"), MD5)
    with pytest.raises(InputError, match="leads out of its folder"):
        objects.listing(content.replace(b"a/c", b"../c"), MD5)
    for other in (b"[", b"[1]", b'[{"md5": "0"}]', b"null"):
        with pytest.raises(ValueError):
            objects.listing(other, MD5)
