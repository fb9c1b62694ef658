"""A run's commit: its message, whose trailers are Tapeline's own whatever the flow run is called, and its files."""

import subprocess
import sys

import pytest
from repositories import Repository, called

from tapeline.config.project import Project
from tapeline.orchestration.isolation.isolated_run import IsolatedRun
from tapeline.orchestration.isolation.run_commit import commit_run
from tapeline.orchestration.isolation.worktree import Worktree, worktree
from tapeline.orchestration.request import Request
from tapeline.repository.recorded import Recorded

FORGED = "Pipeline: other\nFlow-run-id: 2\nSigned-off-by: Ann <ann@example.org>"


def test_a_name_adds_no_trailer(tmp_path):
    repository = Repository(tmp_path / "made")
    head = repository.git("rev-parse", "HEAD").strip()
    tree = Worktree("a", head, Project.find(repository.folder))
    flow_run = {"name": f"a\n{FORGED}", "id": f"1\r\n{FORGED}"}
    commit = commit_run(
        tree, Request(pipeline="one"), Recorded.read("", "one", name="a"), ref="main", flow_run=flow_run
    )
    message = repository.git("show", "--no-patch", "--format=%B", commit)
    command = ["git", "interpret-trailers", "--parse"]
    trailers = subprocess.run(command, input=message, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [line.split(":")[0] for line in trailers[:4]] == ["Flow-run", "Flow-run-id", "Pipeline", "Ref"]
    assert trailers[2] == "Pipeline: one"
    assert not any(line.startswith("Signed-off-by") for line in trailers)


@pytest.mark.filterwarnings("ignore:_NoneStep.value:DeprecationWarning")  # DVC itself uses what pygtrie will drop
def test_an_output_that_dvc_leaves_to_git_is_committed_with_the_record_of_it(tmp_path):
    repository = Repository(tmp_path / "made")
    stages = (repository.folder / "dvc.yaml").read_text()
    outs = "[{prepared/a file: {cache: false}}, {prepared/left out: {cache: false}}, prepared/cached]"
    with_prepare = stages.replace('outs: ["data/${key}"]', 'deps: ["prepared/a file"], outs: ["data/${key}"]') + (
        "  prepare:\n    cmd: mkdir -p prepared && echo VALUE | tee 'prepared/a file' 'prepared/left out' prepared/cached\n"
        f"    outs: {outs}\n"
    )
    (repository.folder / ".gitignore").write_text("left out\n.tapeline\n")
    for value in ("1", "2"):
        (repository.folder / "dvc.yaml").write_text(with_prepare.replace("VALUE", value))
        if value == "1":
            repository.dvc("repro", "--quiet", "export@one")
        repository.commit()
    with worktree(Project.find(repository.folder), "HEAD", name="a", say=print) as tree:
        called(tree.project.folder, sys.executable, "-m", "dvc", "repro", "--quiet", "export@one")
        IsolatedRun(Request(pipeline="one"), tree, "main", {"name": "a", "id": "1"}, None, print).commit()
    assert repository.git("diff", "--name-only", "HEAD", "runs/a").splitlines() == ["dvc.lock", "prepared/a file"]
    assert repository.git("show", "runs/a:prepared/a file") == "2\n"
