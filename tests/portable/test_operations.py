"""Each operation gives the hash that every CPU gave, on whatever CPU this runs.

The hashes of `operations.json` were the same on AMD Zen 4 with AVX-512 and 1 and 2 cores, and emulated as an Intel Haswell
and as an AMD Zen 2, whose approximate instructions are others. `python -m tests.portable.operations` prints them.
"""

import json
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
    assert arithmetic.fix(tf), "TensorFlow computes with this CPU's own caches"


@pytest.mark.parametrize("library", [Path("/nowhere/libtensorflow_cc.so.2"), Path(sys.executable).resolve()])
def test_a_library_without_eigen_s_sizes_is_told_from_one_that_has_them(library):
    assert not arithmetic._fix_caches(library)
