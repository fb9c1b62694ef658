"""A run without a server that is stopped or killed in the middle: nothing stays, the next run resumes."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from surroundings import below, started_by

from tapeline.repository import reproduction


@pytest.fixture
def waiting(project, start, until):
    """A flow whose train stage has begun and waits; its folder and its process."""
    folder = project("waits")
    with start(folder, "--pipeline", "tiny") as flow:
        until((folder / ".tapeline/checkpoints/tiny/waiting").exists, limit=200)
        yield folder, flow
        flow.kill()


def running_dvc(flow):
    return next(child for child in started_by(flow.pid) if reproduction.__name__ in child.cmdline())


def finishes_from_the_checkpoint(folder, run):
    done = run(folder, "--pipeline", "tiny")
    assert done.returncode == 0, done.stderr
    assert "resuming from step 17" in done.stderr
    assert "waiting" not in done.stderr


def held(folder):
    rwlock = folder / ".dvc/tmp/rwlock"
    return json.loads(rwlock.read_text()) if rwlock.exists() else {}


@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_signal_ends_everything_in_order(waiting, signum, run):
    folder, flow = waiting
    assert len(below(folder)) == 4, "the run, the guard, DVC and the stage"
    flow.send_signal(signum)
    _, err = flow.communicate(timeout=120)
    assert below(folder) == []
    assert flow.returncode == 128 + signum, err
    assert "checkpoint at step 17" in err, "what the stage says while it ends is told"
    assert err.splitlines()[-1] == f"training: stopped by {signum.name}; run again to resume"
    assert "Traceback" not in err
    assert not held(folder), "DVC's locks are free"
    if signum == signal.SIGTERM:
        finishes_from_the_checkpoint(folder, run)


@pytest.mark.long
def test_what_dvc_left_cut_when_it_was_ended_is_mended_before_the_flow_ends(waiting):
    folder, flow = waiting
    (folder / ".dvc/tmp/rwlock").write_text("")
    flow.send_signal(signal.SIGTERM)
    _, err = flow.communicate(timeout=120)
    assert flow.returncode == 128 + signal.SIGTERM, err
    assert "rwlock: was truncated; emptied it" in err
    assert not any(held(folder).values())


@pytest.mark.slow
def test_sigkill_leaves_no_process(waiting, until, run):
    folder, flow = waiting
    flow.kill()
    until(lambda: below(folder) == [], limit=60)
    finishes_from_the_checkpoint(folder, run)


@pytest.mark.slow
@pytest.mark.parametrize("fork", ["0", "1"])
def test_sigkill_leaves_no_command_of_any_kind(project, start, until, fork):
    folder = project()
    stages = (folder / "dvc.yaml").read_text()
    command = "touch begun; (sleep 601 &); sleep 602 && true"
    (folder / "dvc.yaml").write_text(stages.replace("exec python stage.py train ${key}", command))
    with start(folder, "--pipeline", "tiny", TAPELINE_FORK=fork) as flow:
        until((folder / "begun").exists, limit=200)
        flow.kill()
    until(lambda: below(folder) == [], limit=60)


@pytest.mark.slow
def test_dvc_killed_alone_ends_the_stage_and_it_is_tried_again(waiting):
    _, flow = waiting
    dvc = running_dvc(flow)
    dvc.kill()
    _, err = flow.communicate(timeout=120)
    assert flow.returncode == 0, err
    lines = err.splitlines()
    attempt = next(index for index, line in enumerate(lines) if line.endswith("train@tiny  attempt 2 of 3"))
    assert any("checkpoint at step 17" in line for line in lines[:attempt]), "no stage was left behind"
    assert any("resuming from step 17" in line for line in lines[attempt:])


@pytest.mark.slow
def test_a_killed_dvc_without_another_try_fails_the_run(project, start, until):
    folder = project("waits")
    with start(folder, "--pipeline", "tiny", "--retries", "0") as flow:
        until((folder / ".tapeline/checkpoints/tiny/waiting").exists, limit=200)
        running_dvc(flow).kill()
        _, err = flow.communicate(timeout=120)
    assert below(folder) == []
    assert flow.returncode == 128 + signal.SIGKILL
    assert "dvc, which ran train@tiny, was killed by SIGKILL" in err.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize("with_server", [False, True])
def test_a_stage_that_dvc_runs_by_hand_is_waited_for(project, request, start, until, with_server):
    more = {"PREFECT_API_URL": request.getfixturevalue("server")} if with_server else {}
    folder = project("waits")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = [sys.executable, "-P", "-m", "dvc", "repro", "-q", "train@tiny"]
    with subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True) as by_hand:
        until((folder / ".tapeline/checkpoints/tiny/waiting").exists)
        with start(folder, "--pipeline", "tiny", **more) as flow:
            for line in flow.stderr:
                if "is busy" in line:
                    os.killpg(by_hand.pid, signal.SIGINT)
                    break
            _, err = flow.communicate(timeout=120)
    assert flow.returncode == 0, err
    assert "resuming from step 17" in err
