"""The README's walk for data of one's own, with this project's ignore files: the CSV is there at each step."""

import os
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tapeline.orchestration.stages.dvc_stage import DvcProject
from tapeline.runtime.errors import InputError

TEXT, MORE = "a\n1\n2\n", "a\n1\n2\n3\n"


@pytest.fixture
def call(root, server):
    """Run a command of the project's interpreter in a folder, and return what it said."""
    binaries = Path(sys.executable).parent

    def run(folder, *command):
        environment = {**os.environ, "PYTHONPATH": str(root), "PREFECT_API_URL": server}
        environment["PATH"] = f"{binaries}:{os.environ['PATH']}"
        answer = subprocess.run(
            [str(part) for part in command], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert answer.returncode == 0, answer.stdout + answer.stderr
        return answer.stdout + answer.stderr

    return run


@pytest.mark.filterwarnings("ignore:_NoneStep.value:DeprecationWarning")  # DVC calls pygtrie so
@pytest.mark.parametrize("ask", [DvcProject.upstream, DvcProject.raw_data])
def test_raw_data_that_dvc_overlooks_are_refused_before_anything_runs(project, ask):
    folder = project()
    (folder / "data/raw").mkdir(parents=True)
    (folder / "data/raw/own.csv.dvc").write_text("outs:\n- {path: own.csv, md5: 0123456789abcdef0123456789abcdef}\n")
    with closing(DvcProject(folder)) as dvc:
        ask(dvc, "export@tiny")
    (folder / ".gitignore").write_text("/data/*\n!/data/raw/\n")
    with closing(DvcProject(folder)) as dvc, pytest.raises(InputError, match=r"`/data/\*` in line 1 of \.gitignore"):
        ask(dvc, "export@tiny")


@pytest.mark.filterwarnings("ignore:_NoneStep.value:DeprecationWarning")  # DVC calls pygtrie so
def test_raw_data_of_an_earlier_commit_are_not_recorded_again(project):
    """As after a `git pull` without a `dvc pull`."""
    folder = project()
    own = folder / "data/raw/own.csv"
    own.parent.mkdir(parents=True)
    for name in ("params.yaml", "stage.py"):
        (folder / name).write_text((folder / name).read_text().replace("points.csv", "data/raw/own.csv"))
    programs = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    def call(*command):
        subprocess.run(command, cwd=folder, env=programs, check=True, capture_output=True)

    def stale():
        with closing(DvcProject(folder)) as dvc:
            return [stage.title for stage in dvc.upstream("export@tiny")]

    for text in (TEXT, MORE):
        own.write_text(text)
        call("dvc", "--quiet", "add", "data/raw/own.csv")
        call("git", "add", "-A")
        call("git", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", text)
    assert "data/raw/own.csv.dvc" not in stale()
    own.write_text(TEXT)
    with pytest.raises(
        InputError, match=r"own.csv is what commits before \w+ have, .* `dvc pull .*own.csv.dvc` brings"
    ):
        stale()
    own.write_text(f"{MORE}4\n")
    assert "data/raw/own.csv.dvc" in stale(), "which is new"
    own.write_text(TEXT)
    call("dvc", "--quiet", "add", "data/raw/own.csv")
    assert "data/raw/own.csv.dvc" not in stale(), "which is a person's decision"
    own.write_text(MORE)
    assert "data/raw/own.csv.dvc" in stale(), "while the decision is not committed"


@pytest.mark.long
def test_own_data_from_dvc_add_to_a_fresh_clone(project, root, call, tmp_path):
    folder = project()
    for name in (".gitignore", ".dvcignore", ".dvc/config"):
        shutil.copy(root / name, folder / name)
    own = folder / "data/raw/own.csv"
    own.parent.mkdir(parents=True)
    own.write_text(TEXT)
    for name in ("params.yaml", "stage.py"):
        (folder / name).write_text((folder / name).read_text().replace("points.csv", "data/raw/own.csv"))
    dvc, flow = ("dvc", "--quiet"), (sys.executable, "-m", "flows.training", "--pipeline", "tiny")

    def commit(message):
        call(folder, "git", "add", "-A")
        call(folder, "git", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", message)

    call(folder, *dvc, "remote", "add", "-d", "store", tmp_path / "store")
    call(folder, "git", "branch", "-M", "main")
    call(folder, *dvc, "add", "data/raw/own.csv")
    commit("own data")
    call(folder, *dvc, "repro", "export@tiny")
    commit("trained")
    recorded = (folder / "data/raw/own.csv.dvc").read_text()
    assert not call(folder, "git", "status", "--porcelain")

    own.write_text(MORE)
    assert "own.csv" in call(folder, "dvc", "status")
    assert "data/raw/own.csv.dvc  recorded" in call(folder, *flow), "the flow records the change"
    assert (folder / "data/raw/own.csv.dvc").read_text() != recorded
    assert (folder / "data/points/x.txt").read_text() == MORE
    commit("more of it")

    run = call(folder, *flow, "--isolated", "--set", "train.epochs=3")
    assert "branch runs/" in run
    sweep = (sys.executable, "-m", "flows.sweep", "--pipeline", "tiny", "--min", "distance", "--trials", "2")
    call(folder, *sweep, "--over", "train.epochs={low: 4, high: 9}")
    for branch in call(folder, "git", "branch", "--list", "runs/*", "--format=%(refname:short)").split():
        made = call(folder, "git", "show", f"{branch}:data/raw/own.csv.dvc")
        assert made == (folder / "data/raw/own.csv.dvc").read_text()

    call(folder, *dvc, "push")
    call(tmp_path, "git", "clone", "-q", folder, "clone")
    call(tmp_path / "clone", *dvc, "pull")
    assert (tmp_path / "clone/data/raw/own.csv").read_text() == MORE
    assert "data/raw/own.csv" not in call(tmp_path / "clone", "dvc", "status")

    call(folder, *dvc, "checkout")
    assert own.read_text() == MORE
    call(folder, *dvc, "gc", "--workspace", "--force")
    own.unlink()
    call(folder, *dvc, "checkout")
    assert own.read_text() == MORE, "the cache still had it"
