"""A hook that writes scalars and pictures for TensorBoard. Reading them needs the extra `tensorboard`."""

from collections.abc import Mapping
from pathlib import Path

import tensorflow as tf

from tapeline.train.records import LoopEnded, Record, Validated


class TensorBoard:
    """Writes each loop's running means below `train/` and each validation below `val/`."""

    def __init__(self, folder: Path) -> None:
        self._train = tf.summary.create_file_writer(str(folder / "train"))
        self._val = tf.summary.create_file_writer(str(folder / "val"))

    def __call__(self, record: Record) -> None:
        """Take one record."""
        if isinstance(record, LoopEnded):
            self._scalars(self._train, record.metrics, record.step)
        elif isinstance(record, Validated):
            self._scalars(self._val, record.metrics, record.step)
            with self._val.as_default(step=record.step):
                for name, picture in record.pictures.items():
                    tf.summary.image(name, picture[None])
            self._val.flush()

    def close(self) -> None:
        """Write what is buffered."""
        self._train.close()
        self._val.close()

    def _scalars(self, writer: tf.summary.SummaryWriter, metrics: Mapping[str, float], step: int) -> None:
        with writer.as_default(step=step):
            for name, value in metrics.items():
                tf.summary.scalar(name, value)
