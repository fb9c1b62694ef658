"""`dvc repro` of one stage in a process of its own: what it says, for real repositories."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
import waiting
from repositories import Repository
from ruamel.yaml import YAML
from surroundings import wait_for_none

from tapeline.repository.rebuilding import dvc
from tapeline.repository.reproduction import Reproduction, read, reproduce
from tapeline.repository.shared_cache import share_cache
from tapeline.runtime import processes

# DVC itself uses what pygtrie is about to drop.
pytestmark = pytest.mark.filterwarnings("ignore:_NoneStep.value:DeprecationWarning")


@pytest.fixture
def repository(tmp_path, monkeypatch):
    made = Repository(tmp_path / "a folder")
    monkeypatch.chdir(made.folder)
    return made


def start(folder, stage, **options):
    """Start the program; return the process and the file with its answer."""
    reader, writer = os.pipe()
    command = [sys.executable, "-P", "-m", "tapeline.repository.reproduction", stage, str(writer)]
    process = subprocess.Popen(
        command, cwd=folder, pass_fds=[writer], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )
    os.close(writer)
    return process, os.fdopen(reader, "rb")


def edited(repository, old, new):
    path = repository.folder / "dvc.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_what_it_did(repository, capfd):
    assert reproduce("train@one") == Reproduction(word="unchanged")
    (repository.folder / "recipe.py").write_text("other = 1\n")
    assert reproduce("train@one") == Reproduction(word="ran")
    repository.git("checkout", "--quiet", ".")
    (repository.folder / "runs" / "one.weights").unlink()
    assert reproduce("train@one") == Reproduction(word="restored")
    (repository.folder / "recipe.py").write_text("other = 1\n")
    assert reproduce("train@one") == Reproduction(word="restored")
    assert capfd.readouterr().out == ""  # the stage prints nothing, and DVC's progress is not for a log


def test_a_folder_of_which_the_cache_lacks_a_file_is_no_success(repository):
    """DVC logs a copy that fails, and records the folder all the same."""
    folder = repository.folder
    (folder / "make.py").write_text(
        "from pathlib import Path\nPath('out').mkdir()\nfor name in 'ab': Path('out', name).write_text(name)\n"
    )
    stages = YAML(typ="safe").load((folder / "dvc.yaml").read_text())
    stages["stages"]["make"] = {"cmd": f"{sys.executable} make.py", "deps": ["make.py"], "outs": ["out"]}
    YAML().dump(stages, folder / "dvc.yaml")
    in_the_way = folder / ".dvc/cache/files/md5" / hashlib.md5(b"a").hexdigest()[:2]
    in_the_way.symlink_to(folder / "nowhere")
    answer = reproduce("make")
    assert answer.word == "failed" and answer.status is None
    cache = folder / ".dvc/cache/files/md5"
    assert answer.message == f"could not store all of {folder / 'out'} in {cache}: free space there and run again"
    in_the_way.unlink()
    assert reproduce("make").word == "ran"
    shutil.rmtree(folder / "out")
    assert reproduce("make").word == "restored" and (folder / "out/a").read_text() == "a"


def test_nobody_is_asked_before_a_stage(repository):
    """Of a user who is asked at each `dvc repro`, every run was "aborted by the user"."""
    repository.dvc("config", "core.interactive", "true")
    (repository.folder / "recipe.py").write_text("other = 1\n")
    assert reproduce("train@one") == Reproduction(word="ran")
    share_cache(repository.folder / ".dvc", repository.folder / ".dvc")
    (repository.folder / "recipe.py").write_text("another = 1\n")
    dvc(repository.folder, "repro", "--single-item", "train@one")  # as `verify` and `upgrade` do in a clone


@pytest.mark.slow
def test_raw_data_are_recorded_as_they_are(repository):
    (repository.folder / "raw.csv").write_text("a\n1\n")
    repository.dvc("add", "--quiet", "raw.csv")
    assert reproduce("raw.csv.dvc").word == "unchanged"
    (repository.folder / "raw.csv").write_text("a\n2\n")
    assert reproduce("raw.csv.dvc") == Reproduction(word="recorded")
    assert reproduce("raw.csv.dvc").word == "unchanged"


def test_raw_data_that_a_clone_does_not_have_yet_are_named_with_what_brings_them(repository):
    (repository.folder / "raw.csv").write_text("a\n1\n")
    dvc(repository.folder, "add", "--quiet", "raw.csv")
    (repository.folder / "raw.csv").unlink()
    found = reproduce("raw.csv.dvc")
    file = repository.folder / "raw.csv.dvc"
    assert found == Reproduction(
        word="missing", message=f"the data of {file} are not here: `dvc pull '{file}'` brings them"
    )
    dvc(repository.folder, "checkout", "--quiet", str(file))
    assert reproduce("raw.csv.dvc").word == "unchanged"


@pytest.mark.first(1)
@pytest.mark.parametrize(("command", "status"), [("exit 3", 3), ("kill -9 $$", -9), ("sh -c 'kill -9 $$'; exit", 137)])
def test_the_exit_status_of_the_stage(repository, command, status):
    edited(repository, "mkdir -p runs &&", f"{command} &&")
    found = reproduce("train@one")
    assert (found.word, found.status) == ("failed", status)
    assert found.message.startswith("failed to reproduce 'train@one': failed to run: ")


def test_what_dvc_refuses_has_no_status(repository):
    (repository.folder / "recipe.py").unlink()
    found = reproduce("train@one")
    assert (found.word, found.status) == ("failed", None)
    assert "recipe.py" in found.message and "\n" not in found.message
    assert "'nothing'" in reproduce("nothing").message
    (repository.folder / "dvc.yaml").write_text("stages: [")
    assert reproduce("train@one").word == "failed"


def test_files_that_another_process_uses(repository):
    """The other DVC is a real one, in the middle of a stage."""
    edited(repository, "mkdir -p runs &&", "touch started; sleep 600;")
    other, answer = start(repository.folder, "train@one", start_new_session=True)
    with answer, other:
        try:
            while not (repository.folder / "started").exists():
                assert other.poll() is None, other.stdout.read()
                time.sleep(0.02)
            assert reproduce("train@one") == Reproduction(word="busy")
        finally:
            os.killpg(other.pid, signal.SIGKILL)
        assert read(answer.read()) is None


def test_as_a_program(repository):
    """Its output is the stage's own; the answer goes to the descriptor."""
    edited(repository, "mkdir -p runs &&", "echo working; exit 5;")
    process, answer = start(repository.folder, "train@one")
    said = process.communicate()[0]
    with answer:
        content = answer.read()
    assert process.returncode == 1 and said == "working\n"
    assert json.loads(content)["status"] == 5 and read(content).status == 5


