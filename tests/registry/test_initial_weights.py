"""`train.init_from`: a folder of the project, or a version that Git and DVC know."""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tapeline.config.project import Project
from tapeline.registry.initial_weights import check_compared, initial_classes, initial_weights, moved_columns
from tapeline.runtime.errors import InputError

PARAMS = "{datasets: {}, pipelines: {}}\n"
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
    (folder / "params.yaml").write_text(PARAMS)
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


def test_a_folder_must_be_one_that_dvc_compares(project, capsys, tmp_path):
    """A change of the weights left the training as it was, without a word."""
    source, data = "runs/blobs/train/weights", project.data("blobs")
    for needs in (source, "runs/blobs", "runs/../runs/blobs/train"):
        check_compared(project, source, [data, project.folder / needs])
    check_compared(project, "blobs@v1.0.0", [data])
    refused = (
        f"^train.init_from is '{source}', whose .* set `needs: {source}` for .*; or .* version, such as NAME@v1.0.0"
    )
    for needs in ("data/blobs", "runs/blobs/train/run.json", f"{source}/weights.index", "runs/blob"):
        with pytest.raises(InputError, match=refused):
            check_compared(project, source, [data, project.folder / needs])
    assert capsys.readouterr().err == ""
    check_compared(project, str(tmp_path), [data])
    assert f"note: train.init_from is {tmp_path}, which is outside this repository" in capsys.readouterr().err


def test_a_version_is_brought_as_it_was_tagged(project):
    for _ in range(2):
        found = initial_weights(project, "blobs@v1.0.0")
        assert (found / "weights.index").read_text() == "old"
    assert project.folder in found.parents


def test_a_version_of_a_folder_that_has_moved_since(project, tmp_path):
    """Or that a sparse checkout leaves out."""
    copy = shutil.copytree(project.folder, tmp_path / "copy", symlinks=True)
    (copy / "learning").mkdir()
    shutil.copy(copy / "dvc.lock", copy / "learning")
    steps = (
        ("add", "-A"),
        ("commit", "-qm", "x"),
        ("tag", "learning=blobs@v1.0.0"),
        ("rm", "-rq", "learning"),
    )
    for step in steps:
        subprocess.run(["git", *step], cwd=copy, check=True, capture_output=True)
    assert not (copy / "learning").exists()
    found = initial_weights(Project.find(copy), "learning=blobs@v1.0.0")
    assert (found / "weights.index").read_text() == "new"


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
    assert not any(path.is_dir() for path in (project.local / "init_from").iterdir())


def test_weights_that_are_a_single_file(tmp_path):
    """A stage of one's own wrote them: there is no folder to copy."""
    for command in ("git init -q -b main", "git config user.email t@example.org", "git config user.name T"):
        subprocess.run(command.split(), cwd=tmp_path, check=True)
    subprocess.run([sys.executable, "-m", "dvc", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / "params.yaml").write_text(PARAMS)
    file = "mkdir -p runs/${key}/train && cp text runs/${key}/train/weights"
    (tmp_path / "dvc.yaml").write_text(
        DVC.replace("mkdir -p runs/${key}/train/weights && cp text runs/${key}/train/weights/weights.index", file)
    )
    (tmp_path / "text").write_text("x")
    subprocess.run([sys.executable, "-m", "dvc", "repro", "-q"], cwd=tmp_path, check=True)
    for command in ("git add -A", "git commit -qm one", "git tag blobs@v1.0.0"):
        subprocess.run(command.split(), cwd=tmp_path, check=True)
    with pytest.raises(
        InputError, match=r"^train.init_from is 'blobs@v1.0.0': runs/blobs/train/weights is a single file"
    ):
        initial_weights(Project.find(tmp_path), "blobs@v1.0.0")
    with pytest.raises(InputError, match="neither a folder such as"):
        initial_weights(Project.find(tmp_path), "runs/blobs/train/weights")


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


ANIMALS = """
stages:
  ingest:
    foreach: [zoo]
    do:
      cmd: mkdir -p data && cp -r raw data/zoo
      deps: [raw]
      outs: [data/zoo]
  train:
    foreach: [animals]
    do:
      cmd: mkdir -p runs/animals/train/weights && touch runs/animals/train/weights/weights.index
      deps: [data/zoo]
      params: [pipelines.animals.dataset]
      outs: [runs/animals/train/weights]
"""


@pytest.fixture
def animals(tmp_path):
    """Weights of a dataset with two classes; that of today has three."""

    def call(*command):
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)

    def ingest(*names):
        (tmp_path / "raw").mkdir(exist_ok=True)
        features = {"image": {"shape": [2], "dtype": "uint8"}, "kind": {"classes": names}}
        source = {"kind": "table", "columns": {"image": ["left", "right"], "kind": ["kind"]}}
        (tmp_path / "raw" / "dataset.json").write_text(json.dumps({"features": features, "source": source}))
        call(sys.executable, "-m", "dvc", "repro", "-q")
        record = {"data": hashlib.sha256((tmp_path / "data/zoo/dataset.json").read_bytes()).hexdigest()}
        (tmp_path / "runs/animals/train/run.json").write_text(json.dumps(record))

    for line in ("init -q -b main", "config user.email t@example.org", "config user.name T"):
        call("git", *line.split())
    call(sys.executable, "-m", "dvc", "init", "-q")
    (tmp_path / "params.yaml").write_text("{datasets: {}, pipelines: {animals: {dataset: zoo}}}\n")
    (tmp_path / "dvc.yaml").write_text(ANIMALS)
    ingest("bat", "cat")
    call("git", "add", "-A")
    call("git", "commit", "-qm", "one")
    call("git", "tag", "animals@v1.0.0")
    project = Project.find(tmp_path)
    source = "runs/animals/train/weights"
    assert initial_classes(project, source, tmp_path / source) == {"kind": ("bat", "cat")}
    return project, ingest


def test_a_version_knows_the_classes_of_its_own_data(animals):
    project, ingest = animals
    ingest("ant", "bat", "cat")
    version = "animals@v1.0.0"
    assert initial_classes(project, version, initial_weights(project, version)) == {"kind": ("bat", "cat")}
    assert initial_classes(project, "", project.folder / "runs/animals/train/weights")["kind"][0] == "ant"


def test_columns_in_another_order_than_the_weights_have_them_are_said(animals):
    project, _ = animals
    for source in ("animals@v1.0.0", "runs/animals/train/weights"):
        weights = initial_weights(project, source)
        assert [*moved_columns(project, source, weights, {"image": ["left", "right"], "more": ["a"]})] == []
        said = f"image is made of other table columns than in the data of {source}, or in another order: "
        found = [*moved_columns(project, source, weights, {"image": ["right", "left"], "kind": ["kind"]})]
        assert found == [f"{said}weights are taken by position"]
    (weights.parent / "run.json").unlink()
    assert [*moved_columns(project, source, weights, {"image": ["right", "left"]})] == []


def test_a_folder_s_data_is_found_in_the_cache_when_it_is_another_one_now(animals):
    project, _ = animals
    shutil.rmtree(project.folder / "data")
    weights = project.folder / "runs/animals/train/weights"
    assert initial_classes(project, "", weights) == {"kind": ("bat", "cat")}
    (weights.parent / "run.json").write_text('{"data": "0"}')
    assert initial_classes(project, "", weights) is None
    (weights.parent / "run.json").unlink()
    assert initial_classes(project, "", weights) is None
    assert initial_classes(project, "weights", Path("/weights")) is None, "few folders are above it"
