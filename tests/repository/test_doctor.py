"""`tapeline doctor`: each thing that is missing is named with the way to get it; nothing is changed."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from repositories import git

from tapeline.repository import doctor, line_ends
from tapeline.repository.doctor import MISSING, NOTE, OK, examine
from tapeline.repository.git import Git
from tapeline.runtime.errors import InputError
from tapeline.scaffold.init import init


def wanting(folder, state=MISSING):
    return {finding.what: finding.remedy for finding in examine(folder) if finding.state == state}


def test_a_new_project_lacks_nothing(project):
    assert wanting(project) == {}
    assert {"no DVC remote: others cannot get the data and models"} <= wanting(project, NOTE).keys()
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    assert all(finding.state in (OK, NOTE) for finding in examine(project / "data"))
    assert {path: path.read_bytes() for path in project.rglob("*") if path.is_file()} == before


def test_an_input_that_git_ignores(project):
    (project / ".gitignore").write_text("*.csv\nengine.lock\n")
    assert list(wanting(project)) == [
        "Git ignores data/raw/iris.csv, so clones will not have it",
        "Git ignores engine.lock, so clones will not have it",
    ]
    for file in ("data/raw/iris.csv.dvc", "data/raw.dvc"):  # of a folder, too
        (project / file).write_text("outs: []\n")
        assert list(wanting(project)) == ["Git ignores engine.lock, so clones will not have it"]
        (project / file).unlink()


@pytest.mark.first(4)
@pytest.mark.parametrize(
    ("attributes", "setting", "cause"),
    [
        ("", ("core.autocrlf", "true"), "core.autocrlf is true"),
        ("* text=auto eol=crlf", (), "the attribute eol=crlf"),
        ("* text=auto", ("core.eol", "crlf"), "core.eol is crlf"),
        ("* text=auto eol=crlf\n* -text", ("core.autocrlf", "true"), None),
        ("*.csv eol=crlf", (), "the attribute eol=crlf"),
        ("", ("core.eol", "crlf"), None),
        ("* text=auto", ("core.autocrlf", "input"), None),
        ("* text=auto eol=lf", ("core.autocrlf", "true"), None),
    ],
)
def test_line_ends_that_git_changes(project, attributes, setting, cause):
    (project / ".gitattributes").write_text(f"{attributes}\n")
    if setting:
        git(project, "config", *setting)
    what = f"{cause}: Git converts the line endings of data/raw/iris.csv, so that DVC finds every new checkout stale"
    wanted = {what: line_ends.REMEDY} if cause else {}

    def said():
        return {what: remedy for what, remedy in wanting(project, NOTE).items() if "line endings" in what}

    assert said() == wanted
    git(project, "add", ".")
    assert said() == wanted
    git(project, "checkout-index", "--prefix=anew/", "data/raw/iris.csv")
    assert (b"\r\n" in (project / "anew/data/raw/iris.csv").read_bytes()) == (cause is not None), "as Git does it"


@pytest.mark.parametrize(
    ("attributes", "setting", "cause"),
    [
        ("* text=auto", "false", "the attribute text=auto"),
        ("*.csv text", "false", "the attribute text"),
        ("", "input", "core.autocrlf is input"),
        ("* -text", "input", None),
        ("", "false", None),
        ("* text=auto eol=crlf", "false", None),
    ],
)
def test_line_ends_that_git_stores_otherwise(project, attributes, setting, cause):
    """As of an editor or a spreadsheet program on Windows."""
    table = project / "data/raw/iris.csv"
    (project / ".gitattributes").write_text(f"{attributes}\n")
    git(project, "config", "core.autocrlf", setting)
    table.write_bytes(table.read_bytes().replace(b"\n", b"\r\n"))
    for _ in range(2):
        said = [what for what in wanting(project, NOTE) if "line endings of data/raw" in what]
        assert [what.partition(": ")[0] for what in said] == ([cause] if cause else [])
        git(project, "add", ".")
    anew = project / "anew"
    git(project, "checkout-index", f"--prefix={anew}/", "data/raw/iris.csv")
    assert ((anew / "data/raw/iris.csv").read_bytes() != table.read_bytes()) == (cause is not None), "as Git does it"


def test_line_ends_of_a_folder_of_inputs(project):
    """The first file that Git changes is named, and not what DVC has, nor what is binary."""
    (project / "parts").mkdir()
    for name, content in {"a.png": b"\0\n", "b.py": b"x = 1\n", "c.csv": b"a\n", ".gitignore": b"/c.csv\n"}.items():
        (project / "parts" / name).write_bytes(content)
    params = (project / "params.yaml").read_text()
    (project / "params.yaml").write_text(params.replace("needs: data/raw/iris.csv", "needs: parts"))
    (project / ".gitattributes").write_text("*.p* text=auto eol=crlf\n*.csv text=auto eol=crlf\n/recipes/* -text\n")
    [said] = [what for what in wanting(project, NOTE) if "line endings" in what]
    assert "the line endings of parts/b.py," in said


def test_remotes_are_named(project):
    (project / ".dvc/config.local").write_text(
        "[core]\nremote = store\n['remote \"old\"']\nurl = /nowhere\n['remote \"store\"']\nurl = /nowhere\n"
    )
    Git(project)("remote", "add", "origin", "/nowhere")
    assert {"dvc remote store", "git remote origin"} <= wanting(project, OK).keys()
    assert not any("remote" in what for what in wanting(project, NOTE))


def test_a_remote_that_is_not_the_default_is_not_used(project):
    (project / ".dvc/config.local").write_text("['remote \"store\"']\nurl = /nowhere\n")
    remedy = wanting(project, NOTE)["no DVC remote is the default, so that store is not used"]
    assert remedy == "`dvc remote default store`"
    assert "dvc remote store" not in wanting(project, OK)


def test_a_dvc_repository_around_the_git_repository_is_not_its_own(project):
    inner = project / "inner"
    inner.mkdir()
    git(inner, "init", "--quiet")
    for name in ("params.yaml", "dvc.yaml", "engine.lock", "recipes", "data"):
        (project / name).rename(inner / name)
    what = f"no DVC repository in this Git repository: DVC uses {project}, which no clone has"
    assert wanting(inner) == {what: "`tapeline init` makes one"}
    assert init(inner, say=lambda line: None) == [inner / ".gitignore"]
    assert wanting(inner) == {}


@pytest.mark.parametrize("sparse", [True, False])
def test_a_committed_dvc_folder_that_is_not_checked_out(project, sparse):
    """A new one would replace the team's remotes with the next commit."""
    git(project, "add", "-A")
    git(project, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "all")
    if sparse:
        git(project, "sparse-checkout", "set", "--cone", "recipes", "data")
    else:
        shutil.rmtree(project / ".dvc")
    remedy = f"`git -C {project} sparse-checkout add .dvc`" if sparse else "`git checkout -- :/.dvc`"
    what = "Git has the folder .dvc, but this checkout lacks it"
    assert wanting(project)[what] == remedy
    for folder in (project, project / "new" / "one"):
        with pytest.raises(InputError, match=f"{what}: {re.escape(remedy)}"):
            init(folder, say=lambda line: None)
    subprocess.run(remedy.strip("`"), shell=True, check=True, cwd=project)  # a command as it is said
    assert wanting(project) == {}


