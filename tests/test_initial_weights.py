"""`train.init_from`: a folder of the project, or a version that Git and DVC know."""

import subprocess
import sys

import pytest

from tapeline.errors import InputError
from tapeline.initial_weights import initial_weights
from tapeline.project import Project


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A repository with weights in DVC's cache, changed after the version was tagged."""
    folder = tmp_path_factory.mktemp("repository")
    (folder / "params.yaml").write_text("{}")
    weights = folder / "runs" / "blobs" / "train" / "weights"
    weights.mkdir(parents=True)

    def call(*command):
        subprocess.run(command, cwd=folder, check=True, capture_output=True)

    call("git", "init", "-q", "-b", "main")
    call("git", "config", "user.email", "t@example.org")
    call("git", "config", "user.name", "T")
    dvc = (sys.executable, "-m", "dvc")
    call(*dvc, "init", "-q")
    for text in ("old", "new"):
        (weights / "weights.index").write_text(text)
        call(*dvc, "add", "-q", str(weights))
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
