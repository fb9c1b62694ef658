"""One instruction set for all that computes, AVX2's, so that a result does not depend on the CPU that was at hand.

The libraries read these variables when they are first used, NumPy when it is imported: `apply` comes before that, in
each process of Tapeline, and what it starts inherits them. What a user has set for TensorFlow and XLA stays as it is
there, for native bits; for portable ones `hold` comes before TensorFlow's first operation.
"""

import os
import sys

from tapeline.runtime import streams

XLA_FLAGS = "XLA_FLAGS"
CAPS = {
    # TensorFlow gives operations to oneDNN where a CPU has AVX-512; Eigen's are the same everywhere.
    "TF_ENABLE_ONEDNN_OPTS": "0",
    # Eigen's contractions call oneDNN's matrix product.
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "OPENBLAS_CORETYPE": "Haswell",
    "OPENBLAS_NUM_THREADS": "1",  # NumPy's products, which stages compute few of
    "ARROW_USER_SIMD_LEVEL": "AVX2",
}
"""Variable → value, for all libraries but NumPy and XLA."""
NUMPY, NUMPY_MORE = "NPY_DISABLE_CPU_FEATURES", "NPY_ENABLE_CPU_FEATURES"
"""The second is what a user may have set; NumPy takes only one of the two."""
_OF_NUMPY = "X86_V4 AVX512_ICL AVX512_SPR"
_OF_OLD_NUMPY = "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR"
"""What NumPy chooses kernels by, from 2.4 on and before; it warns of names that it does not know."""
XLA_CAPS = (
    "--xla_cpu_max_isa=AVX2",
    # Without fusions for YNNPACK, which has kernels of its own for each CPU and knows no cap.
    "--xla_cpu_experimental_ynn_fusion_type=",
    # Without XLA's own functions that use what each CPU approximates in another way.
    "--xla_backend_extra_options=xla_cpu_disable_platform_dependent_math",
)
TENSORFLOW = ("TF_ENABLE_ONEDNN_OPTS", "ONEDNN_MAX_CPU_ISA")
"""The variables that cap TensorFlow alone: TensorFlow reads them with its first operation."""
XLA_HARMLESS = ("--xla_dump", "--xla_gpu", "--xla_force_host_platform_device_count")
"""How the flags of XLA begin that do not change what a CPU computes; any other may, such as that of fast arithmetic."""
JIT_FLAGS = "TF_XLA_FLAGS"
JIT = ("--tf_xla_auto_jit", "--tf_xla_cpu_global_jit")
"""TensorFlow's own compilation of what no recipe asked to compile, which has other bits."""


def apply() -> list[str]:
    """Cap what is not capped yet, and return what is ignored: what the user has set but for TensorFlow and XLA.

    `evaluate` computes with NumPy: metrics, and so the best step, would depend on it.
    """
    ignored, ours = [], dict(CAPS)
    if os.environ.get(NUMPY) not in (_OF_NUMPY, _OF_OLD_NUMPY):
        from importlib import metadata  # here: it takes longer than the rest of what a command begins with

        version = tuple(int(number) for number in metadata.version("numpy").split(".")[:2])
        ours[NUMPY] = _OF_NUMPY if version >= (2, 4) else _OF_OLD_NUMPY
    for name, value in ours.items():
        given = os.environ.setdefault(name, value)
        if given != value and name not in TENSORFLOW:
            ignored.append(f"{name}={given}")
            os.environ[name] = value
    if NUMPY_MORE in os.environ:
        ignored.append(f"{NUMPY_MORE}={os.environ.pop(NUMPY_MORE)}")
    flags = os.environ.get(XLA_FLAGS, "").split()
    missing = [flag for flag in XLA_CAPS if not any(one.startswith(flag.partition("=")[0]) for one in flags)]
    if missing:
        os.environ[XLA_FLAGS] = " ".join([*flags, *missing])
    return ignored


def hold() -> list[str]:
    """Cap TensorFlow and XLA whatever the user has set, and return what of that is ignored. Call it after `apply`."""
    ignored = []
    for name in TENSORFLOW:
        if os.environ[name] != CAPS[name]:
            ignored.append(f"{name}={os.environ[name]}")
            os.environ[name] = CAPS[name]
    for variable, ours, is_left in (
        (XLA_FLAGS, XLA_CAPS, lambda flag: flag not in XLA_CAPS and not flag.startswith(XLA_HARMLESS)),
        (JIT_FLAGS, (), lambda flag: flag.startswith(JIT)),
    ):
        given = os.environ.get(variable, "").split()
        if left := [flag for flag in given if is_left(flag)]:
            ignored.append(f"{variable}={' '.join(left)}")
            kept = [flag for flag in given if flag not in left]
            os.environ[variable] = " ".join([*kept, *(flag for flag in ours if flag not in kept)])
    return ignored


def note(ignored: list[str], *, why: str) -> None:
    """Say on standard error what is ignored."""
    for setting in ignored:
        streams.say(f"note: {why}, so {setting} is ignored", sys.stderr)


def lift() -> None:
    """Let TensorFlow use all that this CPU has, but for what the user has capped in another way."""
    for name in TENSORFLOW:
        if os.environ.get(name) == CAPS[name]:
            del os.environ[name]
    os.environ[XLA_FLAGS] = " ".join(flag for flag in os.environ.get(XLA_FLAGS, "").split() if flag not in XLA_CAPS)
