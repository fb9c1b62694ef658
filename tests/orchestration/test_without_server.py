"""A run where there is no Prefect server: the same stages and report, without Prefect, and when there is one after all."""

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.make_run import pieces
from tapeline.config.project import Project
from tapeline.orchestration.connection import discovery

STAGES = ["ingest@points", "train@tiny", "validate@tiny", "export@tiny"]

# Runs the command, and tells at the end what was imported.
CALL = """
import sys
from tapeline.cli.main import main
status = main(sys.argv[1:])
print("heavy:", sorted({"prefect", "tensorflow", "matplotlib"} & set(sys.modules)))
sys.exit(status)
"""


@pytest.fixture
def call(root):
    def run(folder, *arguments, **more):
        environment = {**os.environ, "PYTHONPATH": str(root / "src"), **more}
        return subprocess.run(
            [sys.executable, "-c", CALL, *arguments],
            check=False,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=250,
        )

    return run


@pytest.mark.slow
def test_a_first_run_and_one_with_nothing_to_do(project, call):
    folder = project()
    first = call(folder, "run", "--pipeline", "tiny")
    assert first.returncode == 0, first.stderr
    lines = first.stdout.splitlines()
    assert [line.split()[:2] for line in lines[:4]] == [[name, "ran"] for name in STAGES]
    assert lines[4:6] == ["verdict yes  accuracy 0.975", "model models/tiny"]
    assert "prefect" not in lines[-1]
    assert re.search(r"^\d\d:\d\d:\d\d  train@tiny  first line$", first.stderr, re.MULTILINE)
    assert "git add" not in first.stderr
    timed = pieces(1.0, [(0.5, line) for line in first.stderr.splitlines()])
    assert list(timed) == ["start", "ingest", "train", "validate", "export", "end"], "what the benchmarks read"
    page = folder / ".tapeline/reports/training-tiny.md"
    assert str(page) in first.stderr
    assert "Verdict: **yes**" in page.read_text()
    assert not (folder / ".tapeline/prefect").exists()
    page.write_text("the last run's")
    second = call(folder, "run", "--pipeline", "tiny")
    assert second.returncode == 0, second.stderr
    assert [line.split() for line in second.stdout.splitlines()[:4]] == [[name, "unchanged"] for name in STAGES]
    assert second.stdout.splitlines()[4:] == ["verdict yes  accuracy 0.975", "model models/tiny", "heavy: []"]
    assert second.stderr == ""
    assert (folder / "ran.log").read_text().split() == STAGES
    assert page.read_text() == "the last run's"
    assert not (folder / ".tapeline/unchanged").exists()
    (folder / "params.yaml").touch()  # as by `git checkout`
    assert call(folder, "run", "--pipeline", "tiny").returncode == 0
    assert (folder / ".tapeline/unchanged/tiny").exists(), "so that the next run does not import TensorFlow in vain"


@pytest.mark.long
def test_stages_of_two_projects_with_the_same_names_are_told_apart(project, call):
    """A project in a subfolder uses the dataset of the one around it, as the gallery does."""
    folder = project() / "learning"
    folder.mkdir()
    for name in ("behaviour", "dvc.yaml", "params.yaml", "points.csv", "recipe.py", "stage.py"):
        shutil.copy(folder.parent / name, folder)
    params = folder / "params.yaml"
    params.write_text(params.read_text().replace("needs: points.csv", "needs: ../data/points"))
    stages = ["../dvc.yaml:ingest@points", *STAGES]
    for word in ("ran", "unchanged"):
        done = call(folder, "run", "--pipeline", "tiny")
        assert done.returncode == 0, done.stderr
        assert [line.split()[:2] for line in done.stdout.splitlines()[:5]] == [[name, word] for name in stages]
        assert "attempt" not in done.stderr


