"""TFDS and tf.data as their guides advise: cached in memory, or read from the files again; augmented after the cache.

The dataset on disk is TFDS's own: TFRecords of encoded images. A step takes the mean brightness of a batch in a
`tf.function`. https://www.tensorflow.org/datasets/performances, https://www.tensorflow.org/guide/data_performance
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.images import EVERY
from benchmarks.turn import Turn
from benchmarks.workload import Arrays, Contender, Inputs

FAMILY = "TFDS and tf.data"
BUFFER = 10_000
"""Size of the shuffle buffer if not all examples fit in memory."""


def write(folder: Path, columns: Arrays, *, encoding: str) -> None:
    """Write `image` and `label` as a TFDS dataset. encoding: of the images inside, png or jpeg."""
    import tensorflow as tf
    import tensorflow_datasets as tfds

    image = tfds.features.Image(shape=columns["image"].shape[1:], encoding_format=encoding)
    features = tfds.features.FeaturesDict({"image": image, "label": tfds.features.ClassLabel(num_classes=10)})
    tfds.dataset_builders.store_as_tfds_dataset(
        name="benchmark",
        version="1.0.0",
        data_dir=folder,
        split_datasets={"train": tf.data.Dataset.from_tensor_slices(dict(columns))},
        features=features,
        disable_shuffling=False,
    )


def contender(*, cached: bool, crop: int = 0) -> Contender:
    """Return the pipeline with a cache in memory, or without one. crop: size of the random crop, 0 for none."""

    def contend(inputs: Inputs, turn: Turn) -> None:
        import tensorflow as tf

        data = pipeline(inputs.folder / "tfds", inputs.batch, cached=cached, crop=crop)

        @tf.function
        def brightness(image: Any) -> Any:
            return tf.reduce_mean(image[:, ::EVERY, ::EVERY])

        total, steps = 0.0, 0
        for image, _ in data:
            total, steps = total + float(brightness(image)), steps + 1
            turn.stepped()
        turn.learned({"loss": total / steps})
        while True:
            for image, _ in data:
                brightness(image).numpy()
                turn.done(1)

    return Contender(family=FAMILY, setting="cached" if cached else "from the files", contend=contend)


def pipeline(folder: Path, batch: int, *, cached: bool, crop: int) -> Any:
    """Return one epoch of (images, labels), float32 from 0 to 1."""
    import tensorflow as tf
    import tensorflow_datasets as tfds

    auto = tf.data.AUTOTUNE
    builder = tfds.builder_from_directory(folder / "benchmark" / "1.0.0")
    read = tfds.ReadConfig(try_autocache=False)
    data = builder.as_dataset(split="train", shuffle_files=not cached, read_config=read)

    def scaled(example: Mapping[str, Any]) -> Any:
        return tf.cast(example["image"], tf.float32) / 255.0, example["label"]

    def augmented(image: Any, label: Any) -> Any:
        return tf.image.random_flip_left_right(tf.image.random_crop(image, (crop, crop, 3))), label

    data = data.map(scaled, num_parallel_calls=auto)
    data = data.cache().shuffle(builder.info.splits["train"].num_examples) if cached else data.shuffle(BUFFER)
    data = data.map(augmented, num_parallel_calls=auto) if crop else data
    return data.batch(batch, drop_remainder=True).prefetch(auto)
