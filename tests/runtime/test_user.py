"""A user whom the machine does not know, by a user namespace."""

import subprocess
import sys

import pytest
from clones import ROOT, environment
from repositories import Repository

NOBODY_KNOWN = 54321
UNKNOWN = ("unshare", "--user", f"--map-user={NOBODY_KNOWN}")


@pytest.fixture
def called(tmp_path):
    """Run Python as a user who is a mere number, with these variables alone saying who it is; return its output."""
    if subprocess.run([*UNKNOWN, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system lets nobody make a user namespace")

    def call(*command, **said):
        cleared = {name: value for name, value in environment().items() if name not in ("HOME", "USER", "LOGNAME")}
        variables = {**cleared, "PYTHONPATH": str(ROOT / "src"), "TMPDIR": str(tmp_path), **said}
        answer = subprocess.run(
            [*UNKNOWN, sys.executable, *command], env=variables, capture_output=True, text=True, check=False, cwd=cwd
        )
        assert answer.returncode == 0, answer.stderr
        return answer.stdout.splitlines()

    cwd = tmp_path / "project"
    cwd.mkdir()
    return call


def test_what_a_user_has_who_is_a_mere_number(called, tmp_path):
    program = (
        "import getpass, os, pathlib; from tapeline.runtime import user; user.known(); home = pathlib.Path.home(); "
        "print(getpass.getuser()); print(home); print(oct(home.stat().st_mode) if home.name == 'home' else '')"
    )
    home = str(tmp_path / f"tapeline-{NOBODY_KNOWN}" / "home")
    for said, expected in (
        ({}, [str(NOBODY_KNOWN), home, "0o40700"]),
        ({"HOME": "", "USER": ""}, [str(NOBODY_KNOWN), home, "0o40700"]),
        ({"HOME": "/"}, [str(NOBODY_KNOWN), "/", ""]),
        ({"LOGNAME": "ann"}, ["ann", home, "0o40700"]),
        ({"HOME": "/", "USER": "ann"}, ["ann", "/", ""]),
    ):
        assert called("-c", program, **said) == expected


def test_a_known_user_keeps_what_the_system_says():
    program = "import os; from tapeline.runtime import user; user.known(); print('HOME' in os.environ)"
    variables = {name: value for name, value in environment().items() if name not in ("HOME", "USER", "LOGNAME")}
    variables |= {"PYTHONPATH": str(ROOT / "src")}
    answer = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, check=False)
    assert answer.stdout == b"False\n"


def test_a_flow_that_no_command_has_started(called):
    """A worker's run asks DVC too."""
    assert called("-c", "import getpass, tapeline.orchestration; print(getpass.getuser())") == [str(NOBODY_KNOWN)]


def test_a_command_that_asks_dvc(called, tmp_path):
    """DVC had no name and no home, and `dvc.yaml` was said to be at fault."""
    Repository(tmp_path / "project")
    assert "one       near  no       up to date" in called("-m", "tapeline", "list")[1]
