"""A program that runs apart has the dependencies that this process has, wherever they were installed."""

import json
import os
import site
import subprocess
import sys

import pytest

from tapeline.runtime import interpreter

TELLS = """
import json, sys
import numpy, tensorflow
print(json.dumps([sys.argv, numpy.__file__, tensorflow.__file__, sys.flags.isolated, __name__]))
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with packages, first in Python's path."""
    for name in ("numpy", "tensorflow"):
        (tmp_path / "lib" / name).mkdir(parents=True)
        (tmp_path / "lib" / name / "__init__.py").write_text("")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "lib"), *sys.path])
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return tmp_path / "lib"


@pytest.mark.parametrize("how", ["PYTHONPATH", "relative", "--user"])
def test_packages_that_python_would_not_find_apart_are_found(folder, tmp_path, monkeypatch, how):
    """After `pip install --user` every export failed, and so did `predict` and `promote`: No module named 'numpy'."""
    monkeypatch.chdir(tmp_path)
    if how == "--user":
        monkeypatch.setattr(site, "ENABLE_USER_SITE", True)
        monkeypatch.setattr(site, "getusersitepackages", lambda: str(folder))
    else:
        monkeypatch.setenv("PYTHONPATH", f"/none{os.pathsep}{'lib' if how == 'relative' else folder}")
    file = tmp_path / "tells.py"
    file.write_text(TELLS)
    assert interpreter.packages() == (str(folder),)
    command = interpreter.isolated(str(file), "one", "two")
    said = subprocess.run(command, cwd="/", env={}, capture_output=True, text=True, check=True).stdout
    own = [str(folder / name / "__init__.py") for name in ("numpy", "tensorflow")]
    assert json.loads(said) == [[str(file), "one", "two"], *own, 1, "__main__"]


def test_nothing_is_added_where_they_are_installed_as_ever(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert interpreter.packages() == ()
    assert interpreter.isolated("file.py", "one", options=("-s", "-P")) == [
        sys.executable,
        "-s",
        "-P",
        "file.py",
        "one",
    ]


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
