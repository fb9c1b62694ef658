"""`tapeline init`: what it writes, what it leaves alone, and what it refuses."""

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

import pytest
from pictures import pets
from repositories import called, git

from tapeline.cli.main import main
from tapeline.config import engine_lock
from tapeline.config.params import Params
from tapeline.config.project import Project
from tapeline.ingest.stage import ingest
from tapeline.orchestration.schedules.deployments import read
from tapeline.runtime import files
from tapeline.runtime.errors import InputError, RunError
from tapeline.scaffold.init import init
from tapeline.scaffold.raw_data import unversioned
from tapeline.upgrade import forms

OWN = {".dvc", ".git", ".dvcignore", ".gitignore", ".tapeline"}
"""What DVC, Git and this working tree keep for themselves."""


def files_of(folder):
    """Return the content of every file that is a person's, by its path."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in found if p.relative_to(folder).parts[0] not in OWN
    }


def dvc(folder, *arguments):
    """Call DVC, and return what it prints."""
    return called(folder, sys.executable, "-P", "-m", "dvc", *arguments)


TWO = "".join(f"{n * 3},{'uv'[n % 2]}\n" for n in range(40))
"""Rows with a number and one of two names."""


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
    assert git(folder, "check-ignore", "dvc_plots/index.html", ".venv/any", "recipes/.iris.py.partial").count("\n") == 3


@pytest.mark.parametrize("before", [{}, {"recipes/iris.py": "x = 1\n"}])
def test_no_temporary_file_is_left(tmp_path, monkeypatch, before):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    for name, text in before.items():
        files.write_text(tmp_path / "p" / name, text)
    with pytest.raises(InputError) if before else nullcontext():
        init(tmp_path / "p", say=lambda line: None)
    assert list((tmp_path / "temporary").iterdir()) == []


def test_again_it_changes_nothing(tmp_path):
    init(tmp_path, say=lambda line: None)
    (tmp_path / "recipes/iris.py").write_text("# mine\n")
    before, ignored = files_of(tmp_path), (tmp_path / ".dvcignore").read_text()
    assert init(tmp_path, say=lambda line: None) == []
    assert (files_of(tmp_path), (tmp_path / ".dvcignore").read_text()) == (before, ignored)


@pytest.mark.first(1)
@pytest.mark.parametrize("by", ["DVC", "a formatter", "Git's line ends"])
def test_a_file_that_is_formatted_otherwise_is_still_tapelines(tmp_path, by):
    init(tmp_path, say=lambda line: None)
    text = (tmp_path / "dvc.yaml").read_text()
    if by == "DVC":
        dvc(tmp_path, "stage", "add", "-q", "-n", "mine", "-o", "made.txt", "echo 1 > made.txt")
    elif by == "a formatter":
        formatted = text.replace("{x: step", "{ x: step").replace("        - ", "      - ")
        files.write_text(tmp_path / "dvc.yaml", formatted)
    else:
        files.write_text(tmp_path / "dvc.yaml", text.replace("\n", "\r\n"))
    rewritten = (tmp_path / "dvc.yaml").read_bytes().decode()
    assert not rewritten.startswith(text)
    assert init(tmp_path, say=lambda line: None) == []
    assert forms.dvc(rewritten) == rewritten


@pytest.mark.slow
def test_a_schedule_when_asked_also_later(tmp_path):
    init(tmp_path, say=lambda line: None)
    new = init(tmp_path, flows=True, say=lambda line: None)
    assert [path.relative_to(tmp_path).as_posix() for path in new] == ["prefect.yaml", "flows/training.py"]
    [deployment] = read(tmp_path / "prefect.yaml")
    assert deployment.parameters["pipeline"] == "iris"
    assert deployment.work_pool == {"name": f"tapeline-{tmp_path.name}"}, "two projects on a server share none"
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


@pytest.mark.first(1)
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_data_that_are_copied_are_versioned_by_dvc(tmp_path, table, kind):
    data = table if kind == "file" else pets(tmp_path / "pets")
    folder, said = tmp_path / "p", []
    new = init(folder, data=data, say=said.append)
    raw = f"data/raw/{data.name}"
    assert [path.relative_to(folder).as_posix() for path in new[-2:]] == [f"{raw}.dvc", "data/raw/.gitignore"]
    assert said[-1].startswith(f"added {raw} to DVC: commit {raw}.dvc to Git; `dvc push`")
    git(folder, "add", ".")
    listed = git(folder, "ls-files", "-z", "data").split("\0")
    assert set(listed) == {"", "data/raw/.gitignore", f"{raw}.dvc"}
    assert (folder / raw).exists()


def test_the_irises_are_for_git(tmp_path):
    init(tmp_path, say=lambda line: None)
    git(tmp_path, "add", ".")
    assert git(tmp_path, "ls-files", "data") == "data/raw/iris.csv\n"


@pytest.mark.slow
def test_data_in_their_place_are_to_be_added_unless_they_are_versioned(tmp_path, table, capsys, monkeypatch):
    init(tmp_path / "p", data=table, say=lambda line: None)
    for folder, wanted in (("q", "next: `dvc add 'Old Houses.csv'`, `dvc repro`, "), ("r", "next: `dvc repro`, ")):
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        files.write_bytes(tmp_path / folder / table.name, table.read_bytes())
        if folder == "r":
            git(tmp_path / "r", "init", "-q")
            git(tmp_path / "r", "add", ".")
        assert main(["init", str(tmp_path / folder), "--data", str(tmp_path / folder / table.name)]) == 0
        assert capsys.readouterr().out.splitlines()[-1].startswith(wanted)
        assert not (tmp_path / folder / "Old Houses.csv.dvc").exists()
    assert unversioned(Project.find(tmp_path / "p"), ["data/raw/Old Houses.csv", "data/raw/a/b.csv"]) == [
        "data/raw/a/b.csv"
    ]
    (tmp_path / "p/data/raw/a.dvc").write_text("outs: []\n")
    assert unversioned(Project.find(tmp_path / "p"), ["data/raw/a/b.csv"]) == []


def test_what_comes_next_commits_all_that_is_new(tmp_path, capsys, monkeypatch):
    """Below another repository's root, DVC's settings are above the project."""
    git(tmp_path, "init", "-q")
    monkeypatch.chdir(tmp_path)
    assert main(["init", "learning"]) == 0
    committing = capsys.readouterr().out.splitlines()[-1].rsplit("`", 2)[1]
    assert committing == "git add . ../.dvc ../.dvcignore && git commit"
    subprocess.run(committing.partition(" && ")[0], shell=True, cwd=tmp_path / "learning", check=True)
    assert all(line[1] == " " for line in git(tmp_path, "status", "--porcelain").splitlines())


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("name", "shown"), [("-learning", "./-learning"), ("learning", "learning"), ("a b/c", "'a b/c'")]
)
def test_what_comes_next_begins_with_the_way_into_another_folder(tmp_path, capsys, monkeypatch, name, shown):
    """`dvc repro` where one stands is about another `dvc.yaml`, if there is one."""
    monkeypatch.chdir(tmp_path)
    assert main(["init", "--", name]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"next: `cd {shown}`, `dvc repro`, then ")


@pytest.mark.parametrize(("programs", "shown"), [(["tapeline"], "`tapeline run --pipeline iris`"), ([], "`dvc repro`")])
def test_what_comes_next_is_a_command_that_is_there(tmp_path, capsys, monkeypatch, programs, shown):
    """With pipx, `tapeline` alone is on the PATH."""
    monkeypatch.setattr(shutil, "which", lambda name, **_: name if name in ("git", sys.executable, *programs) else None)
    assert main(["init", str(tmp_path)]) == 0
    assert f", {shown}, then " in capsys.readouterr().out.splitlines()[-1]


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        (".gitignore", "/data/\n", "DVC does not see data/raw/Old Houses.csv.dvc"),
        ("data/raw/Old Houses.csv.dvc", "outs: []\n", "Old Houses.csv.dvc exists, but"),
    ],
)
def test_data_that_dvc_could_not_version_are_refused_and_nothing_is_written(tmp_path, table, file, text, said):
    folder = tmp_path / "p"
    files.write_text(folder / file, text)
    git(folder, "init", "-q")
    with pytest.raises(InputError, match=said):
        init(folder, data=table, say=lambda line: None)
    assert files_of(folder).keys() == {file} - OWN
    assert not (folder / ".dvc").exists()


@pytest.mark.first(3)
@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        (
            "*.lock",
            "p/engine.lock would never be committed: `*.lock` in line 2 of .gitignore hides it from Git; narrow that",
        ),
        ("*.csv", "p/data/raw/iris.csv would never be committed: `*.csv` in line 2 of .gitignore hides it"),
        ("*.yaml", "p/params.yaml would never be committed: `*.yaml` in line 2 of .gitignore hides it"),
        ("dvc.lock", "p/dvc.lock would never be committed"),
        ("recipes/", "p/recipes/iris.py would never be committed: `recipes/` in line 2 of .gitignore hides it"),
        (".*", ".dvc/config would never be committed: `.*` in line 2 of .gitignore hides it"),
        ("*.html", ".dvc/plots/page.html would never be committed: `*.html` in line 2 of .gitignore hides it"),
    ],
)
def test_a_project_that_git_would_not_have_is_refused_and_nothing_is_written(tmp_path, pattern, said):
    files.write_text(tmp_path / ".gitignore", f"# mine\n{pattern}\n")
    git(tmp_path, "init", "-q")
    before = {*tmp_path.iterdir()}
    with pytest.raises(InputError) as refused:
        init(tmp_path / "p", say=lambda line: None)
    assert str(refused.value).startswith(f"{tmp_path}/{said}")
    assert "\n" not in str(refused.value)
    assert {*tmp_path.iterdir()} == before


def test_a_project_that_dvc_would_not_see_is_refused(tmp_path):
    """Git sees all of it."""
    files.write_text(tmp_path / "p/t.csv", "a,kind\n" + TWO)
    files.write_text(tmp_path / ".gitignore", "/p/*\n!/p/*.csv\n!/p/*.yaml\n!/p/*.lock\n!/p/recipes\n")
    git(tmp_path, "init", "-q")
    with pytest.raises(InputError, match=r"DVC does not see p/dvc.yaml, .*: `/p/\*` in line 1 of .gitignore hides p/"):
        init(tmp_path / "p", data=tmp_path / "p/t.csv", say=lambda line: None)
    assert files_of(tmp_path).keys() == {"p/t.csv"}


def test_a_schedule_that_git_would_not_have_is_refused(tmp_path):
    init(tmp_path, say=lambda line: None)
    files.write_text(tmp_path / ".gitignore", "flows\n")
    with pytest.raises(
        InputError, match="training.py would never be committed: `flows` in line 1 of .gitignore hides it"
    ):
        init(tmp_path, flows=True, say=lambda line: None)
    assert not (tmp_path / "prefect.yaml").exists()


def test_patterns_that_hide_nothing_of_a_project_are_fine(tmp_path):
    patterns = "/data/?*\n!/data/raw/\n/models/\n*.py[cod]\n.venv/\n*.log\n"
    files.write_text(tmp_path / ".gitignore", patterns)
    git(tmp_path, "init", "-q")
    init(tmp_path, say=lambda line: None)
    assert (tmp_path / ".gitignore").read_text() == patterns


def test_where_dvc_fails_all_is_written_and_the_command_is_named(tmp_path, table):
    folder = tmp_path / "p"
    files.write_text(folder / ".dvcignore", "data\n")
    with pytest.raises(RunError, match=r"`dvc add 'data/raw/Old Houses.csv'` failed in .* is ignored by"):
        init(folder, data=table, say=lambda line: None)
    assert files_of(folder).keys() >= {"params.yaml", "dvc.yaml", "engine.lock", "data/raw/Old Houses.csv"}


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("text", "target", "is_class"),
    [
        ("a,b,kind\n" + "".join(f"{n % 9},2,{'xy'[n % 2]}\n" for n in range(40)), "kind", True),
        ("Label,a,b\n" + "".join(f"{n % 2},{n % 9},2\n" for n in range(40)), "Label", True),
        ("a,y,b\n" + "".join(f"{n % 9},{n / 7},2\n" for n in range(40)), "y", False),
        ("a,b\n" + "".join(f"{n % 9},{n * 3}\n" for n in range(400)), "b", False),
        ("a,off\n" + TWO, "off", True),
        ("a,x\n" + TWO, "x", True),
        ('a,"q: [1]"\n' + TWO, "q: [1]", True),
        ('a,"\x7f\u2028"\n' + TWO, "\x7f\u2028", True),
        ("PARAMS_,NAME_\n" + TWO, "NAME_", True),
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
    pets(tmp_path / "pets")
    init(tmp_path / "p", data=tmp_path / "pets", say=lambda line: None)
    dataset = Params.load(tmp_path / "p").dataset("pets")
    assert (dataset.size, dataset.validation) == ((20, 20), 0.15)
    assert len(list((tmp_path / "p/data/raw/pets").rglob("*.png"))) == 28


@pytest.mark.parametrize(
    ("before", "data", "said"),
    [
        ({"dvc.yaml": "stages: {}\n"}, None, "has a dvc.yaml of its own: `tapeline init FOLDER` makes"),
        ({"params.yaml": "rate: 1\n"}, None, "has a params.yaml that is not Tapeline's"),
        ({"params.yaml": "a: [\n"}, None, "has a params.yaml that is not Tapeline's"),
        ({"recipes/iris.py": "x = 1\n"}, None, "iris.py exists: move it away, or rename the data"),
        ({"data/raw/iris.csv": "a,b\n"}, None, "iris.csv exists, but"),
        ({}, "nowhere.csv", "nowhere.csv does not exist"),
        ({"t.csv": ""}, "t.csv", "t.csv cannot be read as CSV"),
        ({"t.csv": "a,b\n"}, "t.csv", "t.csv has no rows"),
        ({"t.csv": "a\n1\n"}, "t.csv", "t.csv has 1 column"),
        ({"t.csv": "a;b\n1;2\n"}, "t.csv", "t.csv has the separator ';': save it with commas and decimal points"),
        ({"t.csv": "8.6,17\n8.5,18\n"}, "t.csv", "t.csv has numbers in its first row: add a row with the column names"),
        ({"t.csv": "8.6,17,y\n8.5,18,n\n8.1,19,y\n"}, "t.csv", "t.csv has numbers in its first row: add a row with"),
        ({"t.csv": "a;b;c\n0,5;7;y\n"}, "t.csv", "t.csv has the separator ';': save it with commas and decimal points"),
        ({"t.csv": "a,b\nx,y\n"}, "t.csv", "t.csv has no column of numbers besides 'b'"),
        ({"t.csv": "a,b\n1,x\n2,y\n"}, "t.csv", "besides 'b' (column 'a' is ignored: it numbers the rows): text and"),
        ({"t.csv": "a,b\n1,1\n2,2\n"}, "t.csv", "t.csv has no target: each column numbers the rows"),
        ({"t.csv": "a,a\n1,2\n"}, "t.csv", "t.csv has more than one column 'a': rename them, or leave"),
        ({"t.parquet": "no table"}, "t.parquet", "t.parquet cannot be read as Parquet"),
        ({"pets/cat/a.png": "x"}, "pets", "pets has no train/<class>/<image>"),
        ({"digits/dataset.json": "{}"}, "digits", "digits is a dataset that a project has ingested: in a project, "),
        (
            {"rows/y=1/a.parquet": "x"},
            "rows",
            "rows has y=1/a.parquet, and a table is one file: give that, or write all",
        ),
        ({"pets/train/cat/a.png": "x"}, "pets", "a.png is not an image that can be decoded"),
        ({"t.csv": "a,b\n" + TWO, "recipes": ""}, "t.csv", "recipes is not a folder: move it away"),
        ({"data": ""}, None, "data is not a folder: move it away"),
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


def raw_again(tmp_path):
    """Return a project's folder, and a table outside that is called as the folder of raw data."""
    (tmp_path / "raw.csv").write_text("a,kind\n" + TWO)
    return tmp_path / "p", tmp_path / "raw.csv", "raw-data"


