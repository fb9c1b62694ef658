"""`tapeline init --data tfds:NAME`, with builders that stand in for those that need a network."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tapeline.config.params import Params
from tapeline.runtime import startup
from tapeline.runtime.errors import InputError
from tapeline.scaffold.init import init

startup.tensorflow()
import stand_in  # noqa: E402 (after TensorFlow, which is imported quietly)

SUPPORT = str(Path(stand_in.__file__).parent)


def test_name_and_version_are_recorded(tmp_path):
    said = []
    new = init(tmp_path, data="tfds:stand_in", say=said.append)
    dataset = Params.load(tmp_path).dataset("stand-in")
    assert (dataset.name, dataset.needs) == ("stand_in:1.2.0", "data/raw/stand-in.tfds")
    assert (tmp_path / dataset.needs).read_text() == "stand_in:1.2.0\n"
    assert tmp_path / dataset.needs in new
    assert said[0] == "classifies the images of stand_in:1.2.0, which the first `dvc repro` downloads"
    assert init(tmp_path, say=said.append) == []


@pytest.mark.long
def test_dvc_makes_a_model_of_it(tmp_path):
    folder = tmp_path / "p"
    init(folder, data="tfds:stand_in", say=lambda line: None)
    params = (folder / "params.yaml").read_text()
    (folder / "params.yaml").write_text(params.replace("epochs: 20, batch_size: 32", "epochs: 1, batch_size: 4"))
    program = "import sys, stand_in; from tapeline.cli.main import main; sys.exit(main(sys.argv[1:]))"
    environment = {**os.environ, "PYTHONPATH": SUPPORT}
    for stage in ("ingest", "train", "validate", "export"):
        command = [sys.executable, "-c", program, stage, "stand-in"]
        answer = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert answer.returncode == 0, answer.stderr
    assert (folder / "models/stand-in/saved_model").is_dir()
    status = [sys.executable, "-P", "-m", "dvc", "repro", "--dry", "ingest@stand-in"]
    said = subprocess.run(status, cwd=folder, capture_output=True, text=True, check=True).stdout
    assert "Running stage 'ingest@stand-in'" in said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("stand_in_text", "is not a set of labelled images of one size"),
        ("no_such_dataset", "has no dataset 'no_such_dataset'"),
        ("stand_in:9.9.9", "stand_in:9.9.9' cannot be used"),
        ("", "cannot be used"),
    ],
)
def test_what_cannot_be_used_is_one_line_and_nothing_is_written(tmp_path, name, said):
    with pytest.raises(InputError, match=said) as caught:
        init(tmp_path, data=f"tfds:{name}", say=lambda line: None)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []
