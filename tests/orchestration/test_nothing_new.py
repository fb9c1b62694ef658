"""Where an earlier run has made the same: what is asked for besides training is done all the same."""

import os
import shutil

import keys
import pytest
from damaged import lose
from keys import Person, govern
from registries import Registry

from tapeline.config.project import Project
from tapeline.orchestration.isolation.finished import TRAILER, finished_run, parameters
from tapeline.orchestration.isolation.isolated_run import isolated
from tapeline.orchestration.isolation.overrides import override
from tapeline.orchestration.isolation.publishing import push
from tapeline.orchestration.isolation.worktree import Worktree, worktree
from tapeline.orchestration.request import Request
from tapeline.repository import own_runs
from tapeline.repository.git import Git
from tapeline.runtime.errors import InputError, RunError

pytestmark = pytest.mark.filterwarnings("ignore:_NoneStep.value:DeprecationWarning")  # dvc-data, of pygtrie

FLOW_RUN = {"name": "second", "id": "1"}
LOST = """  train@two:
    cmd: python make.py train two 1
    outs:
    - path: runs/two/train/weights
      hash: md5
      md5: ffffffffffffffffffffffffffffffff
      size: 50
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A project whose main branch records value 1, and the branch of a run value 2."""
    made = Registry.make(tmp_path_factory.mktemp("trained") / "project")
    made.git("switch", "--quiet", "-c", "runs/first")
    made.build(2)
    message = f"Run first: one\n\n{TRAILER}: {parameters(Project.find(made.folder), 'one')}"
    made.git("commit", "--quiet", "--amend", "-m", message)
    own_runs.note(Git(made.folder), made.git("rev-parse", "HEAD").strip())
    made.git("switch", "--quiet", "main")
    return made


@pytest.fixture
def project(trained, tmp_path):
    return trained.copy(tmp_path)


def again(project, value, **asked):
    """Ask for the run that has been made: the tag, and what was said."""
    said = []
    request = Request.of(pipeline="one", isolated=True, overrides={"params.value": value}, **asked)
    with isolated(request, Project.find(project.folder), flow_run=FLOW_RUN, say=said.append) as run:
        assert run.finished
        run.push()
        return run.register(), said


def nobody(project, monkeypatch):
    """Take from Git what it knows of the user."""
    project.git("config", "user.useConfigOnly", "true")
    project.git("config", "--unset-all", "user.email")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    for variable in ("GIT_COMMITTER_EMAIL", "EMAIL"):
        monkeypatch.delenv(variable, raising=False)


@pytest.mark.slow
def test_an_earlier_run_is_registered_and_stays_so(project, monkeypatch):
    assert again(project, 2, registered=True)[0] == "one@v1.0.0"
    assert project.git("rev-parse", "one@v1.0.0^{commit}") == project.git("rev-parse", "runs/first")
    nobody(project, monkeypatch)
    shutil.rmtree(project.folder.parent / "remote")
    tag, said = again(project, 2, registered=True)
    assert (tag, said[1:]) == ("one@v1.0.0", ["runs/first is already one@v1.0.0"])
    assert project.tags() == ["one@v1.0.0"]
    head = project.git("rev-parse", "main").strip()[:10]
    assert again(project, 2) == (None, [f"trains main at {head}"])


@pytest.mark.parametrize("name", [pytest.param("main", marks=pytest.mark.slow), "runs/first"])
def test_a_tag_with_the_name_of_a_branch_is_not_what_is_trained_or_registered(project, name):
    """Git prefers it to the branch, anybody may push one, and it may be on a commit with recipes of his."""
    ours = project.git("rev-parse", f"refs/heads/{name}")
    project.git("switch", "--quiet", "--detach", "main")
    project.git("commit", "--quiet", "--allow-empty", "--message", "of Eve")
    project.git("tag", name, "HEAD")
    project.git("switch", "--quiet", "main")
    request = Request.of(pipeline="one", isolated=True, overrides={"params.value": 2})
    with isolated(request, Project.find(project.folder), flow_run=FLOW_RUN, say=print) as run:
        assert run.tree.commit == project.git("rev-parse", "refs/heads/main").strip()
        assert run.finished and run.finished.name == "runs/first"  # as `heads/runs/first` it was pushed nowhere
    if name == "runs/first":
        assert again(project, 2, registered=True)[0] == "one@v1.0.0"
        assert project.git("rev-parse", "one@v1.0.0^{commit}") == ours


