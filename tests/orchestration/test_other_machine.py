"""A run that changes a `dvc.lock` of another machine type says that this is expected, and what to do."""

import json
import subprocess

import pytest

from tapeline.config.project import Project
from tapeline.orchestration.reports.other_machine import advice
from tapeline.runtime.environment import machine


@pytest.fixture
def recorded(project):
    """Return a maker of repositories whose `dvc.lock` was recorded on a machine."""

    def make(**other):
        folder = project()
        (folder / "dvc.lock").write_text("schema: '2.0'\nstages: {}\n")
        path = folder / "runs/tiny/environment.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"machine": {**machine(), **other}}))
        for command in (["add", "-A"], ["-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "x"]):
            subprocess.run(["git", *command], cwd=folder, check=True)
        return folder

    return make


@pytest.mark.parametrize(("other", "changes", "said"), [(512, True, True), (512, False, False), (None, True, False)])
def test_what_is_said(recorded, other, changes, said):
    folder = recorded(**({"threads": other} if other else {}))
    if changes:
        (folder / "dvc.lock").write_text("schema: '2.0'\nstages: {x: {}}\n")
    lines = advice(Project.find(folder), "tiny").splitlines()
    assert bool(lines) == said
    if said:
        assert lines[0].startswith("dvc.lock has changed, as expected") and "(512 threads, here " in lines[0]
        command = lines[1].split("`")[1].split()
        subprocess.run(command, cwd=folder, check=True)
        assert advice(Project.find(folder), "tiny") == ""


@pytest.mark.slow
def test_the_run_ends_with_it(recorded, run, server):
    done = run(recorded(threads=512), "--pipeline", "tiny", PREFECT_API_URL=server)
    assert done.returncode == 0, done.stderr
    assert "\ndvc.lock has changed, as expected" in done.stdout