def photos_inside(tmp_path):
    """Return a project's folder, and images inside where a dataset of that name would be written."""
    return tmp_path / "p", pets(tmp_path / "p/data/photos"), "photos-data"


def number_as_name(tmp_path):
    (tmp_path / "2024.csv").write_text("a,kind\n" + TWO)
    return tmp_path / "p", tmp_path / "2024.csv", "data-2024"


PLACES = [raw_again, photos_inside, number_as_name]


@pytest.mark.first(1)
@pytest.mark.parametrize("made", PLACES)
def test_ingest_leaves_the_raw_data(tmp_path, made):
    folder, data, name = made(tmp_path)
    init(folder, data=data, say=lambda line: None)
    dataset, before = Params.load(folder).dataset(name), files_of(folder)
    assert not (folder / "data" / name).exists()
    ingest(name, dataset, project=folder, out=folder / "data" / name, work=folder / ".tapeline/work")
    after = files_of(folder)
    assert {place: after[place] for place in before} == before
    assert f"data/{name}/dataset.json" in after


@pytest.mark.long
@pytest.mark.parametrize("made", PLACES)
def test_dvc_makes_a_model_of_what_is_proposed(tmp_path, made):
    folder, data, name = made(tmp_path)
    init(folder, data=data, flows=True, say=lambda line: None)
    params = (folder / "params.yaml").read_text()
    (folder / "params.yaml").write_text(params.replace("epochs: 20", "epochs: 1").replace("epochs: 50", "epochs: 1"))
    before = {place: content for place, content in files_of(folder).items() if place.startswith("data/")}
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    command = [sys.executable, "-P", "-m", "dvc", "repro"]
    answer = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert (folder / "models" / name / "saved_model").is_dir()
    assert before.items() <= files_of(folder).items()


