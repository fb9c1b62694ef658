"""A sweep for a metric that the pipeline does not measure ends before its first trial, in a clone of this tree."""

import sys

import pytest
from clones import ROOT, call, cloned


@pytest.mark.slow
def test_an_unknown_metric_is_told_before_the_first_trial(tmp_path):
    folder = cloned(ROOT, tmp_path / "clone")
    call(folder, "git", "checkout", "-q", "-B", "main")
    call(folder, "git", "add", "-A")
    call(folder, "git", "-c", "user.name=t", "-c", "user.email=t@e.org", "commit", "-q", "--allow-empty", "-m", "as is")
    over = ["--over", "train.epochs=[1, 2]", "--trials", "2", "--ref", "main"]
    done = call(folder, sys.executable, "-m", "flows.sweep", "--pipeline", "digits", "--max", "acc", *over, status=2)
    said = "sweep: metric is 'acc', which digits does not measure in validation: it has accuracy, loss"
    assert done.stderr.splitlines()[-1] == said
    assert "Traceback" not in done.stderr
    assert not list((folder / ".tapeline/sweeps/digits").glob("*.log")), "no trial was started"
    assert not list((folder / ".tapeline/worktrees").glob("*/"))
