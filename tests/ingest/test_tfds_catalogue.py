import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tapeline.dataset.columns import Dataset
from tapeline.runtime import startup

startup.tensorflow()
import tensorflow_datasets as tfds  # noqa: E402 (after TensorFlow, which is imported quietly)

SETTINGS: dict[str, Any] = {"source": "tfds", "needs": ".", "name": "dummy_mnist"}
Ingested = Callable[..., Path]
Refused = Callable[[dict[str, Any], str], None]


@pytest.fixture(autouse=True)
def no_network_and_nothing_prepared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TFDS_DATA_DIR", raising=False)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def brought(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with TFDS's own dummy dataset, prepared, as a user would copy it from another machine."""
    folder = tmp_path_factory.mktemp("tensorflow_datasets")
    tfds.testing.DummyMnist(data_dir=str(folder)).download_and_prepare()
    return folder


@pytest.mark.parametrize("place", ["TFDS_DATA_DIR", "home", "work"])
def test_a_dataset_that_was_brought_is_found(
    brought: Path, tmp_path: Path, ingested: Ingested, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    if place == "TFDS_DATA_DIR":
        monkeypatch.setenv("TFDS_DATA_DIR", str(brought))
    else:
        folder = tmp_path / ("home/tensorflow_datasets" if place == "home" else "work/tfds")
        folder.parent.mkdir(parents=True)
        folder.symlink_to(brought)
    dataset = Dataset.open(ingested(SETTINGS))
    assert {split: dataset.examples(split) for split in dataset.splits} == {"test": 20, "train": 20}
    assert dataset.column("train", "image").shape == (20, 28, 28, 1)
    assert np.array_equal(dataset.column("train", "image"), np.ones((20, 28, 28, 1), np.uint8))
    assert dataset.features["label"].classes == tuple("0123456789")
    assert dataset.index["source"] == {
        "kind": "tfds",
        "name": "dummy_mnist",
        "version": "3.0.1",
        "splits": {"train": "train", "test": "test"},
    }


def test_split_expressions_become_our_splits(
    brought: Path, ingested: Ingested, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFDS_DATA_DIR", str(brought))
    splits = {"test": "test[:3]", "train": "train[:75%]", "val": "train[75%:]"}
    dataset = Dataset.open(ingested({**SETTINGS, "splits": splits, "columns": ["label"]}))
    assert {split: dataset.examples(split) for split in dataset.splits} == {"test": 3, "train": 15, "val": 5}


def test_float64_is_said_to_be_rounded(
    tmp_path: Path, ingested: Ingested, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with tfds.core.registered.skip_registration():

        class Fractions(tfds.core.GeneratorBasedBuilder):
            VERSION = tfds.core.Version("1.0.0")

            def _info(self) -> Any:
                kinds = {"x": tfds.features.Scalar(np.float64), "y": tfds.features.Scalar(np.float32)}
                return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(kinds))

            def _split_generators(self, dl_manager: Any) -> Any:
                return {"train": self._generate_examples()}

            def _generate_examples(self) -> Any:
                yield from ((key, {"x": key / 3, "y": key / 3}) for key in range(9))

    Fractions(data_dir=str(tmp_path)).download_and_prepare()
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    ingested({**SETTINGS, "name": "fractions", "splits": {"train": "train"}})
    notes = [line for line in capfd.readouterr().out.splitlines() if "note:" in line]
    assert notes == ["set: note: feature 'x' is float64, which TFDS stores as float32: its values are rounded"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"splits": {"train": "training"}}, "TFDS dataset dummy_mnist: split 'training' cannot be read ("),
        ({"splits": {"train": "train[:x]"}}, "TFDS dataset dummy_mnist: split 'train[:x]' cannot be read ("),
        ({"columns": ["images"]}, "TFDS dataset dummy_mnist has no feature 'images', which `columns` lists: it has"),
        ({"name": "dummy_mnist:9.9.9"}, "TFDS "),
    ],
)
def test_what_a_prepared_dataset_has_not_is_refused(
    brought: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], message: str
) -> None:
    monkeypatch.setenv("TFDS_DATA_DIR", str(brought))
    refused({**SETTINGS, **settings}, message)


