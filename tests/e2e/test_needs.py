"""A dataset's builder with its data in one folder, and a pipeline's inputs in another: what changes makes what stale."""

import json

import numpy as np
import pytest
from clones import BIN, ROOT, call, cloned
from dvc.exceptions import DvcException
from raw_data import RawData

DVC = BIN / "dvc"

BUILDER = """
import pathlib
import numpy as np
import tensorflow_datasets as tfds

class Own(tfds.core.GeneratorBasedBuilder):
    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        features = {"x": tfds.features.Tensor(shape=(2,), dtype=np.float32), "y": tfds.features.Tensor(shape=(1,), dtype=np.float32)}
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features), disable_shuffling=True)

    def _split_generators(self, dl_manager):
        here = pathlib.Path(__file__).parent
        return {split: self._generate_examples(here / name) for split, name in (("train", "rows.csv"), ("test", "more.csv"))}

    def _generate_examples(self, file):
        for key, row in enumerate(np.loadtxt(file, delimiter=",", dtype=np.float32, ndmin=2)):
            yield key, {"x": row[:2], "y": row[2:]}
"""
PARAMS = """
datasets:
  own: {source: builder, needs: inputs/own}
"""
PIPELINE = """
pipelines:
  own:
    dataset: own
    recipe: src/tapeline/recipes/linear_regression.py
    needs: inputs/more
    params: {learning_rate: 0.01}
    train: {epochs: 2, batch_size: 1}
    validate: {thresholds: {loss: {max: 1000000}}}
    export: {}
"""


def stale(folder):
    """Return the stages of `own` and of another pipeline that DVC itself finds changed, with what has changed."""
    names = [f"{stage}@{name}" for name in ("own", "linear-regression") for stage in ("train", "validate", "export")]
    found = json.loads(call(folder, DVC, "status", "--json", "ingest@own", "ingest@line", *names).stdout)
    changed = {
        name: [part["changed deps"] for part in parts if "changed deps" in part] for name, parts in found.items()
    }
    return {name: list(parts[0]) for name, parts in changed.items() if parts}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = cloned(ROOT, tmp_path_factory.mktemp("needs") / "tapeline")
    call(folder, "git", "checkout", "-q", "-B", "main")
    params = (folder / "params.yaml").read_text()
    params = params.replace("\ndatasets:\n", PARAMS, 1).replace("\npipelines:\n", PIPELINE, 1)
    (folder / "params.yaml").write_text(params)
    for name, text in {
        "inputs/own/own.py": BUILDER,
        "inputs/own/rows.csv": "1,2,3\n2,3,5\n",
        "inputs/more/note.txt": "1",
        "data/raw/more.csv": "1,1,2\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for inputs in ("own", "more"):
        (folder / "inputs" / inputs / "more.csv").symlink_to("../../data/raw/more.csv")
    call(folder, DVC, "add", "--quiet", "data/raw/more.csv", "inputs/own/rows.csv")
    call(folder, "git", "add", "-A")
    call(folder, "git", "-c", "user.name=t", "-c", "user.email=t@e.org", "commit", "-q", "-m", "own data")
    call(folder, DVC, "repro", "--quiet", "export@own", "ingest@line", timeout=280)
    return folder


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "stages"),
    [
        ("inputs/own/rows.csv", {"ingest@own": ["inputs/own"]}),
        ("inputs/own/own.py", {"ingest@own": ["inputs/own"]}),
        ("inputs/more/note.txt", {"train@own": ["inputs/more"], "validate@own": ["inputs/more"]}),
        (
            "data/raw/more.csv",
            {"ingest@own": ["inputs/own"], "train@own": ["inputs/more"], "validate@own": ["inputs/more"]},
        ),
    ],
)
def test_a_changed_file_makes_exactly_its_stages_stale(built, name, stages):
    before = {stage: deps for stage, deps in stale(built).items() if "linear-regression" not in stage}
    assert before == {}
    file = built / name
    content = file.read_bytes()
    file.write_bytes(content + b"\n")
    after = {stage: deps for stage, deps in stale(built).items() if "linear-regression" not in stage}
    file.write_bytes(content)
    assert after == stages
    assert "ingest@line" not in after


@pytest.mark.slow
def test_what_changed_is_read(built):
    (built / "inputs/own/rows.csv").write_text("1,2,3\n2,3,5\n4,4,8\n")
    call(built, DVC, "repro", "--quiet", "ingest@own")
    assert np.load(built / "data/own/train/x.npy").tolist() == [[1, 2], [2, 3], [4, 4]]


@pytest.mark.slow
def test_an_isolated_run_has_the_files_behind_the_links(built):
    call(built, BIN / "python", "-m", "flows.training", "--pipeline", "own", "--isolated", "--ref", "main", timeout=280)
    assert "runs/" in call(built, "git", "branch", "--list", "runs/*").stdout


def test_dvc_takes_no_list_from_a_template(tmp_path):
    """When DVC does, `needs` may take one too: `tapeline.config.ingest` refuses it for this reason alone."""
    made = RawData(tmp_path / "here")
    made.write("params.yaml", "datasets: {own: {needs: [a.py, b.csv]}}\n")
    made.write("dvc.yaml", "stages: {ingest: {foreach: '${datasets}', do: {cmd: 'true', deps: ['${item.needs}']}}}\n")
    with pytest.raises(DvcException, match="Cannot interpolate data of type 'list'"):
        made.dvc("status")
