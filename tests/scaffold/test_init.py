"""`tapeline init`: what it writes, what it leaves alone, and what it refuses."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tapeline.config import engine_lock
from tapeline.config.params import Params
from tapeline.orchestration.schedules.deployments import read
from tapeline.runtime.errors import InputError
from tapeline.scaffold.init import init

OWN = {".dvc", ".git", ".dvcignore", ".tapeline"}
"""What DVC, Git and this working tree keep for themselves."""


def files_of(folder):
    """Return the content of every file that is a person's, by its path."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in found if p.relative_to(folder).parts[0] not in OWN
    }


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "Old Houses.csv"
    rows = [f"{i},{i % 7},{i / 3:.2f},street {i},{1000.5 + i}" for i in range(40)]
    path.write_text("id,rooms,area,address,price\n" + "\n".join(rows) + "\n")
    return path


def test_an_empty_folder_becomes_a_project(tmp_path):
    folder = tmp_path / "new" / "project"
    new = init(folder, say=lambda line: None)
    assert files_of(folder).keys() == {"params.yaml", "dvc.yaml", "engine.lock", "recipes/iris.py", "data/raw/iris.csv"}
    assert {path for path in new if path.name != ".gitignore"} == {folder / name for name in files_of(folder)}
    params = Params.load(folder)
    assert params.dataset("iris").label == "species"
    assert params.pipeline("iris").recipe == "recipes/iris.py"
    assert engine_lock.changed(folder) == []
    shown = subprocess.run(
        ["git", "status", "--short", "-uall"], cwd=folder, capture_output=True, text=True, check=True
    )
    assert ".tapeline" not in shown.stdout


def test_again_it_changes_nothing(tmp_path):
    init(tmp_path, say=lambda line: None)
    (tmp_path / "recipes/iris.py").write_text("# mine\n")
    before, ignored = files_of(tmp_path), (tmp_path / ".dvcignore").read_text()
    assert init(tmp_path, say=lambda line: None) == []
    assert (files_of(tmp_path), (tmp_path / ".dvcignore").read_text()) == (before, ignored)


def test_a_schedule_when_asked_also_later(tmp_path):
    init(tmp_path, say=lambda line: None)
    new = init(tmp_path, flows=True, say=lambda line: None)
    assert [path.relative_to(tmp_path).as_posix() for path in new] == ["prefect.yaml", "flows/training.py"]
    [deployment] = read(tmp_path / "prefect.yaml")
    assert deployment.parameters["pipeline"] == "iris"
    assert (tmp_path / deployment.entrypoint.partition(":")[0]).is_file()
    assert init(tmp_path, flows=True, say=lambda line: None) == []


def test_a_table_is_looked_at(tmp_path, table):
    said = []
    init(tmp_path / "p", data=table, say=said.append)
    dataset = Params.load(tmp_path / "p").dataset("old-houses")
    assert (dataset.features, dataset.label) == ({"x": ("rooms", "area"), "price": ("price",)}, None)
    assert dataset.needs == "data/raw/Old Houses.csv"
    assert (tmp_path / "p" / dataset.needs).read_bytes() == table.read_bytes()
    assert said[0] == "predicts 'price' (a number) from 2 columns of numbers"
    assert [line.split(":")[0] for line in said[1:3]] == ["column 'id' is ignored", "column 'address' is ignored"]


@pytest.mark.parametrize(
    ("text", "target", "is_class"),
    [
        ("a,b,kind\n" + "1,2,x\n3,4,y\n" * 20, "kind", True),
        ("Label,a,b\n" + "0,1,2\n1,3,4\n" * 20, "Label", True),
        ("a,y,b\n" + "".join(f"1,{n / 7},2\n" for n in range(40)), "y", False),
        ("a,b\n" + "".join(f"1,{n}\n" for n in range(400)), "b", False),
        ("a,off\n" + "1,x\n2,y\n" * 20, "off", True),
        ("a,x\n" + "1,u\n2,v\n" * 20, "x", True),
        ('a,"q: [1]"\n' + "1,u\n2,v\n" * 20, "q: [1]", True),
        ("PARAMS_,NAME_\n" + "1,u\n2,v\n" * 20, "NAME_", True),
    ],
)
def test_the_target_is_found_by_name_or_is_the_last_column(tmp_path, text, target, is_class):
    (tmp_path / "rows.csv").write_text(text)
    init(tmp_path, data=tmp_path / "rows.csv", say=lambda line: None)
    dataset = Params.load(tmp_path).dataset("rows")
    [column] = [column for name, column in dataset.features.items() if name != "x"]
    assert column == (target if is_class else (target,))
    assert (dataset.label is not None) == is_class


