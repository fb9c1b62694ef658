"""What came in with `dvc add` under `data/raw/` is seen by Git and by DVC: nothing deletes it, each copy has it."""

import shutil
import subprocess
from contextlib import closing

import pytest
from dvc.repo import Repo
from raw_data import RawData

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