def test_a_project_that_git_does_not_have(project):
    shutil.rmtree(project / ".git")
    assert wanting(project)[f"{project} is not in a Git repository"] == "`git init`"


@pytest.mark.parametrize("cache", [".dvc/cache", "a cache"])
def test_a_cache_that_another_user_made(cache):
    """In a process without root's rights, which may not write to a folder of root's."""
    program = (
        "import os, sys; from pathlib import Path; from tapeline.repository import doctor\n"
        "from tapeline.config.project import Project\n"
        "from tapeline.repository.dvc import settings\n"
        "if os.geteuid() == 0: os.setuid(65534)\n"
        "for one in doctor._dvc_settings(Project.find(Path(sys.argv[1]))): print(one.what, one.remedy, sep='\\n')"
    )
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        folder = top / cache / "files" / "md5"
        for made in (folder, top / ".dvc" / "cache"):
            made.mkdir(parents=True, exist_ok=True)
        (top / "params.yaml").touch()
        (top / ".dvc" / "config").write_text("" if cache == ".dvc/cache" else f"[cache]\ndir = ../{cache}\n")
        for above in (top, top / cache):
            above.chmod(0o777)
        folder.chmod(0o500)
        done = subprocess.run(
            [sys.executable, "-c", program, name],
            env=os.environ | {"HOME": name},
            capture_output=True,
            text=True,
            check=False,
        )
    change = f"chmod -R g+ws {shlex.quote(str(top / cache))}"
    assert done.stdout.splitlines()[:2] == [
        f"{folder} is another user's, so that DVC can record nothing in it",
        f"`dvc config cache.shared group`, and as the folder's owner `{change}`",
    ], done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_a_repository_that_git_refuses_to_read(project, monkeypatch):
    monkeypatch.delenv("SUDO_UID", raising=False)
    for path in (project, *project.rglob("*")):
        os.chown(path, 65534, 65534)
    [said] = wanting(project)
    assert said.startswith("git rev-parse: fatal: detected dubious ownership in repository at ")
    assert said.endswith(f": `git config --global --add safe.directory {project}` helps")
    assert not any("Git remote" in line for line in wanting(project, NOTE))