@pytest.mark.parametrize("place", ["", "data", "recipes"])
def test_data_around_what_is_written_are_refused_and_stay(tmp_path, place):
    pets(tmp_path / place)
    before = files_of(tmp_path)
    with pytest.raises(InputError, match="which Tapeline writes: move the data to data/raw/NAME"):
        init(tmp_path, data=tmp_path / place, say=lambda line: None)
    assert files_of(tmp_path) == before
    assert not (tmp_path / ".git").exists()


@pytest.mark.slow
def test_images_in_folders_that_are_links_are_copied(tmp_path):
    source = pets(tmp_path / "pets")
    (source / "train/cat").rename(tmp_path / "cats")
    (source / "train/cat").symlink_to(tmp_path / "cats")
    (source / "test/dog/.again").symlink_to(source)
    init(tmp_path / "p", data=source, say=lambda line: None)
    copied = tmp_path / "p/data/raw/pets"
    assert sum(path.is_file() for path in copied.rglob("*")) == 28
    assert not (copied / "train/cat").is_symlink()


def test_a_name_that_is_not_utf8_is_one_line(tmp_path):
    data = tmp_path / os.fsdecode(b"caf\xe9.csv")
    data.write_text("a,kind\n" + TWO)
    with pytest.raises(InputError, match=r"caf\\udce9.csv' is not a name in UTF-8: rename it"):
        init(tmp_path / "p", data=data, say=lambda line: None)
    assert not (tmp_path / "p").exists()


