"""Isolated runs on a real server, in real repositories: what they leave, what they do not touch, several at once."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tapeline.config.project import Project
from tapeline.orchestration.isolation.isolated_run import IsolatedRun
from tapeline.orchestration.isolation.publishing import push
from tapeline.orchestration.isolation.run_commit import commit_run
from tapeline.orchestration.isolation.worktree import worktree
from tapeline.orchestration.request import Request
from tapeline.repository.recorded import Recorded

NOTHING = Recorded.read("", "tiny", name="a")
FLOW_RUN = {"name": "a", "id": "1"}
OTHER = """
  other: {dataset: points, recipe: recipe.py, needs: data/points, params: {}, train: {epochs: 1, batch_size: 1}, validate: {}, export: {}}
"""


def git(folder, *arguments):
    answer = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.strip()


def commit(folder, message):
    git(folder, "add", "-A")
    git(folder, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", message)


def dvc(folder, *arguments):
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    subprocess.run([sys.executable, "-P", "-m", "dvc", "-q", *arguments], cwd=folder, env=environment, check=True)


@pytest.fixture
def repository(project):
    """Return a maker of repositories with the pipelines `tiny` and `other` on `main`, and `feature` in front, dirty."""

    def make(behaviour="well", *, dirty=True):
        folder = project(behaviour)
        with (folder / "params.yaml").open("a") as params:
            params.write(OTHER.lstrip("\n"))
        git(folder, "branch", "-M", "main")
        commit(folder, "what is trained")
        if dirty:
            git(folder, "checkout", "-q", "-b", "feature")
            (folder / "stage.py").write_text("raise SystemExit('the code of the checkout in front')\n")
            commit(folder, "broken")
            (folder / "points.csv").write_text("half an edit")
            (folder / "note.txt").write_text("not tracked")
            (folder / "recipe.py").write_text("staged")
            git(folder, "add", "recipe.py")
        return folder

    return make


@pytest.fixture
def isolated(run, server):
    def finish(folder, *arguments, pipeline="tiny"):
        return run(folder, "--pipeline", pipeline, "--isolated", *arguments, PREFECT_API_URL=server)

    return finish


def fingerprint(folder):
    """Return everything of a checkout that a run must not touch: each file's bytes and time, Git's view, HEAD, index."""
    skipped = {".git", ".tapeline"}
    files = [p for p in folder.rglob("*") if p.is_file() and not skipped & set(p.relative_to(folder).parts)]
    state = {
        str(p.relative_to(folder)): (hashlib.sha256(p.read_bytes()).hexdigest(), p.stat().st_mtime_ns)
        for p in files
        if p.relative_to(folder).parts[:2] not in ((".dvc", "cache"), (".dvc", "tmp"))
    }
    index = hashlib.sha256((folder / ".git/index").read_bytes()).hexdigest()
    return state, git(folder, "--no-optional-locks", "status", "--porcelain"), git(folder, "rev-parse", "HEAD"), index


def branches(folder):
    return git(folder, "branch", "--list", "runs/*", "--format=%(refname:short)").splitlines()


def worktrees(folder):
    return sorted(path.name for path in (folder / ".tapeline/worktrees").iterdir() if path.is_dir())


def lock(folder, branch):
    return YAML(typ="safe").load(git(folder, "show", f"{branch}:dvc.lock"))["stages"]


@pytest.mark.slow
def test_a_run_ends_as_one_commit_and_touches_nothing_else(repository, isolated):
    folder = repository()
    before = fingerprint(folder)
    done = isolated(folder, "--set", "train.epochs=3")
    assert done.returncode == 0, done.stderr
    assert fingerprint(folder) == before
    [branch] = branches(folder)
    name = branch.removeprefix("runs/")
    assert f"Beginning flow run '{name}'" in done.stderr
    assert (
        f"trains main at {git(folder, 'rev-parse', 'main')[:10]}; you are on feature: `--ref HEAD` trains that; "
        "2 uncommitted changes of yours not included" in done.stderr
    )
    assert done.stdout.splitlines()[-3:] == [f"branch {branch}", "verdict yes  accuracy 0.975", "model models/tiny"]
    assert git(folder, "rev-parse", f"{branch}~") == git(folder, "rev-parse", "main")
    assert git(folder, "diff", "--name-only", "main", branch).splitlines() == ["dvc.lock", "params.yaml"]
    stages = lock(folder, branch)
    assert list(stages) == ["ingest@points", "train@tiny", "validate@tiny", "export@tiny"]
    assert stages["train@tiny"]["params"]["params.yaml"]["pipelines.tiny.train"]["epochs"] == 3
    message = git(folder, "log", "-1", "--format=%B", branch)
    assert message.startswith(f"Run {name}: tiny\n")
    assert f"Data: {stages['train@tiny']['deps'][1]['md5']}\n" in message
    assert "Metrics: accuracy 0.975, loss 0.3\n" in message
    assert worktrees(folder) == []
    assert git(folder, "worktree", "list", "--porcelain").count("worktree ") == 1


@pytest.mark.long
@pytest.mark.slow
def test_a_folder_that_cannot_be_written_is_one_line(repository, isolated):
    folder = repository()
    locked = folder / ".tapeline/worktrees"
    locked.mkdir(parents=True)
    forbid = [["chattr", "+i"], ["chattr", "-i"]] if os.geteuid() == 0 else [["chmod", "500"], ["chmod", "700"]]
    if subprocess.run([*forbid[0], locked], check=False, capture_output=True).returncode:
        pytest.skip("root may write everywhere on this file system")
    try:
        done = isolated(folder)
    finally:
        subprocess.run([*forbid[1], locked], check=True)
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert done.stderr.splitlines()[-1].startswith(f"training: not writable or readable ({locked}")


@pytest.mark.slow
def test_what_was_made_is_in_the_checkout_s_cache(repository, isolated):
    folder = repository(dirty=False)
    assert isolated(folder).returncode == 0
    [branch] = branches(folder)
    git(folder, "checkout", "-q", branch)
    dvc(folder, "checkout", "--with-deps", "export@tiny")
    assert (folder / "models/tiny/model.json").exists()


@pytest.mark.slow
def test_nothing_is_trained_twice(repository, isolated, ask):
    folder = repository()
    assert isolated(folder, "--set", "train.epochs=3").returncode == 0
    [branch] = branches(folder)
    again = isolated(folder, "--set", "train.epochs=3")
    assert again.returncode == 0, again.stderr
    assert again.stdout.splitlines() == [
        f"nothing new: {branch} has the same data, parameters, code and environment",
        "verdict yes  accuracy 0.975",
    ]
    assert branches(folder) == [branch]
    assert worktrees(folder) == []
    name = re.search(r"Beginning flow run '([^']+)'", again.stderr)[1]
    [found] = ask("flow_runs", {"flow_runs": {"name": {"any_": [name]}}})
    assert (found["state_type"], found["state_name"]) == ("COMPLETED", "nothing new")
    other = isolated(folder, "--set", "train.epochs=4")
    assert other.returncode == 0, other.stderr
    assert len(branches(folder)) == 2


@pytest.mark.long
def test_a_change_of_code_or_data_is_something_new(repository, isolated):
    folder = repository(dirty=False)
    assert isolated(folder).returncode == 0
    for name, text in (("points.csv", "a\n1\n2\n3\n"), ("stage.py", (folder / "stage.py").read_text() + "# new\n")):
        (folder / name).write_text(text)
        commit(folder, f"another {name}")
        done = isolated(folder)
        assert "train@tiny  dvc repro --single-item train@tiny" in done.stderr, done.stderr
    assert len(branches(folder)) == 3


@pytest.mark.slow
def test_the_ref_s_own_record_counts(repository, isolated):
    folder = repository(dirty=False)
    dvc(folder, "repro")
    commit(folder, "built")
    done = isolated(folder)
    assert done.stdout.startswith(f"nothing new: main at {git(folder, 'rev-parse', '--short=7', 'main')} has")


@pytest.mark.slow
def test_four_at_once(repository, start, server):
    folder = repository("crawls")
    before = fingerprint(folder)
    asked = [(pipeline, epochs) for pipeline in ("tiny", "other") for epochs in (5, 6)]
    flows = [
        start(folder, "--pipeline", name, "--isolated", "--set", f"train.epochs={n}", PREFECT_API_URL=server)
        for name, n in asked
    ]
    ended = [flow.communicate(timeout=200) for flow in flows]
    assert [flow.returncode for flow in flows] == [0] * 4, "\n".join(err for _, err in ended)
    assert fingerprint(folder) == before
    found = []
    for branch in branches(folder):
        [train] = [name for name in lock(folder, branch) if name.startswith("train@")]
        pipeline = train.removeprefix("train@")
        values = lock(folder, branch)[train]["params"]["params.yaml"][f"pipelines.{pipeline}.train"]
        found.append((pipeline, values["epochs"]))
        assert lock(folder, branch).keys() == {"ingest@points", train, f"validate@{pipeline}", f"export@{pipeline}"}
    assert sorted(found) == sorted(asked)
    assert worktrees(folder) == []


@pytest.mark.long
def test_of_two_that_would_make_the_same_one_trains(repository, start, server):
    folder = repository("crawls")
    flows = [start(folder, "--pipeline", "tiny", "--isolated", PREFECT_API_URL=server) for _ in range(2)]
    outputs = [flow.communicate(timeout=600)[0] for flow in flows]
    assert [flow.returncode for flow in flows] == [0, 0]
    [branch] = branches(folder)
    assert sorted("nothing new" in output for output in outputs) == [False, True]
    assert sum(f"nothing new: {branch}" in output for output in outputs) == 1


@pytest.mark.long
@pytest.mark.slow
def test_a_failed_run_s_worktree_is_kept_up_to_a_limit(repository, isolated):
    folder = repository("refuses")
    names = []
    for epochs in range(4):
        done = isolated(folder, "--set", f"train.epochs={epochs + 1}")
        assert done.returncode == 2, done.stderr
        assert "the worktree is kept for inspection" in done.stderr
        names.append(re.search(r"Beginning flow run '([^']+)'", done.stderr)[1])
    assert worktrees(folder) == sorted(names[1:])
    assert branches(folder) == []


@pytest.mark.slow
def test_a_killed_run_loses_no_checkpoint_and_the_next_one_cleans(repository, start, isolated, server, until):
    folder = repository("waits")
    with start(folder, "--pipeline", "tiny", "--isolated", PREFECT_API_URL=server) as flow:
        until((folder / ".tapeline/checkpoints/tiny/waiting").exists, limit=200)
        flow.kill()
    until((folder / ".tapeline/checkpoints/tiny/step").exists)
    [left] = worktrees(folder)
    done = isolated(folder)
    assert done.returncode == 0, done.stderr
    assert f"removing the worktree of a crashed run: {left}" in done.stderr
    assert "resuming from step 17" in done.stderr
    assert worktrees(folder) == []
    assert len(branches(folder)) == 1


@pytest.mark.slow
def test_a_stopped_run_leaves_no_worktree(repository, start, server, until):
    folder = repository("waits")
    with start(folder, "--pipeline", "tiny", "--isolated", PREFECT_API_URL=server) as flow:
        until((folder / ".tapeline/checkpoints/tiny/waiting").exists, limit=200)
        flow.send_signal(signal.SIGTERM)
        flow.communicate(timeout=600)
    assert flow.returncode == 128 + signal.SIGTERM
    assert worktrees(folder) == []
    assert (folder / ".tapeline/checkpoints/tiny/step").exists()


@pytest.mark.slow
def test_a_run_is_pushed_where_remotes_are(repository, isolated, tmp_path):
    folder = repository(dirty=False)
    git(tmp_path, "init", "-q", "--bare", "origin.git")
    git(folder, "remote", "add", "origin", str(tmp_path / "origin.git"))
    dvc(folder, "remote", "add", "-d", "storage", "../storage")
    commit(folder, "a remote beside the checkout")
    done = isolated(folder, "--push")
    assert done.returncode == 0, done.stderr
    [branch] = branches(folder)
    assert "pushed the files to DVC's remote storage" in done.stderr
    assert f"pushed {branch} to Git's remote origin" in done.stderr
    assert git(tmp_path / "origin.git", "rev-parse", branch) == git(folder, "rev-parse", branch)
    git(tmp_path, "clone", "-q", "--branch", branch, str(tmp_path / "origin.git"), "elsewhere")
    dvc(tmp_path / "elsewhere", "pull", "--with-deps", "export@tiny")
    assert (tmp_path / "elsewhere/models/tiny/model.json").exists()


@pytest.mark.long
def test_what_dvc_has_deleted_is_trained_again_and_pushed(repository, isolated, tmp_path):
    folder = repository(dirty=False)
    git(tmp_path, "init", "-q", "--bare", "origin.git")
    git(folder, "remote", "add", "origin", str(tmp_path / "origin.git"))
    dvc(folder, "remote", "add", "-d", "storage", "../storage")
    commit(folder, "a remote beside the checkout")
    assert isolated(folder).returncode == 0
    [first] = branches(folder)
    dvc(folder, "gc", "-w", "-f")
    done = isolated(folder, "--push")
    assert done.returncode == 0, done.stderr
    assert f"{first} has this result, but its files are gone, such as data/points: running it again" in done.stderr
    [branch] = set(branches(folder)) - {first}
    git(tmp_path, "clone", "-q", "--branch", branch, str(tmp_path / "origin.git"), "elsewhere")
    dvc(tmp_path / "elsewhere", "pull", "--with-deps", "export@tiny")
    assert (tmp_path / "elsewhere/models/tiny/model.json").exists()


@pytest.mark.long
def test_without_remotes_it_says_so(repository, isolated):
    done = isolated(repository(), "--push")
    assert done.returncode == 0, done.stderr
    assert "DVC has no remote: nothing was pushed there" in done.stderr
    assert "Git has no remote: nothing was pushed there" in done.stderr


@pytest.mark.long
def test_a_remote_that_refuses_fails_the_run_with_what_to_do(repository, isolated, ask, tmp_path):
    folder = repository(dirty=False)
    git(folder, "remote", "add", "origin", str(tmp_path / "nowhere.git"))
    done = isolated(folder, "--push")
    assert done.returncode == 1
    [branch] = branches(folder)
    assert done.stderr.splitlines()[-1].endswith(f"committed on {branch}: run the same again, which only pushes it")
    pages = ask("artifacts", {"flow_runs": {"name": {"any_": [branch.removeprefix("runs/")]}}})
    [page] = [page for page in pages if page["key"] == "training-tiny"]
    assert f"git merge {branch} && dvc checkout" in page["data"]


@pytest.mark.parametrize("url", ["../origin.git", "./inside.git"])
def test_a_relative_remote_is_meant_from_the_checkout_s_top(project, tmp_path, url):
    folder = project()
    git(folder, "init", "-q", "--bare", url)
    git(folder, "remote", "add", "origin", url)
    with worktree(Project.find(folder), "HEAD", name="a", say=print) as tree:
        commit_run(tree, Request.of(pipeline="tiny"), NOTHING, ref="HEAD", flow_run=FLOW_RUN)
        push(tree, "tiny", say=print)
    assert git(folder / url, "rev-parse", "runs/a") == git(folder, "rev-parse", "runs/a")


@pytest.mark.long
def test_raw_data_come_along(repository, isolated):
    folder = repository(dirty=False)
    (folder / "points.csv").write_text("a\n7\n")
    git(folder, "rm", "-q", "--cached", "points.csv")
    dvc(folder, "add", "points.csv")
    commit(folder, "raw data in DVC")
    done = isolated(folder)
    assert done.returncode == 0, done.stderr
    assert "nothing new" in isolated(folder).stdout


@pytest.mark.slow
@pytest.mark.parametrize("fetched", [True, False])
def test_raw_data_that_somebody_else_altered_go_nowhere(repository, isolated, tmp_path, fetched):
    """Who may write to DVC's remote wrote anywhere, and so ran code: a folder's list led out of the folder."""
    folder = repository(dirty=False)
    git(folder, "rm", "-q", "--cached", "points.csv")
    (folder / "points.csv").rename(folder / "was.csv")
    (folder / "points.csv").mkdir()
    (folder / "was.csv").rename(folder / "points.csv" / "a.csv")
    dvc(folder, "add", "points.csv")
    store = tmp_path / "store"
    dvc(folder, "remote", "add", "--default", "store", str(store))
    dvc(folder, "push")
    commit(folder, "raw data in DVC")
    if fetched:
        shutil.rmtree(folder / ".dvc" / "cache")
    (listed,) = (store if fetched else folder / ".dvc" / "cache").rglob("*.dir")
    entries = json.loads(listed.read_text())
    listed.chmod(0o644)
    listed.write_text(json.dumps([*entries, {**entries[0], "relpath": "../../outside"}]))
    listed.chmod(0o444)  # such a file DVC does not read again
    done = isolated(folder)
    assert done.returncode == 2, done.stderr
    assert "was altered: its MD5 does not match its name; delete it and fetch it again" in done.stderr.splitlines()[-1]
    assert not list(tmp_path.rglob("outside"))


def slow(*case):
    return pytest.param(*case, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--ref", "nowhere"), "ref is 'nowhere': no such branch, tag or commit"),
        (("--set", "train.epochs=0"), "pipelines.tiny.train.epochs is 0: must be greater than 0"),
        slow(("--set", "train.epoch=1"), "train.epoch: no such setting; did you mean 'epochs'?"),
        slow(("--set", "params.speed=1"), "speed: no such setting"),
        slow(("--pipeline", "unknown"), "no pipeline 'unknown'"),
        slow(("--set", "train.epochs"), "'train.epochs' is not a pair"),
    ],
)
def test_a_mistake_is_one_line_before_anything_runs(repository, isolated, arguments, message):
    folder = repository()
    done = isolated(folder, *arguments)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert branches(folder) == []
    assert not (folder / "ran.log").exists()


def test_a_recipe_in_a_submodule_is_said(repository, isolated, committed):
    """A worktree does not have its files; it was said that a path in the worktree does not exist."""
    folder = repository(dirty=False)
    git(folder, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(committed), "shared")
    text = (folder / "params.yaml").read_text()
    (folder / "params.yaml").write_text(text.replace("recipe: recipe.py", "recipe: shared/recipe.py"))
    commit(folder, "a shared recipe")
    done = isolated(folder)
    assert done.returncode == 2, done.stderr
    assert "shared/recipe.py is in the Git submodule shared, whose files" in done.stderr.splitlines()[-1]


def test_what_a_ref_lacks_is_not_taken_from_the_checkout(repository, isolated):
    folder = repository(dirty=False)
    git(folder, "checkout", "-q", "--orphan", "empty")
    git(folder, "rm", "-rfq", "--cached", ".")
    git(folder, "add", "points.csv")
    git(folder, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "no project")
    git(folder, "checkout", "-qf", "main")
    done = isolated(folder, "--ref", "empty")
    assert done.returncode == 2, done.stderr
    assert "has no params.yaml: give a ref that has it" in done.stderr.splitlines()[-1]


def test_a_run_that_cannot_be_noted_is_committed_all_the_same(project, capsys):
    folder = project()
    note = folder / ".git" / "tapeline" / "runs"
    note.mkdir(parents=True)
    with worktree(Project.find(folder), "HEAD", name="a", say=print) as tree:
        made = commit_run(tree, Request.of(pipeline="tiny"), NOTHING, ref="HEAD", flow_run=FLOW_RUN)
    assert git(folder, "rev-parse", "runs/a") == made
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"tapeline: could not note that the run was built here: {note} is a link, a folder, ")


@pytest.mark.parametrize("place", ["größe", "a\nb", ":x"])
def test_another_project_s_lock_is_committed_whatever_its_folder_is_called(project, place):
    folder = project()
    (folder / place).mkdir()
    (folder / place / "dvc.lock").write_text("stages: {}\n")
    commit(folder, "another project")
    with worktree(Project.find(folder), "HEAD", name="a", say=print) as tree:
        (tree.project.folder / place / "dvc.lock").write_text("schema: '2.0'\nstages: {}\n")
        commit_run(tree, Request.of(pipeline="tiny"), NOTHING, ref="HEAD", flow_run=FLOW_RUN)
    assert git(folder, "show", f"runs/a:{place}/dvc.lock").startswith("schema")


def test_an_earlier_run_is_pushed_where_git_looks_into_submodules(project, committed, capsys):
    folder = project()
    git(folder, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(committed), "sub")
    git(folder, "config", "submodule.recurse", "true")
    commit(folder, "a submodule")
    git(folder, "branch", "runs/earlier")
    with worktree(Project.find(folder), "HEAD", name="a", say=print) as tree:
        earlier = Recorded.read("", "tiny", name="runs/earlier")
        asked = Request.of(pipeline="tiny", isolated=True, push=True)
        IsolatedRun(asked, tree, "main", FLOW_RUN, earlier, print).push()
    assert "Git has no remote: nothing was pushed there" in capsys.readouterr().out


def test_a_repository_whose_ids_are_sha256_gets_its_branch(project):
    folder = project()
    shutil.rmtree(folder / ".git")
    git(folder, "init", "-q", "--object-format=sha256")
    commit(folder, "all")
    with worktree(Project.find(folder), "HEAD", name="a", say=print) as tree:
        made = commit_run(tree, Request.of(pipeline="tiny"), NOTHING, ref="HEAD", flow_run=FLOW_RUN)
    assert git(folder, "rev-parse", "runs/a") == made and len(made) == 64


def test_line_ends_that_git_would_change_are_committed(project):
    folder = project()
    git(folder, "config", "core.autocrlf", "true")
    git(folder, "config", "core.safecrlf", "true")
    with worktree(Project.find(folder), "HEAD", name="a", say=print) as tree:
        (tree.project.folder / "dvc.lock").write_text("schema: '2.0'\nstages: {}\n")
        commit_run(tree, Request.of(pipeline="tiny"), NOTHING, ref="HEAD", flow_run=FLOW_RUN)
    assert git(folder, "diff", "--name-only", "HEAD", "runs/a") == "dvc.lock"
    assert git(folder, "show", "runs/a:dvc.lock") == "schema: '2.0'\nstages: {}"


@pytest.mark.long
@pytest.mark.slow
def test_the_machine_s_description_is_committed_when_the_stage_left_one(repository, isolated, run, server):
    """And it comes from there where DVC restores the training: it was gone, and a version could not be registered."""
    folder = repository(dirty=False)
    text = (folder / "stage.py").read_text()
    described = 'write(Path("runs") / name / "environment.json", {"machine": "this"})'
    (folder / "stage.py").write_text(
        text.replace('    print("last | line"', f'    {described}\n    print("last | line"')
    )
    commit(folder, "as the train stage does")
    assert isolated(folder).returncode == 0
    [branch] = branches(folder)
    assert json.loads(git(folder, "show", f"{branch}:runs/tiny/environment.json")) == {"machine": "this"}
    restored = run(folder, "--pipeline", "tiny", PREFECT_API_URL=server)
    assert restored.returncode == 0 and re.search("train@tiny +restored", restored.stdout)
    assert f"runs/tiny/environment.json is that of {branch}, which has trained this" in restored.stderr
    path = folder / "runs/tiny/environment.json"
    assert json.loads(path.read_text()) == {"machine": "this"}
    path.unlink()
    assert run(folder, "--pipeline", "tiny", PREFECT_API_URL=server).returncode == 0 and path.exists()
