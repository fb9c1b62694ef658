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