@pytest.mark.slow
def test_a_stage_that_fails_ends_the_run_with_its_own_last_line(project, call):
    done = call(project("refuses"), "run", "--pipeline", "tiny")
    assert done.returncode == 2
    line = "training: train@tiny: the batch is larger than the data: make it smaller"
    assert done.stderr.splitlines()[-1] == line
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_stage_that_is_killed_is_tried_again_and_resumes(project, call):
    done = call(project("dies"), "run", "--pipeline", "tiny", "--retries", "1")
    assert done.returncode == 0, done.stderr
    assert "train@tiny  attempt 2 of 2" in done.stderr
    assert "resuming from step 17" in done.stderr
    assert "train@tiny     ran, attempt 2" in done.stdout


@pytest.mark.slow
def test_an_isolated_run_ends_as_a_commit_on_a_branch(project, call):
    folder = project()
    subprocess.run(["git", "config", "user.email", "t@example.org"], cwd=folder, check=True)
    subprocess.run(["git", "config", "user.name", "t"], cwd=folder, check=True)
    subprocess.run(["git", "add", "behaviour"], cwd=folder, check=True)
    subprocess.run(["git", "commit", "-qm", "it behaves well"], cwd=folder, check=True)
    done = call(folder, "run", "--pipeline", "tiny", "--isolated", "--set", "train.epochs=2")
    assert done.returncode == 0, done.stderr
    branch = re.search(r"^branch (runs/[a-z]+-[a-z]+)$", done.stdout, re.MULTILINE)[1]
    show = ["git", "show", "--format=%s", f"{branch}:params.yaml"]
    assert "epochs: 2" in subprocess.run(show, cwd=folder, capture_output=True, text=True, check=True).stdout
    again = call(folder, "run", "--pipeline", "tiny", "--isolated", "--set", "train.epochs=2")
    assert f"nothing new: {branch} has the same" in again.stdout


@pytest.mark.slow
def test_the_server_of_serve_is_used_while_it_serves(project, call, server, ask):
    folder = project()
    with discovery.serving(Project.find(folder), server):
        done = call(folder, "run", "--pipeline", "tiny")
    assert done.returncode == 0, done.stderr
    name = re.search(r"Beginning flow run '([^']+)'", done.stderr)[1]
    assert ask("flow_runs", {"flow_runs": {"name": {"any_": [name]}}})[0]["state_type"] == "COMPLETED"
    assert "prefect" not in call(folder, "run", "--pipeline", "tiny").stdout


FIND = "from tapeline.config.project import Project; from tapeline.orchestration.connection import discovery\n"


def test_a_user_without_a_home_has_no_profile(project, root):
    """As in a container that runs as a user that its system does not know."""
    program = f"import pwd\npwd.getpwuid = lambda user: {{}}[user]\n{FIND}print(repr(discovery.server(Project.find())))"
    bare = {"PATH": os.environ["PATH"], "PYTHONPATH": str(root / "src")}
    answer = subprocess.run(
        [sys.executable, "-c", program], cwd=project(), env=bare, capture_output=True, text=True, check=False
    )
    assert (answer.stdout, answer.stderr) == ("''\n", "")


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("file", "text", "found"),
    [
        ("prefect.toml", '[api]\nurl = "http://there/api"\n', "http://there/api"),
        ("pyproject.toml", '[tool.prefect.api]\nurl = "http://there/api"\n', "http://there/api"),
        ("pyproject.toml", "[tool.ruff]\nline-length = 100\n", "without Prefect"),
        (".env", "PREFECT_API_URL=http://there/api\n", "http://there/api"),
        (
            "home/profiles.toml",
            'active = "a"\n[profiles.a]\nPREFECT_API_URL = "http://there/api"\n',
            "http://there/api",
        ),
        ("home/profiles.toml", 'active = "b"\n[profiles.a]\nPREFECT_API_URL = "x"\n[profiles.b]\n', "without Prefect"),
    ],
)
def test_a_server_in_prefect_s_own_files(project, tmp_path, root, file, text, found):
    folder = project()
    path = folder / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    program = f"{FIND}import sys; print(discovery.server(Project.find()) or 'without', end='')\n"
    program += "print('' if 'prefect' in sys.modules else ' Prefect')"
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "PREFECT_HOME": str(folder / "home")}
    answer = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == found