@pytest.mark.long
def test_an_earlier_run_is_pushed(project, tmp_path):
    project.git("remote", "add", "origin", str(tmp_path / "origin.git"))
    with pytest.raises(RunError, match="committed on runs/first: run the same again"):
        again(project, 2, push=True)
    project.git("init", "--quiet", "--bare", str(tmp_path / "origin.git"))
    for _ in range(2):
        assert "pushed runs/first to Git's remote origin" in again(project, 2, push=True)[1]
    assert project.git("ls-remote", "origin").split() == [
        project.git("rev-parse", "runs/first").strip(),
        "refs/heads/runs/first",
    ]


def test_the_ref_s_own_record_is_registered_and_its_branch_not_pushed(project, tmp_path):
    project.git("init", "--quiet", "--bare", str(tmp_path / "origin.git"))
    project.git("remote", "add", "origin", "../origin.git")
    tag, said = again(project, 1, registered=True, push=True)
    assert project.git("rev-parse", f"{tag}^{{commit}}") == project.git("rev-parse", "main")
    commit = project.git("rev-parse", "--short=7", "main").strip()
    assert (
        said[1]
        == f"nothing was pushed: main at {commit} is not a branch of a run here; share it with `git push` and `dvc push`"
    )
    assert project.git("ls-remote", "--heads", "origin") == ""


@pytest.mark.slow
def test_a_record_whose_files_are_gone_counts_no_more(project):
    """The remote alone has them at first, which is enough."""
    project.dvc("gc", "--workspace", "--force", "--quiet")
    assert found(project, 2) == ("runs/first", [])
    shutil.rmtree(project.folder.parent / "remote")
    said = "runs/first has this result, but its files are gone, such as runs/one/train/weights: running it again"
    assert found(project, 2) == (None, [said])
    shutil.rmtree(project.folder / ".dvc" / "cache")
    commit = project.git("rev-parse", "--short=7", "main").strip()
    said = f"main at {commit} has this result, but its files are gone, such as data/points: running it again"
    assert found(project, 1) == (None, [said])
    project.dvc("remote", "modify", "store", "url", "hdfs://127.0.0.1:1/")
    project.git("commit", "--quiet", "--all", "--message", "a remote that does not answer")
    name, [said] = found(project, 1)
    assert name is None and "has this result, but some of its files are not in DVC's cache (DVC's" in said


def test_what_is_nowhere_is_not_pushed(project):
    """DVC would warn of it and end with status 0. Another pipeline's recorded files are not looked at."""
    project.git("switch", "--quiet", "runs/first")
    params, lock = project.folder / "params.yaml", project.folder / "dvc.lock"
    line = next(line for line in params.read_text().splitlines(keepends=True) if line.startswith("  one: {"))
    params.write_text(params.read_text().replace(line, line + line.replace("one", "two")))
    lock.write_text(lock.read_text().replace("stages:\n", f"stages:\n{LOST}"))
    tree = Worktree("first", "", Project.find(project.folder))
    said = []
    push(tree, "one", say=said.append)
    assert said[0] == "pushed the files to DVC's remote store"
    project.dvc("gc", "--workspace", "--force", "--quiet")
    shutil.rmtree(project.folder.parent / "remote")
    shutil.rmtree(project.folder / ".dvc" / "cache")
    with pytest.raises(RunError) as refusal:
        push(tree, "one", say=said.append)
    assert str(refusal.value) == (
        "nothing pushed: runs/first records data/points, runs/one/train/weights, runs/one/validate/predictions.npz "
        "and others, and neither DVC's cache nor its remote has the files"
    )


def found(project, value):
    """Return the record that a run would be told of, and what was said."""
    said, here = [], Project.find(project.folder)
    with worktree(here, Git(project.folder).commit_of("main"), name="second", say=said.append) as tree:
        override(tree.project.folder, "one", {"params.value": value})
        run = finished_run(tree, "one", ref="main", say=said.append)
        return run and run.name, said


