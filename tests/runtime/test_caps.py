"""Libraries are told of one instruction set, unless the user has told them of another."""

import os
import subprocess
import sys

import pytest

from tapeline.runtime import caps


@pytest.fixture
def bare(monkeypatch):
    """No variable is set; `apply` may set some."""
    for name in (*caps.CAPS, caps.NUMPY, caps.NUMPY_MORE, caps.XLA_FLAGS):
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


def test_what_a_user_has_set_does_not_decide_portable_bits(bare, monkeypatch):
    """`TF_ENABLE_ONEDNN_OPTS=1` gave other weights, which were recorded as portable; so did the automatic compilation."""
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "1")
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_max_isa=AVX512 --xla_dump_to=here")
    monkeypatch.setenv("TF_XLA_FLAGS", "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit --tf_xla_print_cluster_outputs")
    caps.apply()
    assert caps.hold() == [
        "TF_ENABLE_ONEDNN_OPTS=1",
        "XLA_FLAGS=--xla_cpu_max_isa=AVX512",
        "TF_XLA_FLAGS=--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit",
    ]
    assert os.environ["TF_ENABLE_ONEDNN_OPTS"] == "0"
    assert os.environ["XLA_FLAGS"].split()[0] == "--xla_dump_to=here"
    assert set(os.environ["XLA_FLAGS"].split()[1:]) == set(caps.XLA_CAPS)
    assert os.environ["TF_XLA_FLAGS"] == "--tf_xla_print_cluster_outputs"
    assert caps.hold() == [], "once"


def test_what_a_user_has_set_does_not_decide_what_numpy_computes(bare, monkeypatch):
    """The metrics of `evaluate` differed with two threads of OpenBLAS, and nothing said so."""
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    monkeypatch.setenv("NPY_DISABLE_CPU_FEATURES", "")
    monkeypatch.setenv("NPY_ENABLE_CPU_FEATURES", "AVX512F")
    assert caps.apply() == [
        "OPENBLAS_NUM_THREADS=2",
        "NPY_DISABLE_CPU_FEATURES=",
        "NPY_ENABLE_CPU_FEATURES=AVX512F",
    ]
    assert os.environ["OPENBLAS_NUM_THREADS"] == "1" and "X86_V4" in os.environ["NPY_DISABLE_CPU_FEATURES"]
    assert caps.NUMPY_MORE not in os.environ, "NumPy would not start with both"
    assert caps.apply() == []


@pytest.mark.parametrize("flag", ["--xla_cpu_enable_fast_math=true", "--xla_backend_optimization_level=0"])
def test_flags_of_xla_that_change_arithmetic_are_held_off_portable_bits(bare, monkeypatch, flag):
    monkeypatch.setenv("XLA_FLAGS", f"--xla_gpu_cuda_data_dir=/opt/cuda {flag}")
    caps.apply()
    assert caps.hold() == [f"XLA_FLAGS={flag}"]
    assert os.environ["XLA_FLAGS"].split() == ["--xla_gpu_cuda_data_dir=/opt/cuda", *caps.XLA_CAPS]
    assert caps.hold() == []


def test_nothing_of_ours_is_called_the_user_s(bare, monkeypatch):
    monkeypatch.delenv(caps.JIT_FLAGS, raising=False)
    caps.apply()
    before = dict(os.environ)
    assert caps.hold() == [] and dict(os.environ) == before


def test_numpy_takes_the_cap_without_a_word(bare):
    """In a process of its own, because NumPy is told when it is imported."""
    program = (
        "from tapeline.runtime import caps; caps.apply(); import numpy;"
        "from numpy._core._multiarray_umath import __cpu_features__ as found;"
        "print([name for name in ('X86_V4', 'AVX512_SKX', 'AVX512_ICL') if found.get(name)])"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n" and not done.stderr