def test_a_link_to_nothing_in_the_place_of_a_copy_stays(tmp_path, table):
    place = tmp_path / "p/data/raw/Old Houses.csv"
    place.parent.mkdir(parents=True)
    place.symlink_to("nowhere")
    with pytest.raises(InputError, match="exists, but"):
        init(tmp_path / "p", data=table, say=lambda line: None)
    assert place.is_symlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
@pytest.mark.parametrize("place", ["", "model/new"])
def test_a_repository_that_git_refuses_to_read_gets_none_inside(tmp_path, monkeypatch, place):
    monkeypatch.delenv("SUDO_UID", raising=False)
    repository = tmp_path / "theirs"
    (repository / "model").mkdir(parents=True)
    git(repository, "init", "-q")
    for path in (repository, *repository.rglob("*")):
        os.chown(path, 65534, 65534)
    before = {*repository.rglob("*")}
    with pytest.raises(
        RunError, match=r"fatal: detected dubious ownership in repository at .*: `git config .*` helps$"
    ):
        init(repository / place, say=lambda line: None)
    assert {*repository.rglob("*")} == before


@pytest.mark.slow
@pytest.mark.first(1)
@pytest.mark.parametrize("is_submodule", [True, False])
def test_a_git_repository_inside_a_dvc_repository_gets_its_own(tmp_path, is_submodule):
    """DVC would take the outer one, which no clone of the inner one has."""
    outer, inner = tmp_path / "outer", tmp_path / "outer" / "inner"
    git(tmp_path, "init", "-q", "outer")
    dvc(outer, "init", "-q")
    if is_submodule:
        git(tmp_path, "init", "-q", "own")
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        git(tmp_path / "own", *identity, "commit", "-q", "--allow-empty", "-m", "one")
        git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(tmp_path / "own"), "inner")
    else:
        git(outer, "init", "-q", "inner")
    before, said = (outer / ".dvc/config").read_text(), []
    init(inner / "project", say=said.append)
    assert f"made {inner} a DVC repository" in said
    assert dvc(inner / "project", "root").strip() == ".."
    assert not (inner / "project/.dvc").exists()
    assert (outer / ".dvc/config").read_text() == before
    git(inner, "add", ".")
    assert ".dvc/config" in git(inner, "ls-files").splitlines()
    assert init(inner / "project", say=lambda line: None) == []


