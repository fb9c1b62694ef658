"""`train.init_from`: a folder of the project, or a version that Git and DVC know."""

import hashlib
import shutil
import subprocess
import sys

import pytest

from tapeline.errors import InputError
from tapeline.initial_weights import initial_weights
from tapeline.project import Project

DVC = """
stages:
  train:
    foreach: {blobs: {}}
    do:
      cmd: mkdir -p runs/${key}/train/weights && cp text runs/${key}/train/weights/weights.index
      deps: [text]
      outs: ["runs/${key}/train/weights"]
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A repository with weights in DVC's cache, changed after the version was tagged."""
    folder = tmp_path_factory.mktemp("repository")
    (folder / "params.yaml").write_text("{}")
    (folder / "dvc.yaml").write_text(DVC)

    def call(*command):
        subprocess.run(command, cwd=folder, check=True, capture_output=True)

    call("git", "init", "-q", "-b", "main")
    call("git", "config", "user.email", "t@example.org")
    call("git", "config", "user.name", "T")
    dvc = (sys.executable, "-m", "dvc")
    call(*dvc, "init", "-q")
    for text in ("old", "new"):
        (folder / "text").write_text(text)
        call(*dvc, "repro", "-q")
        call("git", "add", "-A")
        call("git", "commit", "-qm", text)
        if text == "old":
            call("git", "tag", "blobs@v1.0.0")
    return Project.find(folder)


def test_a_folder(project):
    found = initial_weights(project, "runs/blobs/train/weights")
    assert (found / "weights.index").read_text() == "new"


def test_a_version_is_brought_as_it_was_tagged(project):
    for _ in range(2):
        found = initial_weights(project, "blobs@v1.0.0")
        assert (found / "weights.index").read_text() == "old"
    assert project.folder in found.parents


def test_weights_that_are_not_those_of_the_record_are_refused(project):
    md5 = hashlib.md5(b"old", usedforsecurity=False).hexdigest()
    cached = project.folder / ".dvc" / "cache" / "files" / "md5" / md5[:2] / md5[2:]
    shutil.rmtree(project.local / "init_from", ignore_errors=True)
    cached.chmod(0o644)
    cached.write_text("odd")
    with pytest.raises(InputError, match=r"train.init_from is 'blobs@v1.0.0': .* was altered") as raised:
        initial_weights(project, "blobs@v1.0.0")
    cached.write_text("old")
    assert "\n" not in str(raised.value)
    assert not (project.local / "init_from" / "blobs@v1.0.0").exists()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("runs/none", "neither a folder such as runs/NAME/train/weights nor a version NAME@v1.0.0"),
        ("blobs@v2.0.0", "there is no such tag"),
        ("other@v1.0.0", "there is no such tag"),
        ("blobs@1.0", "neither a folder"),
    ],
)
def test_what_is_not_there(project, source, said):
    with pytest.raises(InputError, match=said) as raised:
        initial_weights(project, source)
    assert "\n" not in str(raised.value)
