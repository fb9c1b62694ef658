"""A project that this user may read and not write: what only reads answers as elsewhere."""

import shutil
import subprocess
import sys

import pytest
from clones import ROOT, environment

ANSWERS = {
    ("registry", "gate", "one@v1.0.1", "dev"): (0, "one@v1.0.1 for dev, no champion: yes"),
    ("registry", "audit", "--fetch"): (0, "9 files by SHA-256, 2 verdicts; unchecked: 2; wrong: 0"),
    ("list",): (0, "one       points  no       recorded, but its files are not here"),
    ("registry", "sync"): (2, "not writable or readable"),
    ("prune",): (2, "not writable or readable"),
}
MOUNTED = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && cd "$0" && exec "$@"'


@pytest.fixture
def fresh_clone(registry):
    """What a clone has, without DVC's cache: the models are on the remote alone."""
    for name in ("cache", "tmp"):
        shutil.rmtree(registry.folder / ".dvc" / name)
    for name in ("data", "models", "serving", ".tapeline"):
        shutil.rmtree(registry.folder / name)
    shutil.rmtree(registry.folder / "runs" / "one" / "train")
    shutil.rmtree(registry.folder / "runs" / "one" / "validate")
    return registry.folder


@pytest.mark.parametrize("command", ANSWERS, ids=" ".join)
def test_a_command_where_nothing_can_be_written(fresh_clone, command):
    """`.dvc/tmp` could not be made, so that nothing which asks DVC worked, and the remote was said to lack objects."""
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system lets nobody make a mount namespace")
    before = sorted(fresh_clone.rglob("*"))
    there = ["unshare", "-rm", "sh", "-c", MOUNTED, str(fresh_clone), sys.executable, "-m", "tapeline", *command]
    variables = {**environment(), "PYTHONPATH": str(ROOT / "src")}
    answer = subprocess.run(there, env=variables, capture_output=True, text=True, timeout=120, check=False)
    status, said = ANSWERS[command]
    assert answer.returncode == status and "Traceback" not in answer.stderr, answer.stdout + answer.stderr
    assert said in answer.stdout + answer.stderr
    assert sorted(fresh_clone.rglob("*")) == before
