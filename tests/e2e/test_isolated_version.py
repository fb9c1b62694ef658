"""An isolated run of the real pipeline that is registered: GTO's tag is on the run's commit, the checkout stays as it was."""

import sys

import pytest
from clones import BIN, ROOT, call, cloned


@pytest.mark.slow
def test_a_run_becomes_a_version(tmp_path):
    folder = cloned(ROOT, tmp_path / "clone")
    call(folder, "git", "checkout", "-q", "-B", "main")
    call(folder, "git", "config", "user.name", "t")
    call(folder, "git", "config", "user.email", "t@example.org")
    call(folder, "git", "add", "-A")
    call(folder, "git", "commit", "-q", "--allow-empty", "-m", "as it is")
    (folder / "README.md").write_text("half an edit")
    before = call(folder, "git", "status", "--porcelain").stdout
    flow = [sys.executable, "-m", "flows.training", "--pipeline", "linear-regression", "--isolated", "--register"]
    done = call(folder, *flow, "--set", "train.epochs=150", timeout=600)
    [branch] = call(folder, "git", "branch", "--list", "runs/*", "--format=%(refname:short)").stdout.splitlines()
    tag = "linear-regression@v1.0.0"
    assert f"version {tag}" in done.stdout
    commits = [call(folder, "git", "rev-parse", f"{name}^{{commit}}").stdout for name in (tag, branch)]
    assert commits[0] == commits[1]
    assert call(folder, "git", "status", "--porcelain").stdout == before
    assert call(folder, "git", "branch", "--show-current").stdout.strip() == "main"
    assert "linear-regression" in call(folder, BIN / "gto", "show").stdout