def test_rows_that_say_their_split(tmp_path):
    (tmp_path / "rows.csv").write_text("a,split,y\n" + "1,train,u\n2,test,v\n" * 20)
    init(tmp_path, data=tmp_path / "rows.csv", say=lambda line: None)
    assert Params.load(tmp_path).dataset("rows").split == "split"


def test_images_are_looked_at(tmp_path):
    for number, place in enumerate(("train/cat", "train/dog", "test/cat", "test/dog")):
        (tmp_path / "pets" / place).mkdir(parents=True)
        Image.fromarray(np.full((20, 30, 3), number, np.uint8)).save(tmp_path / "pets" / place / "a.png")
    init(tmp_path / "p", data=tmp_path / "pets", say=lambda line: None)
    dataset = Params.load(tmp_path / "p").dataset("pets")
    assert (dataset.size, dataset.validation) == ((20, 20), 0.15)
    assert len(list((tmp_path / "p/data/raw/pets").rglob("*.png"))) == 4


@pytest.mark.parametrize(
    ("before", "data", "said"),
    [
        ({"dvc.yaml": "stages: {}\n"}, None, "has a dvc.yaml of its own: `tapeline init FOLDER` makes"),
        ({"params.yaml": "rate: 1\n"}, None, "has a params.yaml of another kind"),
        ({"params.yaml": "a: [\n"}, None, "has a params.yaml of another kind"),
        ({"recipes/iris.py": "x = 1\n"}, None, "iris.py exists: rename the data"),
        ({"data/raw/iris.csv": "a,b\n"}, None, "iris.csv exists, and"),
        ({}, "nowhere.csv", "nowhere.csv does not exist"),
        ({"t.csv": ""}, "t.csv", "t.csv cannot be read as a table"),
        ({"t.csv": "a,b\n"}, "t.csv", "t.csv has no rows"),
        ({"t.csv": "a\n1\n"}, "t.csv", "t.csv has 1 column"),
        ({"t.csv": "a,b\nx,y\n"}, "t.csv", "t.csv has no column of numbers beside 'b'"),
        ({"t.csv": "a,a\n1,2\n"}, "t.csv", "t.csv has two columns of one name"),
        ({"t.parquet": "no table"}, "t.parquet", "t.parquet cannot be read as a table"),
        ({"pets/cat/a.png": "x"}, "pets", "pets has no train/<class>/<image>"),
        ({"pets/train/cat/a.png": "x"}, "pets", "a.png cannot be read as an image"),
    ],
)
def test_what_is_refused_is_one_line_and_nothing_is_written(tmp_path, before, data, said):
    for name, text in before.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError) as refused:
        init(tmp_path, data=tmp_path / data if data else None, say=lambda line: None)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()} == before.keys()


def test_a_repository_with_other_things_keeps_them(tmp_path):
    for command in (["git", "init", "-q"], ["dvc", "init", "-q"]):
        command = command if command[0] == "git" else [__import__("sys").executable, "-P", "-m", *command]
        subprocess.run(command, cwd=tmp_path, check=True)
    own = {"dvc.yaml": "stages:\n  mine: {cmd: echo}\n", "params.yaml": "rate: 1\n", "src/mine.py": "x = 1\n"}
    for name, text in own.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / ".dvcignore").write_text("/cache\n.tapeline")
    init(tmp_path / "model", say=lambda line: None)
    assert {name: (tmp_path / name).read_text() for name in own} == own
    assert len(files_of(tmp_path / "model")) == 5
    assert not (tmp_path / "model/.git").exists() and not (tmp_path / "model/.dvc").exists()
    assert (tmp_path / ".dvcignore").read_text().splitlines()[:3] == ["/cache", ".tapeline", ".venv"]
    assert Path(tmp_path / ".dvc/plots/page.html").exists()
