"""Where an earlier run has made the same: what is asked for besides training is done all the same."""

import pytest
from registries import Registry

from tapeline.config.project import Project
from tapeline.orchestration.isolation.finished import TRAILER, parameters
from tapeline.orchestration.isolation.isolated_run import isolated
from tapeline.orchestration.request import Request
from tapeline.runtime.errors import RunError

pytestmark = pytest.mark.filterwarnings("ignore:_NoneStep.value:DeprecationWarning")  # dvc-data, of pygtrie

FLOW_RUN = {"name": "second", "id": "1"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A project whose main branch records value 1, and the branch of a run value 2."""
    made = Registry.make(tmp_path_factory.mktemp("trained") / "project")
    made.git("switch", "--quiet", "-c", "runs/first")
    made.build(2)
    message = f"Run first: one\n\n{TRAILER}: {parameters(Project.find(made.folder), 'one')}"
    made.git("commit", "--quiet", "--amend", "-m", message)
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


def test_an_earlier_run_is_registered_and_stays_so(project):
    assert again(project, 2, registered=True)[0] == "one@v1.0.0"
    assert project.git("rev-parse", "one@v1.0.0^{commit}") == project.git("rev-parse", "runs/first")
    assert again(project, 2, registered=True) == ("one@v1.0.0", ["runs/first is one@v1.0.0 already"])
    assert project.tags() == ["one@v1.0.0"]
    assert again(project, 2) == (None, [])


def test_an_earlier_run_is_pushed(project, tmp_path):
    project.git("remote", "add", "origin", str(tmp_path / "origin.git"))
    with pytest.raises(RunError, match="push it with `git push REMOTE runs/first`"):
        again(project, 2, push=True)
    project.git("init", "--quiet", "--bare", str(tmp_path / "origin.git"))
    for _ in range(2):
        assert "runs/first is on Git's remote origin" in again(project, 2, push=True)[1]
    assert project.git("ls-remote", "origin").split() == [
        project.git("rev-parse", "runs/first").strip(),
        "refs/heads/runs/first",
    ]


def test_the_ref_s_own_record_is_registered_and_its_branch_not_pushed(project, tmp_path):
    project.git("init", "--quiet", "--bare", str(tmp_path / "origin.git"))
    project.git("remote", "add", "origin", str(tmp_path / "origin.git"))
    tag, said = again(project, 1, registered=True, push=True)
    assert project.git("rev-parse", f"{tag}^{{commit}}") == project.git("rev-parse", "main")
    commit = project.git("rev-parse", "--short=7", "main").strip()
    assert (
        said[0] == f"nothing is pushed: main at {commit} is not a run's branch here; `git push` and `dvc push` share it"
    )
    assert project.git("ls-remote", "--heads", "origin") == ""
