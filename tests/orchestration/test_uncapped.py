"""Flows in a process that no command of Tapeline has capped, as a worker's."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from clones import ROOT

from tapeline.runtime import caps

NAMES = (*caps.CAPS, caps.NUMPY, caps.XLA_FLAGS)
PROGRAM = """
import importlib, json, os, sys

class Watch:
    def find_spec(name, path=None, target=None):
        if name == "numpy":
            seen.append("OPENBLAS_CORETYPE" in os.environ)

seen = []
sys.meta_path.insert(0, Watch)
importlib.import_module(sys.argv[1])
print(json.dumps({"environment": dict(os.environ), "capped": seen}))
"""
NURSERY = """
from pathlib import Path
from tapeline.orchestration.stages import forking
from tapeline.orchestration.stages.child import environment

forking.prepare(environment())
while not (given := Path(f"/proc/{forking._nursery.pid}/environ").read_text()):  # it is just becoming a program
    pass
print(given)
"""


def run(program: str, *arguments: str, **more: str) -> "subprocess.CompletedProcess[str]":
    bare = {name: value for name, value in os.environ.items() if name not in (*NAMES, caps.NUMPY_MORE)}
    return subprocess.run(
        [sys.executable, "-P", "-c", program, *arguments],
        env={**bare, "PYTHONPATH": str(ROOT / "src"), **more},
        capture_output=True,
        text=True,
        check=True,
    )


@pytest.mark.parametrize(
    "module",
    [
        *(f"tapeline.cli.flows.{name}" for name in ("training", "sweep", "promotion", "inference")),
        "tapeline.orchestration.serve",
        pytest.param("tapeline.orchestration.flows.promotion", marks=pytest.mark.slow),
        pytest.param("tapeline.orchestration.flows.sweep", marks=pytest.mark.slow),
    ],
)
def test_what_a_flow_starts_is_capped(module):
    """Stages were refused on a CPU with AVX-512, or had other bits; so had the answers in a gate's probe."""
    said = json.loads(run(PROGRAM, module).stdout)
    assert all(said["environment"].get(name) for name in NAMES)
    assert all(said["capped"]), "NumPy was imported before"


@pytest.mark.skipif(not Path("/proc").exists(), reason="nothing is forked here")
def test_the_process_that_stages_are_forks_of_is_capped():
    given = dict(line.split("=", 1) for line in run(NURSERY).stdout.split("\0") if "=" in line)
    assert {name: given.get(name) for name in caps.CAPS} == caps.CAPS


def test_what_is_ignored_is_said_once():
    said = run("import tapeline.orchestration.serve", OPENBLAS_NUM_THREADS="2").stderr
    assert (
        said == "note: NumPy, OpenBLAS and Arrow compute the same on every CPU, so OPENBLAS_NUM_THREADS=2 is ignored\n"
    )
