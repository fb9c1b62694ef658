"""Every pipeline of the root and the gallery that needs no network, run with forks and without: the same bytes.

TAPELINE_PIPELINES="linear-regression digits-sam" pytest -m long tests/e2e/test_both_ways.py     # these alone
"""

import os
import sys

import pytest
from clones import ROOT, call, cloned, sums

ONLY = os.environ.get("TAPELINE_PIPELINES", "").split()


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(7200)
def test_forks_change_no_byte(tmp_path, monkeypatch):
    found = {}
    for fork in ("1", "0"):
        monkeypatch.setenv("TAPELINE_FORK", fork)
        clone = cloned(ROOT, tmp_path / fork / "tapeline")
        for project in (clone, clone / "gallery"):
            targets = call(project, sys.executable, "-m", "tapeline", "list", "--offline", "--targets").stdout.split()
            for pipeline in (target.removeprefix("export@") for target in targets):
                if not ONLY or pipeline in ONLY:
                    call(project, sys.executable, "-m", "tapeline", "run", "--pipeline", pipeline, timeout=2400)
                    assert (project / "models" / pipeline / "model.json").exists()
            found[fork, project.name] = (project / "dvc.lock").read_text(), sums(project)
    for name in ("tapeline", "gallery"):
        (one, its), (other, others) = found["1", name], found["0", name]
        assert one == other
        assert its == others
