"""MNIST-size images that are read from disk each time, as if they did not fit in memory."""

from benchmarks.reading import reading

WORKLOAD = reading(
    "reading_mnist_disk",
    "reading 28×28, from disk",
    examples=51_200,
    shape=(28, 28, 1),
    batch=128,
    in_ram=False,
    faster_than_tfds=10,
)
