"""Workloads that only read: shuffled batches of images from memory or from disk, without a model."""

import math
from pathlib import Path
from typing import Any

from benchmarks.images import EVERY, images
from benchmarks.peers import ceiling, engine, tfds_pipeline, torch_loader
from benchmarks.workload import OWN_RECIPES, Recipe, Workload


def reading(
    name: str,
    title: str,
    *,
    examples: int,
    shape: tuple[int, int, int],
    batch: int,
    in_ram: bool,
    faster_than_tfds: float,
    crop: int = 0,
    encoding: str = "png",
    tolerance: float = 1e-4,
) -> Workload:
    """Return a workload whose step is the mean brightness of a batch, in every eighth row and column.

    crop: size of a random crop that may be flipped, 0 for the stored image. encoding: of the files that TFDS reads.
    """
    params: dict[str, Any] = {"crop": crop, "every": EVERY}
    place = "ram" if in_ram else "stream"
    recipe = Recipe(path=OWN_RECIPES / "reading.py", params=params, train={"batch_size": batch, "data": place})
    make = images(examples, shape, grain=4 if encoding == "jpeg" else 1)

    def prepare(folder: Path) -> None:
        tfds_pipeline.write(folder / "tfds", make(), encoding=encoding)

    return Workload(
        name=name,
        title=title,
        recipe=recipe,
        columns=make,
        prepare=prepare,
        contenders=[
            engine.contender(recipe, place),
            tfds_pipeline.contender(cached=in_ram, crop=crop),
            *torch_loader.contenders(in_ram=in_ram, crop=crop),
            ceiling.copy(batch * math.prod((crop, crop, shape[2]) if crop else shape)),
        ],
        steps=examples // batch,  # an epoch: all see the same examples, each in its own order
        tolerance=tolerance,
        targets={tfds_pipeline.FAMILY: faster_than_tfds, torch_loader.FAMILY: 2},
    )
