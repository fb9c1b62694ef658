"""The code of a checkout runs in it, and nobody else's."""

import os
import subprocess
import sys

import pytest


@pytest.fixture
def tree(tmp_path):
    """A folder with code, and with a folder below."""
    (tmp_path / "tree/src/tapeline").mkdir(parents=True)
    (tmp_path / "tree/src/tapeline/__init__.py").touch()
    (tmp_path / "tree/src/tapeline/__main__.py").write_text("print('from there')\n")
    (tmp_path / "tree/below").mkdir()
    return tmp_path / "tree"


def called_below(tree):
    command = [sys.executable, "-P", "-m", "tapeline", "--version"]
    return subprocess.run(command, cwd=tree / "below", capture_output=True, text=True, timeout=60, check=False)


def git(tree, command):
    subprocess.run(f"git init -q && {command}", shell=True, cwd=tree, check=True)


def test_code_of_no_checkout_never_runs(tree):
    """`/tmp/src/tapeline` of another user ran below `/tmp`, and that of a data set where that was unpacked."""
    assert called_below(tree).stdout.startswith("tapeline ")
    git(tree, "true")
    assert called_below(tree).stdout.startswith("tapeline "), "Git does not have it"
    git(tree, "git add src")
    assert called_below(tree).stdout == "from there\n"


def test_no_module_of_the_current_folder_hides_one_that_the_code_of_a_checkout_imports(tree):
    git(tree, "git add src")
    (tree / "src/tapeline/__main__.py").write_text("import random\nprint(hasattr(random, 'shuffle'))\n")
    (tree / "below/random.py").write_text("")
    assert called_below(tree).stdout == "True\n"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_code_of_another_user_runs_only_if_git_was_told_to_trust_it(tree, tmp_path, monkeypatch):
    git(tree, "git add src && chown -R 65534 .")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    answer = called_below(tree)
    trusted = f"git config --global --add safe.directory {tree}"
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == f"tapeline: {tree}/src is another user's code: if you trust them, `{trusted}`\n"
    subprocess.run(trusted, shell=True, check=True)
    assert called_below(tree).stdout == "from there\n"