@pytest.mark.parametrize("kind", ["--no-scm", "--subdir"])
def test_a_dvc_repository_of_another_kind_is_used(tmp_path, kind):
    if kind == "--subdir":
        git(tmp_path, "init", "-q")
    (tmp_path / "sub").mkdir()
    dvc(tmp_path / "sub", "init", "-q", kind)
    said = []
    init(tmp_path / "sub", say=said.append)
    assert not any("a DVC repository" in line for line in said)
    assert dvc(tmp_path / "sub", "root").strip() == "."


def test_what_is_left_of_a_repository_is_one_line(tmp_path):
    (tmp_path / ".git").mkdir()
    with pytest.raises(InputError, match="is not in a Git repository: `git init` makes one$"):
        init(tmp_path / "p", say=lambda line: None)
    assert [*tmp_path.iterdir()] == [tmp_path / ".git"]
    git(tmp_path, "init", "-q")
    init(tmp_path / "p", say=lambda line: None)
    assert not (tmp_path / "p/.git").exists()


def test_an_ignore_file_that_is_not_utf8_is_said_before_anything_is_written(tmp_path):
    git(tmp_path, "init", "-q")
    (tmp_path / ".dvcignore").write_bytes(b"# caf\xe9\n")
    with pytest.raises(InputError, match=r"\.dvcignore is not UTF-8: invalid continuation byte; save it as UTF-8$"):
        init(tmp_path / "p", say=lambda line: None)
    assert {path.name for path in tmp_path.iterdir()} == {".git", ".dvcignore"}


