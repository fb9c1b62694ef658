"""The export check as a fork: a process that has TensorFlow, and neither Tapeline nor the project's code."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # each starts a process that imports TensorFlow

ROOT = Path(__file__).resolve().parents[2]

STAGE = """
import os, sys
import tensorflow
import of_the_project
from pathlib import Path
from tapeline.export import check, checking
from tapeline.runtime import forks
from tapeline.runtime.errors import RunError

open("held", "w")
os.environ[forks.FRESH] = str(os.getpid())
check.__file__ = sys.argv[1]
print("printed once", end="")
with checking.checker() as started:
    assert isinstance(started._process, checking.Forked) and forks.FRESH not in os.environ
    try:
        started.compare(Path("model"), {"x": Path("x.npy")}, Path("predictions.npz"), 1e-5)
    except RunError as error:
        print()
        print(error)
"""

PROBE = """
import importlib.util, json, os, sys
asked = json.load(sys.stdin)
found = {
    "tensorflow": "tensorflow" in sys.modules,
    "loaded": sorted(name for name in sys.modules if name.split(".")[0] in ("of_the_project", "tapeline") and sys.modules[name]),
    "importable": [],
    "files": len([name for name in os.listdir("/proc/self/fd") if int(name) > 2]) - 1,
    "argv": len(sys.argv),
    "asked": asked["tolerance"],
}
for name in ("of_the_project", "beside", "tapeline", "tapeline.recipe"):
    try:
        __import__(name)
        found["importable"].append(name)
    except ImportError:
        pass
print(json.dumps(found), file=sys.stderr)
sys.exit(1)
"""


@pytest.fixture
def stage(tmp_path):
    """Return a function that runs a stage whose check is this text, and returns what it prints."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "of_the_project.py").write_text("")
    (tmp_path / "beside.py").write_text("")

    def run(check, *, stage=STAGE):
        (tmp_path / "check.py").write_text(check)
        path = os.pathsep.join([str(tmp_path / "code"), str(ROOT / "src")])
        return subprocess.run(
            [sys.executable, "-c", stage, str(tmp_path / "check.py")],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    return run


def test_it_has_tensorflow_alone(stage):
    first, said = stage(PROBE).splitlines()
    assert first == "printed once"
    assert said.removeprefix("the exported model failed its check: ") == (
        '{"tensorflow": true, "loaded": [], "importable": [], "files": 0, "argv": 1, "asked": 1e-05}'
    )


def test_it_sees_the_dependencies_that_are_in_pythonpath(stage):
    given = STAGE.replace("open(", 'checking.packages = lambda: (str(Path("code").absolute()),)\nopen(', 1)
    assert '"importable": ["of_the_project"]' in stage(PROBE, stage=given)


@pytest.mark.parametrize(
    ("check", "said"),
    [
        ("", "printed once"),
        ("1 / 0", "the exported model failed its check: ZeroDivisionError: division by zero"),
        ("import sys; sys.exit(3)", "the exported model failed its check: status 3"),
        ("import os; os.kill(os.getpid(), 9)", "was killed by signal 9: run again"),
    ],
)
def test_how_it_ends_is_told(stage, check, said):
    assert stage(check).splitlines()[-1].endswith(said)
