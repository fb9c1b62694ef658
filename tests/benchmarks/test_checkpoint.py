"""What a checkpoint costs is measured with the engine as it is."""

import json
import subprocess
import sys

import pytest

from benchmarks.process import Process
from benchmarks.workload import ROOT


@pytest.mark.slow
def test_a_workload_is_measured_with_checkpoints_and_without(tmp_path):
    command = [sys.executable, "-m", "benchmarks.checkpoint", "--only", "mlp graph", "--seconds", "0.2"]
    subprocess.run(
        [*command, "--repeats", "1", "--out", str(tmp_path)],
        cwd=ROOT,
        env=Process.environment(),
        timeout=280,
        check=True,
    )
    records = json.loads((tmp_path / "checkpoint.json").read_text())["records"]
    assert list(records) == ["mlp graph"] and len(records["mlp graph"]["pairs"]) == 1
