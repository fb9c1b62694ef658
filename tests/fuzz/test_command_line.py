"""The same through the real command line: exit status 2, one line, no traceback, soon."""

import os
import subprocess
import sys

import projects
import pytest

from tests.fuzz.finds import BOMB

RECIPE = """
import keras
from tapeline.recipe import Supervised

class Long(Supervised):
    def build(self):
        self.model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        self.optimizer = keras.optimizers.SGD(0.1)

    def loss(self, batch):
        return keras.ops.mean((self.model(batch["x"]) - batch["y"]) ** 2, -1)
"""
DATE = b"pipelines: 2001-13-45\n"


def call(folder, *arguments, root, timeout=60):
    environment = {**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def refused(answer, said, program="tapeline"):
    assert answer.returncode == 2, answer.stdout + answer.stderr
    assert answer.stderr.startswith(f"{program}: ") and said in answer.stderr
    assert answer.stderr.count("\n") == 1 and answer.stderr[:-1].isprintable()


@pytest.fixture
def project(tmp_path):
    """A project folder with a recipe that nobody runs; Git and DVC know it not."""
    projects.write_params(tmp_path, epochs=1, batch_size=1)
    (tmp_path / "recipe.py").write_text('"""A recipe."""\n')
    return tmp_path


def fifo(path):
    path.unlink(missing_ok=True)
    os.mkfifo(path)


@pytest.mark.parametrize(
    "command", [("tapeline", "list"), ("tapeline", "train", "long"), ("tapeline", "registry", "show")], ids=str
)
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (DATE, "params.yaml, line 1: not YAML: '2001-13-45': month must be in 1..12"),
        (b"a: 1\nb: K\xf6ln\n", "params.yaml, line 2: not YAML: not UTF-8: invalid start byte"),
        (b"a: &a [*a]\n", "params.yaml, line 1: not YAML: the alias *a is inside what it stands for"),
        (BOMB, "params.yaml, line 7: not YAML: more than 1,000,000 values"),
        (b"- " * 5000, "params.yaml, line 1: not YAML: nested more than 100 levels deep"),
        (b"datasets: [1]\n", "params.yaml: datasets is [1]: must be a mapping"),
        (b'"\\e[2J": 1\n', "params.yaml: \\x1b[2J: no such setting"),
    ],
)
def test_params(project, root, command, content, said):
    (project / "params.yaml").write_bytes(content)
    refused(call(project, *command, root=root), said)


@pytest.mark.parametrize(
    ("name", "command", "said"),
    [
        ("points.csv", ("ingest", "points"), "points.csv is not a table"),
        ("recipe.py", ("train", "long"), "recipe.py is a FIFO, a socket or a device, not a file: give a file"),
        ("params.yaml", ("list",), "no params.yaml in"),
    ],
)
def test_a_fifo(project, root, name, command, said):
    fifo(project / name)
    refused(call(project, "tapeline", *command, root=root), said)


def test_an_index_of_columns_that_was_altered(project, root):
    (project / "data/points").mkdir(parents=True)
    for content in (b"[" * 5000, b'{"name": "points", "features": Infinity}', b'{"name": 1}'):
        (project / "data/points/dataset.json").write_bytes(content)
        refused(call(project, "tapeline", "train", "long", root=root), "data/points/dataset.json is no")


@pytest.fixture
def repository(project):
    for command in (("git", "init", "--quiet"), (sys.executable, "-m", "dvc", "init", "--quiet")):
        subprocess.run(command, cwd=project, check=True, capture_output=True)
    return project


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 5000,
        b'{"read": {"a": [{"pid": Infinity, "cmd": "dvc"}]}}',
        b'{"write": {"a": {"pid": 1e999, "cmd": ""}}}',
    ],
)
def test_a_lock_file_of_dvc_that_no_process_has(repository, root, content):
    """`pid: Infinity` ended `tapeline repair` with a traceback."""
    path = repository / ".dvc" / "tmp" / "rwlock"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    answer = call(repository, "tapeline", "repair", root=root)
    assert answer.returncode == 0 and not answer.stderr
    assert answer.stdout == f"{path.resolve()}: was truncated; emptied it\n" and path.read_text() == "{}"


