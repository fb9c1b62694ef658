"""Two rebuilds in surroundings that differ in everything that must not matter: the same `dvc.lock`, byte for byte.

TAPELINE_PAIRS=5 pytest -s -m slow tests/e2e/test_repeats.py
TAPELINE_PAIR_OF=gallery pytest -s -m slow tests/e2e/test_repeats.py    # all that needs no network
"""

import os
import subprocess
import sys
from contextlib import contextmanager

import pytest
from clones import BIN, ROOT, call, cloned, environment, sums

PAIRS = int(os.environ.get("TAPELINE_PAIRS", "1"))
PROJECT = os.environ.get("TAPELINE_PAIR_OF", ".")

PLACES = [
    {"PYTHONHASHSEED": "0", "TZ": "UTC", "LANG": "C", "LC_ALL": "C"},
    {"PYTHONHASHSEED": "123", "TZ": "Asia/Kathmandu", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"},
]


@contextmanager
def load(processes):
    """Keep as many processors busy."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("pair", range(PAIRS))
def test_nothing_around_a_run_shows_in_it(tmp_path, pair):
    found = []
    for place, (settings, folder, busy) in enumerate(zip(PLACES, ("one", "zwei mit ö"), (0, 1), strict=True)):
        clone = cloned(ROOT, tmp_path / folder / "tapeline")
        home = tmp_path / f"home-{place}"
        home.mkdir()
        seeds = {"PYTHONHASHSEED": str(int(settings["PYTHONHASHSEED"]) + pair)}
        project = clone / PROJECT
        targets = call(project, sys.executable, "-m", "tapeline", "list", "--offline", "--targets").stdout.split()
        with load(busy):
            answer = subprocess.run(
                [BIN / "dvc", "repro", "--force", *targets],
                cwd=project,
                env={**environment(), **settings, **seeds, "HOME": str(home)},
                capture_output=True,
                text=True,
                check=False,
            )
        assert answer.returncode == 0, answer.stdout + answer.stderr
        found.append(((project / "dvc.lock").read_bytes(), sums(project)))
    assert found[0][1] == found[1][1]
    assert found[0][0] == found[1][0]
