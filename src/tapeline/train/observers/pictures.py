"""A hook that saves a recipe's pictures at each validation as PNG files, to look at during training."""

from pathlib import Path

import tensorflow as tf

from tapeline.runtime import files
from tapeline.runtime.records import Record, Validated


class Pictures:
    """Writes `<folder>/<name>-<step>.png`; a later run overwrites the files of the same steps."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, record: Record) -> None:
        """Take one record."""
        if isinstance(record, Validated):
            for name, picture in record.pictures.items():
                png = bytes(tf.io.encode_png(picture).numpy())
                files.write_bytes(self._folder / f"{name}-{record.step:08d}.png", png)
