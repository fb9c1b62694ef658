"""The file that a dataset of the TFDS catalogue needs: written by `tapeline lock`, checked before ingest."""

import pytest

from tapeline.cli.main import main


@pytest.fixture
def project(project, monkeypatch):
    params = (project / "params.yaml").read_text()
    entry = '  mnist: {source: tfds, needs: data/raw/mnist.tfds, name: "mnist:3.0.1"}\n'
    (project / "params.yaml").write_text(params.replace("\npipelines:", f"{entry}\npipelines:", 1))
    monkeypatch.chdir(project)
    return project


def test_lock_writes_it_and_again_changes_nothing(project, capsys):
    assert main(["lock", "--check"]) == 1
    assert "data/raw/mnist.tfds does not match params.yaml: run `tapeline lock`" in capsys.readouterr().err
    assert main(["lock"]) == 0
    assert "written: data/raw/mnist.tfds" in capsys.readouterr().out
    assert (project / "data/raw/mnist.tfds").read_text() == "mnist:3.0.1\n"
    assert main(["lock"]) == 0
    assert "written" not in capsys.readouterr().out
    assert main(["lock", "--check"]) == 0


@pytest.mark.parametrize(("content", "said"), [(None, "does not exist"), ("mnist:1.0.0\n", "has 'mnist:1.0.0'")])
def test_another_name_than_that_of_params_is_refused(project, capsys, content, said):
    if content:
        (project / "data/raw/mnist.tfds").write_text(content)
    assert main(["ingest", "mnist"]) == 2
    error = capsys.readouterr().err
    assert f"data/raw/mnist.tfds {said}, datasets.mnist reads mnist:3.0.1: `tapeline lock`" in error
    assert not (project / "data/mnist").exists()


def test_a_file_outside_the_project_is_refused_and_not_written(project, capsys):
    params = (project / "params.yaml").read_text()
    (project / "params.yaml").write_text(params.replace("data/raw/mnist.tfds", "../mnist.tfds"))
    assert main(["lock"]) == 2
    assert "inside the project" in capsys.readouterr().err
    assert not (project.parent / "mnist.tfds").exists()


def test_two_datasets_with_one_file_are_refused(project, capsys):
    """Each `tapeline lock` wrote the other one's name."""
    params = (project / "params.yaml").read_text()
    entry = '  cifar: {source: tfds, needs: ./data/raw/mnist.tfds, name: "cifar10:3.0.2"}\n'
    (project / "params.yaml").write_text(params.replace("\npipelines:", f"{entry}\npipelines:", 1))
    for arguments in (["lock"], ["lock", "--check"]):
        assert main(arguments) == 2
        said = "datasets.mnist reads mnist:3.0.1 and datasets.cifar cifar10:3.0.2, but both need ./data/raw/mnist.tfds"
        assert f"{said}: give each its own file\n" in capsys.readouterr().err
    assert not (project / "data/raw/mnist.tfds").exists()
