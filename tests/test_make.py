"""`make` sets up `.venv` from nothing: two at a time, and one that is killed, leave an environment that is whole."""

import os
import shutil
import signal
import subprocess
import time

import pytest
import waiting

pytestmark = pytest.mark.slow


@pytest.fixture
def checkout(root, tmp_path):
    """A checkout that locks nothing. What installs notes each call, and waits while there is a file `wait`."""
    folder = tmp_path / "Meine Übung" / "a checkout"
    folder.mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy2(root / name, folder / name)
    (folder / "requirements.lock").touch()
    (folder / "install").write_text('#!/bin/sh\necho "$*" >> installed\nwhile [ -e wait ]; do sleep 0.1; done\n')
    (folder / "install").chmod(0o755)
    return folder


def make(folder, *arguments):
    command = ["make", "INSTALL=./install", ".venv/ready", *arguments]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "VIRTUAL", "PYTHON"))}
    return subprocess.Popen(
        command, cwd=folder, env=kept, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, process_group=0
    )


def installs(folder):
    path = folder / "installed"
    return len(path.read_text().splitlines()) if path.exists() else 0


def done(process):
    said = process.communicate(timeout=100)[0]
    assert process.returncode == 0, said
    return said


def kill(process):
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def test_what_a_killed_call_has_left_is_not_taken_for_installed(checkout):
    (checkout / "wait").touch()
    killed = make(checkout)
    waiting.until(lambda: installs(checkout) == 1, limit=100)
    kill(killed)
    half = checkout / ".venv" / "half"
    half.touch()
    (checkout / "wait").unlink()
    done(make(checkout))
    assert not half.exists()


def test_a_second_call_waits_for_the_first_and_installs_nothing(checkout):
    (checkout / "wait").touch()
    first = make(checkout)
    waiting.until(lambda: installs(checkout) == 1, limit=100)
    second = make(checkout)
    assert second.stdout.readline() == "another make sets up .venv: waiting for it\n"
    (checkout / "wait").unlink()
    done(first)
    done(second)
    assert installs(checkout) == 2  # the locked packages, and the checkout itself


def test_a_change_of_what_is_locked_keeps_the_environment(checkout):
    done(make(checkout))
    own = checkout / ".venv" / "own"
    own.touch()
    os.utime(checkout / "requirements.lock", (time.time() + 10, time.time() + 10))
    (checkout / "wait").touch()
    killed = make(checkout)
    waiting.until(lambda: installs(checkout) == 3, limit=100)
    kill(killed)
    assert own.exists()
    assert not (checkout / ".venv" / "ready").exists()


@pytest.mark.parametrize("later", [0, 10])
def test_an_environment_whose_interpreter_is_gone_is_made_again(checkout, later):
    done(make(checkout))
    python = checkout / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to("/usr/bin/python3.gone")
    os.utime(checkout / "requirements.lock", (time.time() + later, time.time() + later))
    done(make(checkout))
    assert subprocess.run([python, "-c", ""], check=False).returncode == 0
    assert installs(checkout) == 4


def test_the_environment_behind_a_link_is_not_touched(checkout):
    done(make(checkout))
    (checkout / ".venv").rename(checkout / "shared")
    (checkout / ".venv").symlink_to("shared")
    done(make(checkout))
    os.utime(checkout / "requirements.lock", (time.time() + 10, time.time() + 10))
    process = make(checkout)
    assert ".venv is a link" in process.communicate(timeout=100)[0]
    assert process.returncode == 2
    assert (checkout / "shared" / "ready").exists()
    assert installs(checkout) == 2
