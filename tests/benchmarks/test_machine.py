"""`--caps` holds for all that computes."""

import subprocess
import sys

import pytest

from benchmarks.process import Process

PRODUCT = """
import hashlib
from benchmarks import machine
from tapeline.runtime import caps

if {capped}:
    machine.cap("avx2")
caps.apply()
if {capped}:
    caps.lift()  # as native bits do

import tensorflow as tf

a, b = (tf.random.stateless_normal(shape, [1, 2]) for shape in ([128, 512], [512, 256]))
print(hashlib.sha256(tf.function(lambda a, b: a @ b, jit_compile=True)(a, b).numpy().tobytes()).hexdigest())
"""


@pytest.mark.long
def test_a_product_of_xla_is_capped_even_with_native_bits():
    """YNNPACK has kernels of its own for each CPU and knows no cap: XLA may not give it a product, or the bits differ."""
    found = []
    for capped in (True, False):
        command = [sys.executable, "-c", PRODUCT.format(capped=capped)]
        run = subprocess.run(
            command, env=Process.environment(), capture_output=True, text=True, timeout=600, check=True
        )
        found.append(run.stdout)
    assert found[0] == found[1] != ""
