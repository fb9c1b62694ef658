"""A hash that is a path leads `verify` and `upgrade` to no file outside of DVC's cache."""

import json
import subprocess
import sys

import pytest

from tapeline.repository.rebuilding import Cached, Out, first_difference
from tapeline.runtime.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore:_NoneStep.value:DeprecationWarning")  # dvc-data, of pygtrie

SECRET = "another's words"


@pytest.mark.parametrize("altered", ["lock", "listing"])
def test_a_hash_that_is_a_path(tmp_path, altered):
    folder = tmp_path / "it"
    folder.mkdir()
    for command in (["git", "init", "--quiet"], [sys.executable, "-m", "dvc", "init", "--quiet"]):
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    cached = Cached(folder)
    path = f"..//{secret}"  # the first two letters are a folder of the cache, and the rest was absolute
    out = Out("data", path)
    if altered == "listing":
        out = Out("data", "a" * 32 + ".dir")
        listing = cached.place(out.md5)
        listing.parent.mkdir(parents=True)
        listing.write_text(json.dumps([{"relpath": "x", "md5": path}]))
    (folder / "data").mkdir()
    with pytest.raises(
        InputError, match="is not an MD5: dvc.lock, or a folder's list in the cache, was altered"
    ) as said:
        first_difference(out, cached, folder)
    assert SECRET not in str(said.value)
