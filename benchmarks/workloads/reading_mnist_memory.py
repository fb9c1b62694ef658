"""MNIST-size images that fit in memory: reading an epoch's data costs more than a small model's arithmetic."""

from benchmarks.reading import reading

WORKLOAD = reading(
    "reading_mnist_memory",
    "reading 28×28, from memory",
    examples=51_200,
    shape=(28, 28, 1),
    batch=128,
    in_ram=True,
    faster_than_tfds=5,
)