def test_a_repository_with_other_things_keeps_them(tmp_path):
    for command in (["git", "init", "-q"], ["dvc", "init", "-q"]):
        command = command if command[0] == "git" else [__import__("sys").executable, "-P", "-m", *command]
        subprocess.run(command, cwd=tmp_path, check=True)
    own = {"dvc.yaml": "stages:\n  mine: {cmd: echo}\n", "params.yaml": "rate: 1\n", "src/mine.py": "x = 1\n"}
    for name, text in own.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / ".dvcignore").write_text("/cache\n.tapeline")
    said = []
    init(tmp_path / "model", say=said.append)
    assert f"added to {tmp_path / '.dvcignore'}: .venv __pycache__ *.pyc .*.partial" in said
    assert any(line.startswith(f"set plots.html_template in {tmp_path / '.dvc/config'}, ") for line in said)
    assert {name: (tmp_path / name).read_text() for name in own} == own
    assert len(files_of(tmp_path / "model")) == 5
    assert not (tmp_path / "model/.git").exists() and not (tmp_path / "model/.dvc").exists()
    assert (tmp_path / ".dvcignore").read_text().splitlines()[:3] == ["/cache", ".tapeline", ".venv"]
    assert Path(tmp_path / ".dvc/plots/page.html").exists()


def test_of_several_pipelines_those_that_are_not_scheduled_are_named(tmp_path):
    init(tmp_path, say=lambda line: None)
    params = (tmp_path / "params.yaml").read_text()
    entry = params[params.index("\npipelines:") :].partition("\n  iris:")[2]
    (tmp_path / "params.yaml").write_text(f"{params}  second:{entry.rstrip()}\n")
    said = []
    init(tmp_path, flows=True, say=said.append)
    assert said == ["prefect.yaml schedules iris: add a deployment for second"]
