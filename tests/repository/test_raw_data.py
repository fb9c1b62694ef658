"""What came in with `dvc add` under `data/raw/` is seen by Git and by DVC: nothing deletes it, each copy has it."""

import json
import shutil
import subprocess
from contextlib import closing

import pytest
from dvc.repo import Repo
from raw_data import RawData
from repositories import Repository

from tapeline.repository import raw_data
from tapeline.repository.dvc.repository import Dvc
from tapeline.runtime.errors import InputError

# DVC calls pygtrie in a way that pygtrie deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:_NoneStep.value:DeprecationWarning")

TEXT = "x1,x2,y\n1,2,3\n"


@pytest.mark.parametrize("path", ["data/raw/own.csv", "data/raw/deep/models/own.csv", "gallery/data/raw/own.csv"])
def test_dvc_keeps_pushes_and_pulls_raw_data(tmp_path, path):
    here = RawData(tmp_path / "here")
    file = here.write(path, TEXT)
    here.dvc("add", [str(file)])
    with closing(Repo(str(here.folder))) as repo:
        with repo.config.edit("repo") as config:
            config["remote"] = {"store": {"url": str(tmp_path / "store")}}
            config["core"] = {**config["core"], "remote": "store"}
    here.commit()
    assert f"{path}.dvc" in here.git("ls-files").splitlines()

    here.dvc("checkout", force=True)
    assert file.read_text() == TEXT
    here.dvc("gc", workspace=True)
    file.unlink()
    here.dvc("checkout")
    assert file.read_text() == TEXT, "the cache still had it"
    assert here.dvc("push") == 1
    there = tmp_path / "there"
    subprocess.run(["git", "clone", "--quiet", here.folder, there], check=True)
    with closing(Repo(str(there))) as repo:
        repo.pull()
    assert (there / path).read_text() == TEXT

    file.write_text(TEXT + "4,5,9\n")
    assert here.dvc("status"), "a change is seen"
    shutil.rmtree(here.folder / ".dvc" / "cache")
    here.dvc("pull", force=True)
    assert file.read_text() == TEXT


@pytest.mark.first(1)
@pytest.mark.parametrize("altered", ["list", "leads out", "file"])
def test_objects_that_are_not_what_their_md5_says_are_not_checked_out(tmp_path, altered):
    """DVC believes a folder's list, whatever its bytes, and writes where a path in it leads."""
    repository = Repository(tmp_path / "here")
    folder = repository.folder / "data/raw/pictures"
    folder.mkdir(parents=True)
    for name in ("one", "two"):
        (folder / name).write_text(name)
    repository.dvc("add", "--quiet", "data/raw/pictures")
    with closing(Dvc(repository.folder)) as opened, opened.locked():
        stages = [stage for stage in opened.stages() if stage.is_raw_data]
        (out,) = stages[0].recorded_outputs()
        listed = out.cached(out.md5)
        raw_data.check_cached(stages, fetched=True)
        entries = json.loads(listed.read_text())
        path = listed if altered != "file" else out.cached(entries[0]["md5"])
        path.chmod(0o644)
        if altered == "leads out":
            entries[0]["relpath"] = "../../../../outside"
            path.write_text(json.dumps(entries))
        else:
            path.write_text("[]")
        with pytest.raises(
            InputError, match="was altered: its MD5 does not match its name; delete it and fetch it again$"
        ):
            raw_data.check_cached(stages, fetched=True)
        if altered == "file":
            raw_data.check_cached(stages)  # what a cache has of its own is not read again each time