def test_a_record_that_git_cannot_read_is_left_out_and_said(project):
    lose(project.folder, "runs/first:dvc.lock")
    name, [said] = found(project, 2)
    assert name is None
    assert said.startswith("ignoring runs/first: Git cannot read its dvc.lock: git cat-file: ")


def test_a_fetched_branch_is_not_taken_for_ours(project, tmp_path):
    """Mallory's branch has the parameters, a lock that DVC finds current, and bytes of hers in the DVC remote."""
    project.git("branch", "--quiet", "--move", "runs/first", "runs/of-another")
    (project.folder / ".git" / "tapeline" / "runs").unlink()
    said = (
        "runs/of-another has these parameters, but cannot be trusted: it was not built here, and no trust policy says "
        "whose signature counts"
    )
    assert found(project, 2) == (None, [said])
    with pytest.raises(AssertionError, match="runs/of-another is not registered: it was not built here"):
        project("registry", "register", "one", "--rev", "runs/of-another")
    assert project.tags() == []
    project.git("merge", "--quiet", "--no-edit", "runs/of-another")  # now it is part of main, by its owner's hand
    project("registry", "register", "one", "--rev", "runs/of-another")


def test_a_list_that_others_may_write_is_none(project, capsys):
    path = project.folder / ".git" / "tapeline" / "runs"
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o666)
    assert found(project, 2)[0] is None
    assert "others can write to it" in capsys.readouterr().err
    path.chmod(0o600)
    assert found(project, 2) == ("runs/first", [])
    target = path.with_name("elsewhere")
    path.rename(target)
    path.symlink_to(target)
    assert found(project, 2)[0] is None


@pytest.mark.slow
def test_by_a_policy_a_signed_branch_counts(project, tmp_path):
    """Of two workers' branches, one is signed by Ben, who may register, and one by Eve, who may not."""
    ana, ben, eve = (Person.made(tmp_path, name) for name in ("Ana", "Ben", "Eve"))
    path = project.folder / ".git" / "tapeline" / "runs"
    path.unlink()
    govern(project, ana.line() + ben.line() + eve.line(), keys.POLICY)
    eve.at(project)
    project.git("switch", "--quiet", "runs/first")
    project.git("commit", "--quiet", "--amend", "-S", "--no-edit")
    project.git("switch", "--quiet", "main")
    name, said = found(project, 2)
    assert name is None and "eve@example.org (SHA256:" in said[0] and "may not register versions" in said[0]
    ben.at(project)
    project.git("switch", "--quiet", "runs/first")
    project.git("commit", "--quiet", "--amend", "-S", "--no-edit")
    project.git("switch", "--quiet", "main")
    assert found(project, 2) == ("runs/first", [])
    (project.folder / "signers").write_text("nonsense")
    project.git("commit", "--quiet", "--all", "--message", "broken")
    with pytest.raises(InputError, match="signers of refs/heads/main, line 1: not `PERSON"):
        found(project, 2)


def test_what_could_not_be_registered_is_said_before_it_is_trained(project, tmp_path, monkeypatch):
    """The model would not be on DVC's remote, tags may be missing, or Git knows neither key nor name for them."""
    pushed = Request.of(pipeline="one", isolated=True, overrides={"params.value": 3}, registered=True, push=True)
    request = Request.of(pipeline="one", isolated=True, overrides={"params.value": 3}, registered=True)

    def asked(request):
        with isolated(request, Project.find(project.folder), flow_run=FLOW_RUN, say=lambda line: None) as run:
            return run.finished

    with pytest.raises(InputError, match=r"must be on DVC's remote store, .*: push the run too \(--push\)"):
        asked(request)
    project.git("remote", "add", "--no-tags", "origin", "../nowhere")
    with pytest.raises(InputError, match="this clone fetches no tags .* which origin does not say: "):
        asked(pushed)
    project.git("remote", "remove", "origin")
    govern(project, "".join(Person.made(tmp_path, name).line() for name in ("ana", "ben")))
    with pytest.raises(InputError, match="requires signed tags, but Git has no key here"):
        asked(pushed)
    nobody(project, monkeypatch)
    with pytest.raises(InputError, match="Git does not know who you are"):
        asked(pushed)
