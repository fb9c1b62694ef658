"""A short training of each pipeline gives the hash that every CPU gave, on whatever CPU this runs.

The hashes of `trainings.json` are of an AMD Zen 4 with AVX-512. All were the same emulated as an Intel Haswell, as an AMD
of Zen 2, and as a CPU with all younger extensions of AVX2. `python -m tests.portable.trainings` prints them.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tapeline.runtime.environment import has_portable_bits

pytestmark = pytest.mark.skipif(not has_portable_bits(), reason="this CPU is not an x86-64 with AVX2 and FMA")
KNOWN = json.loads(Path(__file__).with_name("trainings.json").read_text())
APART = {name for name in KNOWN if " in " in name}
FAST = ("linear-regression", "digits")
"""One in graph mode and one under XLA are tried in each run of the tests; the rest is slow."""


@pytest.mark.in_ci()
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in sorted(KNOWN.keys() - APART)],
)
def test_a_short_training_has_the_hash_of_every_cpu(tf, name):
    from tests.portable import trainings

    assert dict(trainings.hashes([name])) == {name: KNOWN[name]}


@pytest.mark.in_ci(4)
@pytest.mark.slow
@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("name", sorted(APART))
def test_a_short_training_with_other_threads_has_the_hash_of_every_cpu(root, name, cores):
    if cores > len(os.sched_getaffinity(0)):
        pytest.skip(f"this process has not {cores} cores")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(root / "src"), str(root)))}
    ran = subprocess.run(
        [sys.executable, "-m", "tests.portable.trainings", name],
        env=env,
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores]),
    )
    assert ran.stdout.split() == [*name.split(), KNOWN[name]]


def test_no_pipeline_is_left_out(tf):
    from tests.portable import trainings

    assert set(KNOWN) == {*trainings.names(), *trainings.APART}