def test_interrupted_while_the_stage_runs(repository):
    """SIGINT goes to the whole session, as a terminal sends it; DVC waits for the stage."""
    edited(repository, "mkdir -p runs &&", "trap 'exit 130' INT; touch started; while :; do sleep 0.05; done;")
    process, answer = start(repository.folder, "train@one", start_new_session=True)
    with answer:
        while not (repository.folder / "started").exists():
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=30)
        found = read(answer.read())
    # DVC ignores SIGINT once it has started the command, and there is a moment before that.
    assert found.word == "failed" and (found.status == 130 or found.message == "interrupted")


def test_a_cut_answer_is_none():
    assert read(b"") is None and read(b'{"word": "ra') is None and read(b'{"word": ["ran"]}') is None


# Starts the program as a flow does, on a leash and in a session of its own.
FLOW = """
import os, subprocess, sys
leash = [sys.executable, "-I", "-S", sys.argv[1], "15", str(os.getpid())]
program = [sys.executable, "-P", "-m", "tapeline.repository.reproduction", "train@one", "1"]
subprocess.run([*leash, *program], start_new_session=True)
"""


@pytest.fixture
def killed(repository):
    """Return a function that runs a stage's command, kills the flow and waits until no process of it is left."""

    def run(command):
        edited(repository, "mkdir -p runs &&", command)
        flow = [sys.executable, "-c", FLOW, processes.__file__]
        with subprocess.Popen(flow, cwd=repository.folder) as process:
            waiting.until((repository.folder / "started").exists, limit=60)
            process.kill()
        assert wait_for_none(repository.folder, but=[os.getpid()]) < processes.GRACE

    return run


def test_no_command_of_any_kind_outlives_a_killed_flow(killed):
    killed("(sleep 601 &); touch started; sleep 602 && true;")


TRAINER = """
import signal, sys, time
from pathlib import Path
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(time.monotonic()))
from tapeline.repository.shared_cache import share_cache
from tapeline.runtime import processes
processes.die_with_parent()
Path("started").touch()
while not asked:
    time.sleep(0.01)
time.sleep(2)  # writes its checkpoint
Path("checkpoint").write_text(str(sum(time > asked[0] + 0.9 for time in asked)))
"""


@pytest.mark.first(1)
@pytest.mark.parametrize("command", ["exec python trainer.py;", "python trainer.py; true;"])
def test_a_trainer_is_asked_once_and_has_the_time_for_its_checkpoint(repository, killed, monkeypatch, command):
    """In a shell of its own it is told of the shell's end too, at the same moment, which counts as one."""
    monkeypatch.setenv("PATH", f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}")  # noqa: PTH120
    (repository.folder / "trainer.py").write_text(TRAINER)
    killed(command)
    assert (repository.folder / "checkpoint").read_text() == "0", "a later one would have ended it"
