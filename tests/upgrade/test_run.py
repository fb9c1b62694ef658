"""`tapeline upgrade` with real Git, DVC and training, on a project in the forms of an older version."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from older import GITIGNORE, NAMES, OWN, Older
from repositories import git
from ruamel.yaml import YAML

from tapeline.config.project import Project
from tapeline.scaffold.init import init
from tapeline.scaffold.proposal import template
from tapeline.upgrade import journal
from tapeline.upgrade.run import JOURNAL, upgrade

pytestmark = pytest.mark.slow
FILES = ("params.yaml", "dvc.yaml", "engine.lock", "dvc.lock", ".gitignore", ".dvcignore")
IGNORED = GITIGNORE + "\n.tapeline\n.venv\n*.pyc\n.*.partial\ndvc_plots\n"


@pytest.fixture(scope="module")
def aged(tmp_path_factory):
    """The project, with a version of `iris` that plain Git has tagged as GTO does."""
    older = Older(tmp_path_factory.mktemp("aged") / "a project")
    older.age()
    older.git("tag", "--annotate", "iris@v1.0.0", "--message", "A version")
    return older


@pytest.fixture
def project(aged, tmp_path):
    """A copy of it."""
    shutil.copytree(aged.folder, tmp_path / "a project", symlinks=True)
    return Older(tmp_path / "a project", new=False)


def environment(engine=None):
    return {**os.environ, "PYTHONPATH": str(engine or Path(__file__).parents[2] / "src")}


def command(*arguments):
    return [sys.executable, "-P", "-m", "tapeline", *arguments]


def tapeline(project, *arguments, engine=None):
    return subprocess.run(
        command(*arguments),
        cwd=project.folder,
        env=environment(engine),
        capture_output=True,
        text=True,
        check=False,
    )


def upgraded(project, *arguments, engine=None):
    """Return the lines of an upgrade that ends with status 0."""
    answer = tapeline(project, "upgrade", *arguments, engine=engine)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout.splitlines()


def content(project):
    """Return what is in the working tree, outputs too, and what Git sees as changed."""
    files = {path for path in project.folder.rglob("*") if path.is_file()}
    own = {path for path in files if path.relative_to(project.folder).parts[0] not in (".git", ".dvc", ".tapeline")}
    return {path: path.read_bytes() for path in own}, project.git("status", "--porcelain")


def locked(project):
    return YAML(typ="safe").load((project.folder / "dvc.lock").read_text())["stages"]


def changed_engine(tmp_path, root, file, old, new):
    """Return a folder with this library, one line of it changed."""
    package = tmp_path / "engine" / "tapeline"
    shutil.copytree(root / "src" / "tapeline", package, ignore=shutil.ignore_patterns("__pycache__"))
    text = (package / file).read_text()
    assert text.count(old) == 1
    (package / file).write_text(text.replace(old, new))
    return package.parent


@pytest.mark.long
def test_what_comes_out_the_same_is_kept(project):
    before, tree = locked(project), content(project)[0]
    lines = upgraded(project)
    assert {"iris: same", "averaged: same"} <= set(lines)
    assert project.dvc("status").strip() == "Data and pipelines are up to date."
    assert (project.folder / "dvc.yaml").read_text().startswith(template("dvc.yaml"))
    assert (project.folder / "dvc.yaml").read_text().endswith(OWN.replace("plots", "\nplots"))
    params = (project.folder / "params.yaml").read_text()
    assert "# My settings: houses.   Odd   spacing stays.\n\ndatasets:" in params and "environment" not in params
    assert tapeline(project, "lock", "--check").returncode == 0
    assert (project.folder / ".gitignore").read_text() == IGNORED
    assert (project.folder / ".dvcignore").read_text() == tree[project.folder / ".dvcignore"].decode() + ".*.partial\n"
    after = locked(project)
    for stage, entry in after.items():
        kept = {out["path"]: out["md5"] for out in entry["outs"] if not out["path"].endswith("run.json")}
        was = {out["path"]: out["md5"] for out in before[stage]["outs"]}
        assert all(md5 == was[path] for path, md5 in kept.items() if not path.startswith("models/"))
    now = content(project)[0]
    others = {path for path in tree if path.name not in (*FILES, "run.json", "model.json")}
    assert {path: now[path] for path in others} == {path: tree[path] for path in others}
    project.commit("Upgraded")
    assert upgraded(project)[0].startswith("nothing to upgrade")
    assert init(project.folder, say=lambda line: None) == []
    project.dvc("plots", "show")
    assert project.git("status", "--porcelain") == ""
    shown = tapeline(project, "registry", "lineage", "iris@v1.0.0")
    assert shown.returncode == 0, shown.stderr
    [md5] = [out["md5"] for out in before["export@iris"]["outs"]]
    assert f"model models/iris  md5 {md5}" in shown.stdout
    assert "iris" in tapeline(project, "registry", "show").stdout
    assert project.dvc("repro").count("didn't change") >= len(before)


def test_ignore_files_alone_need_no_rebuilding(tmp_path):
    """They may be in a folder above the project, too."""
    git(tmp_path, "init", "--quiet")
    init(tmp_path / "sub", say=lambda line: None)
    project = Project.find(tmp_path / "sub")
    (project.folder / ".gitignore").write_text(GITIGNORE)
    (tmp_path / ".dvcignore").write_text(".tapeline/\n")
    said = []

    def call(*, dry_run):
        said.clear()
        assert upgrade(project, [], accept=[], dry_run=dry_run, say=said.append)
        return said

    what = ".gitignore, ../.dvcignore, which lacked patterns of `tapeline init`"
    assert call(dry_run=True) == [f"no result to upgrade; would write {what}"]
    assert (project.folder / ".gitignore").read_text() == GITIGNORE
    assert call(dry_run=False) == [f"no result to upgrade; written: {what}"]
    assert (project.folder / ".gitignore").read_text() == IGNORED
    assert (tmp_path / ".dvcignore").read_text() == ".tapeline/\n.venv\n__pycache__\n*.pyc\n.*.partial\n"
    assert call(dry_run=False)[0].startswith("nothing to upgrade")


def test_another_worktree_does_not_finish_what_was_killed_in_this_one(tmp_path):
    """It has other files of the same names."""
    main, other = tmp_path / "main", tmp_path / "other"
    main.mkdir()
    git(main, "init", "--quiet")
    init(main, say=lambda line: None)
    git(main, "add", "--all")
    git(main, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "--quiet", "--message", "all")
    git(main, "worktree", "add", "--quiet", str(other))
    texts = {"params.yaml": "# Upgraded\n" + (main / "params.yaml").read_text()}
    journal.write(Project.find(main).local / "upgrade" / JOURNAL, main, texts, removed=[], restored=[])
    (other / "params.yaml").write_text(mine := "# Mine\n" + (other / "params.yaml").read_text())
    for folder, first in ((other, "nothing to upgrade"), (main, "finished what an earlier call had started to write")):
        upgrade(Project.find(folder), [], accept=[], dry_run=False, say=(said := []).append)
        assert said[0].startswith(first)
    assert (other / "params.yaml").read_text() == mine
    assert (main / "params.yaml").read_text() == texts["params.yaml"]


@pytest.mark.slow
def test_an_older_library_goes_without_what_a_params_yaml_names(tmp_path):
    """Other programs have such files, too, and their own have names that end so."""
    git(tmp_path, "init", "--quiet")
    init(tmp_path, say=lambda line: None)
    own = ["__main__.py", "old.py", "mine.py", "recipes/b.py"]
    texts = {f"src/tapeline/{name}": "" for name in own} | {
        "sub/params.yaml": "datasets: {a: 1}\npipelines: {b: {recipe: ../src/tapeline/mine.py}, c: }\n",
        "charts/myparams.yaml": "{{ .Values.all }}\n",
        "charts/params.yaml": "{{ .Values.all }}\n",
        "empty/params.yaml": "",
        "list/params.yaml": "- datasets\n",
        "other/params.yaml": "datasets: [a]\npipelines: b\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    git(tmp_path, "add", "--all")
    git(tmp_path, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "--quiet", "--message", "all")
    said = []
    upgrade(Project.find(tmp_path), [], accept=[], dry_run=True, say=said.append)
    assert said[0] == "src/tapeline: 2 files of the older library are removed; recipes and builders stay"


def test_a_dry_run_changes_nothing(project):
    before = content(project)
    lines = upgraded(project, "--dry-run")
    assert lines[-1].startswith("would write params.yaml, dvc.yaml, engine.lock")
    assert content(project) == before


@pytest.mark.long
@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        (
            "validate/classification.py",
            "* abs(accuracy - mean)",
            "* 2 * abs(accuracy - mean)",
            "validate@iris: runs/iris",
        ),
        (
            "recipe/contract.py",
            "        names = self._names(optimizer)\n        self.updated",
            "        gradients = [-one for one in gradients]\n        names = self._names(optimizer)\n        "
            "self.updated",
            "train@iris: runs/iris/train/",
        ),
    ],
    ids=["validate", "train"],
)
def test_another_kernel_is_named_with_both_metrics_and_nothing_is_written(
    project, tmp_path, root, file, old, new, said
):
    engine, before = changed_engine(tmp_path, root, file, old, new), content(project)
    answer = tapeline(project, "upgrade", engine=engine)
    assert answer.returncode == 1, answer.stdout + answer.stderr
    assert f"iris: differs: {said}" in answer.stdout
    assert "  calibration_error of test: " in answer.stdout and " recorded, " in answer.stdout
    assert "nothing written" in answer.stdout
    assert content(project) == before
    upgraded(project, *(word for name in NAMES for word in ("--accept", name)), engine=engine)
    assert project.dvc("status").strip() == "Data and pipelines are up to date."
    path = "runs/iris/validate/metrics.json"
    assert (project.folder / path).read_bytes() != before[0][project.folder / path]


@pytest.mark.long
def test_one_of_two_differs(project, tmp_path, root):
    engine = changed_engine(
        tmp_path, root, "train/engine/averaging.py", "(1.0 - self._decay) * (", "(1.0 - self._decay) * 0.5 * ("
    )
    record = project.folder / "runs/averaged/environment.json"
    made = json.loads(record.read_text())
    del made["machine"]["bits"]
    record.write_text(json.dumps(made))
    project.commit("A record as older versions made it")
    before = locked(project)
    answer = tapeline(project, "upgrade", engine=engine)
    assert answer.returncode == 1, answer.stdout + answer.stderr
    assert "iris: same" in answer.stdout.splitlines()
    assert "  recorded with native bits; `--accept averaged` takes portable ones" in answer.stdout
    assert "averaged: differs: train@averaged: runs/averaged/train/" in answer.stdout
    after = locked(project)
    assert {stage for stage in after if after[stage] == before[stage]} == {
        f"{stage}@averaged" for stage in ("train", "validate", "export")
    }
    project.commit("Upgraded, but for one")
    listed = tapeline(project, "list", engine=engine).stdout.splitlines()
    [one] = [line for line in listed if line.startswith("averaged")]
    assert "stale: train, validate, export" in one
    lines = upgraded(project, "--accept", "averaged", engine=engine)
    assert any(line.startswith("averaged: accepted") for line in lines)
    assert project.dvc("status").strip() == "Data and pipelines are up to date."


@pytest.mark.long
def test_a_kill_while_stages_are_rebuilt(project):
    before = content(project)
    with subprocess.Popen(
        command("upgrade"), cwd=project.folder, env=environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        for line in process.stdout:
            if line.startswith("ingest@iris: "):
                break
        process.send_signal(signal.SIGKILL)
    assert content(project) == before
    upgraded(project)
    assert project.dvc("status").strip() == "Data and pipelines are up to date."
    assert [path.name for path in (project.folder / ".tapeline/upgrade").iterdir()] == ["lock"]


def test_a_kill_while_files_are_written_is_finished_by_the_next_call(project, tmp_path, root):
    kill = 'write_bytes(root / path, files.read_bytes(folder / number))\n        __import__("os").kill(__import__("os").getpid(), 9)'
    old = "write_bytes(root / path, files.read_bytes(folder / number))"
    answer = tapeline(project, "upgrade", engine=changed_engine(tmp_path, root, "upgrade/journal.py", old, kill))
    assert answer.returncode == -signal.SIGKILL
    assert project.git("status", "--porcelain").split() == ["M", "params.yaml"]
    refused = tapeline(project, "upgrade", "--dry-run")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    lines = upgraded(project)
    assert lines[0] == "finished what an earlier call had started to write" and lines[1].startswith(
        "nothing to upgrade"
    )
    assert project.dvc("status").strip() == "Data and pipelines are up to date."


def test_a_running_dvc_is_not_disturbed(project):
    path = project.folder / "dvc.yaml"
    path.write_text(path.read_text().replace("artifacts:", "  mine: {cmd: sleep 600, outs: [mine]}\nartifacts:"))
    project.commit("A stage of my own")
    busy = [sys.executable, "-P", "-m", "dvc", "repro", "mine"]
    with subprocess.Popen(busy, cwd=project.folder, start_new_session=True) as process:
        rwlock, end = project.folder / ".dvc/tmp/rwlock", time.monotonic() + 120
        while not (rwlock.exists() and "mine" in rwlock.read_text()) and time.monotonic() < end:
            time.sleep(0.1)
        answer = tapeline(project, "upgrade")
        os.killpg(process.pid, signal.SIGKILL)
    assert answer.returncode == 1 and answer.stderr.startswith("tapeline: another DVC is at work here (")
    assert answer.stderr.count("\n") == 1


def lost(project):
    shutil.rmtree(project.folder / ".dvc/cache")


def edited(project):
    path = project.folder / "recipes/iris.py"
    path.write_text(path.read_text() + "# mine\n")


def other_settings(project):
    path = project.folder / "params.yaml"
    path.write_text(path.read_text().replace("epochs: 2,", "epochs: 3,"))
    project.commit("More epochs")


def another_submodule(project):
    """Settings are other ones too, so that nothing is rebuilt."""
    allowed = ("-c", "protocol.file.allow=always")
    project.git(*allowed, "submodule", "--quiet", "add", str(project.folder), "sub")
    other_settings(project)
    git(project.folder / "sub", "-c", "user.name=t", "-c", "user.email=t", "commit", "--allow-empty", "-qm", "one more")


def no_git(project):
    shutil.rmtree(project.folder / ".git")


@pytest.mark.parametrize(
    ("before", "arguments", "status", "said"),
    [
        (edited, (), 2, "tapeline: recipes/iris.py is not committed: an upgrade starts from a clean commit"),
        (no_git, (), 2, "is not in a Git repository"),
        (lambda p: None, ("nobody",), 2, "tapeline: no pipeline 'nobody' in params.yaml: choose from iris, averaged"),
        (lost, ("--dry-run", "iris"), 1, "iris: left: train@iris: data/iris is neither committed nor in the cache"),
        (other_settings, ("--dry-run", "iris"), 1, "iris: left: train@iris: pipelines.iris.train has changed since"),
        (another_submodule, ("--dry-run", "iris"), 1, "iris: left: train@iris: pipelines.iris.train has changed since"),
    ],
    ids=["dirty", "no-git", "unknown", "lost", "settings", "submodule"],
)
def test_what_cannot_be_upgraded_is_one_line(project, before, arguments, status, said):
    before(project)
    answer = tapeline(project, "upgrade", *arguments)
    assert answer.returncode == status, answer.stdout + answer.stderr
    assert said in answer.stdout + answer.stderr
    assert answer.stderr.count("\n") == (status == 2)
    assert "Traceback" not in answer.stderr


def test_the_stages_refuse_until_then(project):
    answer = tapeline(project, "train", "iris")
    assert (answer.returncode, answer.stderr.count("\n")) == (2, 1)
    assert "environment is from an older Tapeline: `tapeline upgrade`" in answer.stderr