def test_a_server_that_hangs_is_done_without(project, monkeypatch, capsys):
    """As one that was stopped: the kernel takes connections for it."""
    here = Project.find(project())
    monkeypatch.setattr(discovery, "HANGS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/api"
        with discovery.serving(here, url, ours=True):
            assert discovery.server(here) == ""
        with discovery.serving(here, url):  # one that somebody has named, perhaps behind a proxy
            assert discovery.server(here) == url
    assert capsys.readouterr().err == (
        f"note: the server of `tapeline serve` at {url} has not answered for 0.2 s: not shown there\n"
    )


def test_of_two_that_serve_the_first_counts_and_nobody_s_address_stays(project):
    here = Project.find(project())
    assert discovery.server(here) == ""
    with discovery.serving(here, "http://one/api") as first, discovery.serving(here, "http://two/api") as second:
        assert (first, second) == (True, False)
        assert discovery.server(here) == "http://one/api"
    assert discovery.server(here) == ""
    assert Path(here.shared / discovery.SERVED).exists()


@pytest.mark.long
def test_a_sweep(project, call):
    folder = project()
    who = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", "branch", "-M", "main"], cwd=folder, check=True)
    subprocess.run(["git", "add", "-A"], cwd=folder, check=True)
    subprocess.run([*who, "commit", "-qm", "what is trained"], cwd=folder, check=True)
    arguments = ["--min", "distance", "--over", "train.epochs=[6, 7]", "--trials", "2"]
    done = call(folder, "sweep", "--pipeline", "tiny", *arguments)
    assert done.returncode == 0, done.stderr
    head, first, second, *_, heavy = done.stdout.splitlines()
    assert head.split() == ["rank", "distance", "train.epochs", "gate", "branch"]
    assert [line.split()[2] for line in (first, second)] in (["7", "6"], ["7", "7"], ["6", "6"])
    assert "prefect" not in heavy
    page = (folder / ".tapeline/reports/sweep-tiny.md").read_text()
    assert page.startswith("# Sweep tiny")
    assert not (folder / ".tapeline/prefect").exists()


@pytest.mark.long
def test_trials_whose_metric_is_not_finite_fail_and_the_sweep_goes_on(project, call):
    folder = project("overflows")
    for arguments in (("add", "behaviour"), ("-c", "user.name=t", "-c", "user.email=t@e.org", "commit", "-qm", "x")):
        subprocess.run(["git", *arguments], cwd=folder, check=True)
    subprocess.run(["git", "branch", "-M", "main"], cwd=folder, check=True)
    searched = ("--over", "train.epochs={low: 1, high: 9}", "--min", "distance", "--parallel", "1")
    done = call(folder, "sweep", "--pipeline", "tiny", *searched)
    assert done.returncode == 1, done.stderr
    assert [f"trial {number} failed: distance is not finite" in done.stderr for number in range(3)] == [True] * 3
    assert done.stderr.splitlines()[-1] == "sweep: 3 trials failed; the last one: distance is not finite"


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("arguments", "program"),
    [
        (("run", "--pipeline", "tiny"), "training"),
        (("promote", "--pipeline", "tiny", "--stage", "dev"), "promotion"),
        (("sweep", "--pipeline", "tiny", "--min", "distance", "--over", "train.epochs=[6, 7]"), "sweep"),
    ],
)
def test_a_configured_server_that_does_not_answer_is_one_line(project, call, arguments, program):
    folder = project()
    subprocess.run(["git", "branch", "-M", "main"], cwd=folder, check=True)
    done = call(folder, *arguments, PREFECT_API_URL="http://127.0.0.1:9/api")
    assert done.returncode == 1
    line = done.stderr.splitlines()[-1]
    assert line.startswith(
        f"{program}: Failed to reach API at http://127.0.0.1:9/api/: start that server; if it runs, "
    )
    assert "; to run without one, unset PREFECT_API_URL, and stop a " in line
    assert "Traceback" not in done.stderr