def test_array_records_are_refused_with_the_way_out(
    tmp_path: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("array_record")
    folder = tmp_path / "brought"
    tfds.testing.DummyMnist(data_dir=str(folder), file_format="array_record").download_and_prepare()
    monkeypatch.setenv("TFDS_DATA_DIR", str(folder))
    refused(SETTINGS, "convert it with `tfds convert_format --out_file_format=tfrecord`")


@pytest.mark.parametrize(("name", "shape"), [("mnist", (28, 28, 1)), ("cifar10", (32, 32, 3))])
def test_a_real_dataset_is_read_by_its_name(ingested: Ingested, name: str, shape: tuple[int, ...]) -> None:
    with tfds.testing.mock_data(num_examples=12):  # TFDS's own: its code and features, random examples
        dataset = Dataset.open(ingested({**SETTINGS, "name": name, "columns": ["image", "label"], "validation": 0.3}))
    assert dataset.features["image"].shape == shape
    assert dataset.features["image"].dtype == "uint8"
    assert len(dataset.features["label"].classes or ()) == 10
    assert dataset.examples("train") + dataset.examples("val") == dataset.examples("test") == 12
    assert dataset.index["source"]["name"] == name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mnistt", "has no dataset 'mnistt': did you mean mnist or "),
        ("zzzzzzzz", "has no dataset 'zzzzzzzz': see `tfds.list_builders()`"),
        ("mnist:9.9.9", "TFDS dataset 'mnist:9.9.9' cannot be used: "),
        ("iris/xx", "TFDS dataset 'iris/xx' cannot be used: "),
        ("imagenet2012", "TFDS dataset 'imagenet2012': Manual directory "),
        (
            "cifar10",
            "cifar10 is not on this machine and www.cs.toronto.edu cannot be reached (ProxyError): where there is a network, run "
            "`tfds build cifar10`, and copy ~/tensorflow_datasets/cifar10/3.0.2 to the same place here or below "
            "TFDS_DATA_DIR, or put the raw files into ",
        ),
        ("imagenette/320px", "copy ~/tensorflow_datasets/imagenette/320px/1.0.0 to the same place"),
    ],
)
def test_what_cannot_be_had_is_refused(refused: Refused, name: str, message: str) -> None:
    refused({**SETTINGS, "name": name, "columns": ["label"]}, message)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cifar10", "TFDS dataset cifar10: feature 'id' is text; a column needs numbers of one fixed shape"),
        ("imagenette/320px", "feature 'image' has the shape (None, None, 3); a column needs one fixed shape"),
    ],
)
def test_an_unusable_type_is_told_before_a_download(refused: Refused, name: str, message: str) -> None:
    refused({**SETTINGS, "name": name}, message)


PARAMS = """
datasets:
  mnist: {source: tfds, needs: params.yaml, name: mnist}
pipelines: {}
"""


@pytest.mark.slow
def test_reading_says_nothing_but_what_was_read(brought: Path, project: Path, builders: Path) -> None:
    parameters = PARAMS.replace("name: mnist}", "name: dummy_mnist}").replace("pipelines", "  digits: %s\npipelines")
    own = f"{{source: builder, needs: {builders / 'optdigits.py'}}}"
    (project / "params.yaml").write_text(parameters % own)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TFDS_DATA_DIR": str(brought)}
    commands = [[sys.executable, "-m", "tapeline", "ingest", name] for name in ("mnist", "digits")]
    options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    children = [subprocess.Popen(command, cwd=project, env=environment, **options) for command in commands]
    told = [child.communicate(timeout=120) for child in children]
    assert [child.returncode for child in children] == [0, 0]
    assert [error for _, error in told] == ["", ""]
    assert told[0][0].splitlines() == [
        "mnist: reading dummy_mnist (source: tfds)",
        "mnist: note: 20 of 20 examples of test are also in train: 0, 1, 2, ...",
        "mnist: train 20, test 20 examples of image (uint8 28x28x1), label (int64)",
        "mnist: written to data/mnist",
    ]
    assert told[1][0].splitlines()[1:] == [
        "digits: train 898, test 899 examples of image (uint8 8x8x1), label (int64)",
        "digits: written to data/digits",
    ]


@pytest.mark.slow
@pytest.mark.alone
def test_without_a_network_a_person_gets_one_line_soon(project: Path) -> None:
    (project / "params.yaml").write_text(PARAMS)
    command = [sys.executable, "-m", "tapeline", "ingest", "mnist"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    start = time.monotonic()
    answer = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert time.monotonic() - start < 60, "TFDS would try for minutes"
    assert answer.returncode == 2
    (line,) = answer.stderr.splitlines()
    assert line.startswith("tapeline: mnist is not on this machine and storage.googleapis.com cannot be reached (Proxy")
    assert (
        "where there is a network, run `tfds build mnist`, and copy ~/tensorflow_datasets/mnist/3.0.1 to the same place"
        in line
    )
    assert answer.stdout == "mnist: reading mnist (source: tfds)\n"
    assert not (project / "data").exists()
