"""What a pipeline measures, asked before it is trained, in projects whose code is the installed one."""

import subprocess
import sys

import pytest

from tapeline.config.project import Project
from tapeline.orchestration.isolation.measured import measured
from tapeline.scaffold.init import init

# DVC itself uses what pygtrie is about to drop.
pytestmark = pytest.mark.filterwarnings("ignore:_NoneStep.value:DeprecationWarning")


def asked(folder, pipeline):
    said = []
    return measured(Project.find(folder), pipeline, say=said.append), said


def test_another_program_s_metrics_are_not_known(project):
    names, said = asked(project(), "tiny")
    assert names is None
    assert said == ["the validation metrics of tiny are known only after a trial: another program trains it"]


@pytest.mark.slow
def test_the_installed_code_answers_where_the_project_has_none(tmp_path, monkeypatch):
    folder = tmp_path / "a project"
    init(folder, say=lambda line: None)
    monkeypatch.chdir(folder)
    names, said = asked(folder, "iris")
    assert set(names) >= {"accuracy", "loss"}, said
    assert not (folder / "runs").exists(), "nothing was trained"


@pytest.mark.slow
def test_a_sweep_for_no_metric_of_the_project_ends_before_its_first_trial(tmp_path):
    folder = tmp_path / "a project"
    init(folder, say=lambda line: None)
    for command in (["branch", "-M", "main"], ["add", "-A"], ["commit", "-qm", "what is trained"]):
        who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(["git", *who, *command], cwd=folder, check=True)
    sweep = [sys.executable, "-P", "-m", "tapeline", "sweep", "--pipeline", "iris", "--over", "train.epochs=[1, 2]"]
    done = subprocess.run([*sweep, "--max", "acc"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    said = "sweep: metric is 'acc', which iris does not measure in validation: it has "
    assert done.stderr.splitlines()[-1].startswith(said)
    assert "Traceback" not in done.stderr
    assert not list((folder / ".tapeline/sweeps/iris").glob("*.log")), "no trial was started"
    assert not list((folder / ".tapeline/worktrees").glob("*/"))