@pytest.mark.first(5)
@pytest.mark.parametrize(
    ("file", "old", "new", "what", "remedy"),
    [
        ("engine.lock", "keras: ", 'keras: "1.0" #', "keras 1.0: ", "`pip install keras==1.0`, or `tapeline upgrade`"),
        ("params.yaml", "epochs: 50", "epochs: 0", "params.yaml: pipelines.iris.train.epochs is 0", "correct it"),
        ("params.yaml", "datasets:", "datasets: [", "params.yaml, line", "correct it"),
        (
            "engine.lock",
            'train: "',
            'train: "0',
            "engine.lock does not match the code of train",
            "`tapeline lock`, or `tapeline upgrade`",
        ),
        ("engine.lock", "train:", "trian:", "engine.lock must have a hash", "`tapeline lock`, or `tapeline upgrade`"),
        (
            "dvc.yaml",
            "path: models/iris",
            "path: models/gone",
            "artifact iris of dvc.yaml has",
            "write `path: models/iris`",
        ),
        ("dvc.yaml", "{path:", "[{path:", "dvc.yaml, line", "correct it"),
        (".dvc/config", "[plots]", "[plots", "DVC: ", "correct .dvc/config, or .dvc/config.local"),
        (".dvcignore", ".tapeline", "other", ".dvcignore does not list .tapeline", "add the line"),
    ],
)
def test_what_is_wrong_is_named_with_its_remedy(project, file, old, new, what, remedy):
    path = project / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    [(said, way)] = wanting(project).items()
    assert said.startswith(what) and way == remedy and "\n" not in said


@pytest.mark.parametrize(
    ("gone", "what", "remedy"),
    [
        ("engine.lock", "no engine.lock", "`tapeline lock`"),
        ("dvc.yaml", "no dvc.yaml", "restore it; for a new project, `tapeline init` writes it"),
    ],
)
def test_a_file_that_is_gone(project, gone, what, remedy):
    (project / gone).unlink()
    assert wanting(project) == {what: remedy}


def test_a_cut_lock(project):
    (project / "dvc.lock").write_text("")
    assert wanting(project) == {"dvc.lock was truncated while it was written": "`tapeline repair`"}


def test_no_project(tmp_path):
    [(said, way)] = wanting(tmp_path).items()
    assert said.startswith("no project: no params.yaml in ") and way == "`tapeline init`"


OWN_STAGES = "stages:\n  train: {cmd: python train.py, deps: [train.py]}\n"
ELSEWHERE = "`tapeline init FOLDER` makes one in a separate folder"


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("own", "what"),
    [
        ({"params.yaml": "train: {lr: 0.1}\n"}, "no project: {}/params.yaml has neither datasets nor pipelines"),
        (
            {"params.yaml": "train: {lr: 0.1}\n", "dvc.yaml": OWN_STAGES},
            "no project: {}/params.yaml has neither datasets nor pipelines",
        ),
        ({"dvc.yaml": OWN_STAGES}, "no project: no params.yaml in {} or above it"),
    ],
)
def test_files_of_ones_own_ask_for_a_folder_for_the_project(tmp_path, own, what):
    """It sent people into their own files, or to a `tapeline init` that is refused there."""
    for name, text in own.items():
        (tmp_path / name).write_text(text)
    assert wanting(tmp_path) == {what.format(tmp_path): ELSEWHERE}
    with pytest.raises(InputError, match="`tapeline init FOLDER` makes a project in a separate folder"):
        init(tmp_path)
    init(tmp_path / "my project", say=lambda line: None)
    assert wanting(tmp_path) == {what.format(tmp_path): f"`cd 'my project'`, where there is one, or {ELSEWHERE}"}
    assert wanting(tmp_path / "my project") == {}


def test_a_dvc_yaml_of_another_kind_in_a_project(project):
    (project / "dvc.yaml").write_text(OWN_STAGES)
    remedy = "restore it; `tapeline init FOLDER` makes a project in a separate folder"
    assert wanting(project) == {"dvc.yaml has no stage of Tapeline's": remedy}


def test_a_python_or_a_disk_that_does_not_do(project, monkeypatch):
    monkeypatch.setattr(doctor, "PYTHONS", ((3, 1), (3, 2)))
    monkeypatch.setattr(doctor, "ROOM", 1 << 80)
    assert list(wanting(project).values()) == [
        "use Python 3.1 to 3.2",
        "free some with `tapeline prune` or `dvc gc`, or use a larger disk",
    ]
