"""The message of a run's commit: its trailers are Tapeline's own, whatever the flow run is called."""

import subprocess

from repositories import Repository

from tapeline.config.project import Project
from tapeline.orchestration.isolation.run_commit import commit_run
from tapeline.orchestration.isolation.worktree import Worktree
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
