"""Libraries are told of one instruction set, unless the user has told them of another."""

import os
import subprocess
import sys

import pytest

from tapeline.runtime import caps


@pytest.fixture
def bare(monkeypatch):
    """No variable is set; `apply` may set some."""
    for name in (*caps.CAPS, caps.NUMPY, caps.XLA_FLAGS):
        monkeypatch.setenv(name, "")  # restored afterwards
        monkeypatch.delenv(name)


def test_all_are_capped(bare):
    caps.apply()
    assert os.environ["ONEDNN_MAX_CPU_ISA"] == "AVX2" and os.environ["TF_ENABLE_ONEDNN_OPTS"] == "0"
    assert os.environ["XLA_FLAGS"].split() == list(caps.XLA_CAPS)
    once = dict(os.environ)
    caps.apply()
    assert dict(os.environ) == once


def test_what_a_user_has_set_stays(bare, monkeypatch):
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "SSE41")
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_max_isa=AVX --xla_dump_to=here")
    caps.apply()
    assert os.environ["ONEDNN_MAX_CPU_ISA"] == "SSE41"
    assert os.environ["XLA_FLAGS"].split() == ["--xla_cpu_max_isa=AVX", "--xla_dump_to=here", *caps.XLA_CAPS[1:]]
    caps.lift()
    assert os.environ["ONEDNN_MAX_CPU_ISA"] == "SSE41" and "TF_ENABLE_ONEDNN_OPTS" not in os.environ
    assert os.environ["XLA_FLAGS"].split() == ["--xla_cpu_max_isa=AVX", "--xla_dump_to=here"]


def test_numpy_takes_the_cap_without_a_word(bare):
    """In a process of its own, because NumPy is told when it is imported."""
    program = (
        "from tapeline.runtime import caps; caps.apply(); import numpy;"
        "from numpy._core._multiarray_umath import __cpu_features__ as found;"
        "print([name for name in ('X86_V4', 'AVX512_SKX', 'AVX512_ICL') if found.get(name)])"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n" and not done.stderr