@pytest.mark.first(3)
@pytest.mark.parametrize("name", ["dvc.yaml", "dvc.lock"])
@pytest.mark.parametrize("content", [b"stages: 2001-13-45\n", b"stages: &a {a: *a}\n", b"x: \xe9\n", BOMB])
def test_what_dvc_reads(repository, root, name, content):
    (repository / "dvc.yaml").write_text("stages: {}\n")
    (repository / name).write_bytes(content)
    refused(call(repository, "tapeline", "list", root=root), f"{name}, line ")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (
            "train.epochs=2001-13-45",
            "'2001-13-45' is not a valid value in params.yaml: '2001-13-45': month must be",
        ),
        ("train.epochs=&a [*a]", "the alias *a is inside what it stands for"),
        ("params.a=0x" + "f" * 5000, "a whole number has more than 300 digits"),
    ],
)
def test_a_value_to_set(project, root, value, said):
    refused(
        call(project, "flows.training", "--pipeline", "long", "--isolated", "--set", value, root=root), said, "training"
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"name: K\xf6ln\n", "prefect.yaml, line 1: not YAML: not UTF-8"),
        (b"deployments: 2001-13-45\n", "prefect.yaml, line 1: not YAML: '2001-13-45': month must be in 1..12"),
        (b"deployments: &a [*a]\n", "prefect.yaml, line 1: not YAML: the alias *a is inside"),
        (BOMB, "prefect.yaml, line 7: not YAML: more than 1,000,000 values"),
    ],
)
def test_prefect_yaml(tmp_path, content, said):
    from tapeline.orchestration.schedules.deployments import read
    from tapeline.runtime.errors import InputError

    (tmp_path / "prefect.yaml").write_bytes(content)
    with pytest.raises(InputError) as raised:
        read(tmp_path / "prefect.yaml")
    assert said in str(raised.value) and str(raised.value).isprintable()
    fifo(tmp_path / "prefect.yaml")
    with pytest.raises(InputError, match="is a FIFO"):
        read(tmp_path / "prefect.yaml")


def test_a_csv_with_a_field_as_long_as_a_book(project, root):
    (project / "points.csv").write_text("x1,x2,y\n1,2," + "3" * 131_073 + "\n")
    refused(
        call(project, "tapeline", "ingest", "points", root=root),
        "points.csv: column 'y', row 1 below the header: '3333",
    )


@pytest.mark.slow
def test_needs_that_is_a_fifo(project, root):
    """What a pipeline needs is hashed before it trains, and by DVC for each look."""
    params = project / "params.yaml"
    text = params.read_text().replace("needs: data/points", "needs: more")
    params.write_text(text.replace("validate:\n", "validate:\n      split: train\n"))
    (project / "recipe.py").write_text(RECIPE)
    assert call(project, "tapeline", "ingest", "points", root=root).returncode == 0
    fifo(project / "more")
    said = call(project, "tapeline", "train", "long", root=root, timeout=120)
    assert said.returncode == 2 and "Traceback" not in said.stderr
    assert said.stderr.splitlines()[-1].endswith(
        "more is a FIFO, a socket or a device, not a file: give a file, or remove it"
    )


def test_a_dependency_of_dvc_that_is_a_fifo(repository, root):
    """DVC itself would wait for ever."""
    kinds = {"ingest": "points", "train": "long", "validate": "long", "export": "long"}
    stages = "".join(
        f"  {kind}:\n    foreach: [{name}]\n    do: {{cmd: echo, deps: [raw]}}\n" for kind, name in kinds.items()
    )
    (repository / "dvc.yaml").write_text(f"stages:\n{stages}")
    (repository / "raw").mkdir()
    fifo(repository / "raw" / "a")
    answer = call(repository, "tapeline", "list", root=root)
    refused(answer, "raw/a is a FIFO, a socket or a device, not a file: give a file, or remove it")
