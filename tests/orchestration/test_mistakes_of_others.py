"""A pipeline with a mistake keeps no other from its stages, by the flow and by DVC alone; its own mistake is one line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tapeline.orchestration.stages.pipeline import checked
from tapeline.runtime.errors import InputError

ASTRAY = """
  astray:
    dataset: nowhere
    recipe: recipe.py
    needs: data/nowhere
    params: {}
    train: {epochs: 1, batch_size: 1}
    validate: {}
    export: {}
"""
SAID = "params.yaml: pipelines.astray.dataset is 'nowhere': no such dataset; choose from points"
TINY = ["ingest@points", "train@tiny", "validate@tiny", "export@tiny"]


@pytest.fixture
def folder(project):
    """A project in which the pipeline `astray`, the first one, has a dataset that is not there."""
    made = project()
    params = made / "params.yaml"
    params.write_text(params.read_text().replace("pipelines:\n", f"pipelines:{ASTRAY}", 1))
    return made


def dvc(folder, *arguments):
    command = [sys.executable, "-P", "-m", "dvc", *arguments]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def ran(folder):
    log = folder / "ran.log"
    return log.read_text().split() if log.exists() else []


@pytest.mark.slow
def test_the_flow_runs_the_others_and_refuses_its_own(folder, run, server):
    done = run(folder, "--pipeline", "tiny", PREFECT_API_URL=server)
    assert done.returncode == 0, done.stderr
    assert ran(folder) == TINY
    done = run(folder, "--pipeline", "astray", PREFECT_API_URL=server)
    assert (done.returncode, done.stderr) == (2, f"training: {SAID}\n")


def test_dvc_alone_runs_the_others(folder):
    assert dvc(folder, "repro", "export@tiny").returncode == 0
    assert ran(folder) == TINY


def test_dvc_alone_runs_the_others_of_all_when_told_to_keep_going(folder):
    done = dvc(folder, "repro", "--keep-going")
    assert done.returncode != 0
    assert "failed to reproduce 'train@astray'" in done.stderr and "data/nowhere" in done.stderr
    assert sorted(ran(folder)) == sorted(TINY)


def test_the_check_of_a_worktree_s_pipeline_is_of_that_pipeline(folder):
    assert checked("tiny", start=folder).folder == folder
    with pytest.raises(InputError, match=SAID):
        checked("astray", start=folder)
    with pytest.raises(InputError, match=r"^--pipeline is missing: params.yaml has tiny$"):
        checked(None, start=folder)
