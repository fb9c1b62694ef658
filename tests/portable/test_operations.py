"""Each operation gives the hash that every CPU gave, on whatever CPU this runs.

The hashes of `operations.json` were the same on AMD Zen 4 with AVX-512 and 1 and 2 cores, and emulated as an Intel Haswell
and as an AMD Zen 2, whose approximate instructions are others. `python -m tests.portable.operations` prints them.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tapeline.runtime import arithmetic
from tapeline.runtime.environment import has_portable_bits

pytestmark = pytest.mark.skipif(not has_portable_bits(), reason="this CPU is not an x86-64 with AVX2 and FMA")
KNOWN = json.loads(Path(__file__).with_name("operations.json").read_text())


def differing(found):
    return {name: value for name, value in found if KNOWN.get(name) != value}


@pytest.mark.parametrize("mode", ["graph", pytest.param("xla", marks=pytest.mark.slow)])
def test_operations_have_the_hashes_of_every_cpu(tf, mode):
    from tests.portable import operations

    found = dict(operations.hashes([f"{mode} "]))
    assert len(found) > 200 and not differing(found.items()), "these operations differ on this machine"


OTHERWISE = {"lstm", "gru"}
"""Layers that Keras computes by other operations outside of a graph."""


def test_an_operation_by_itself_has_the_hash_of_its_graph(tf):
    """So what a recipe's `evaluate` computes has the same bits on every CPU, too."""
    from tests.portable import operations

    found = dict(operations.by_themselves())
    assert {name for name, value in found.items() if value != KNOWN[f"graph {name}"]} == OTHERWISE


def test_numpy_has_the_hashes_of_every_cpu(tf):
    from tests.portable import operations

    found = dict(operations.hashes(["numpy"]))
    assert len(found) > 30 and not differing(found.items())


def test_no_operation_is_left_out(tf):
    from tests.portable import operations

    modes = {name.split()[0] for name in KNOWN}
    assert modes >= {"graph", "xla"} and not set(operations.hashes(["nothing that is there"]))
    assert {name.removeprefix("graph ") for name in KNOWN if name.startswith("graph ")} == {
        name.removeprefix("xla ") for name in KNOWN if name.startswith("xla ")
    }


def test_the_caches_that_eigen_knows_are_ours(tf):
    from tapeline.runtime.tensorflow_private import make_devices

    assert arithmetic.fix(tf, make_devices), "TensorFlow computes with this CPU's own caches"


PROGRAM = """
import os, sys
from pathlib import Path
from tapeline.runtime import arithmetic, caps

cores = int(sys.argv[1])
os.sched_getaffinity = lambda process: set(range(cores))
caps.apply()
import tensorflow as tf
from tensorflow.python.framework import ops
from tapeline.runtime.tensorflow_private import make_devices

def threads():  # those of the pool have no name of their own
    return [task for task in Path("/proc/self/task").iterdir() if not (task / "comm").read_text().startswith("tf_")]

before, counted = len(threads()), ops.uid()
assert arithmetic.fix(tf, make_devices)
print("working", len(threads()) - before)
assert ops.uid() == counted + 1, "functions of a SavedModel are numbered by this count"
from tests.portable import operations

for name, value in operations.hashes(["graph matmul", "xla matmul", "graph conv.SAME", "graph cholesky", "graph lstm"]):
    print(name, value)
"""


@pytest.mark.slow
@pytest.mark.parametrize("cores", [1, 3, 8])
def test_as_many_threads_work_as_there_are_cores_on_the_same_parts(root, cores):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(root / "src"), str(root)))}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(cores)], env=env, capture_output=True, text=True, check=True, timeout=120
    )
    first, *found = (line.rsplit(maxsplit=1) for line in ran.stdout.splitlines())
    assert first == ["working", str(cores)]
    assert len(found) > 15 and not differing(found)


@pytest.mark.parametrize("library", [Path("/nowhere/libtensorflow_cc.so.2"), Path(sys.executable).resolve()])
def test_a_library_without_eigen_s_sizes_is_told_from_one_that_has_them(library):
    assert not arithmetic._fix_caches(library)
