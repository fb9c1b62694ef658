"""Photographs in memory, each cropped to 224×224 at a random position and flipped at random."""

from benchmarks.reading import reading

WORKLOAD = reading(
    "reading_photos_memory",
    "reading 224×224×3, crop and flip, from memory",
    examples=1_984,
    shape=(256, 256, 3),
    batch=64,
    crop=224,
    encoding="jpeg",
    tolerance=2e-2,
    in_ram=True,
    faster_than_tfds=2,
)
