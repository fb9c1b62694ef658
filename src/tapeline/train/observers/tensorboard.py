"""A hook that writes scalars and pictures for TensorBoard. Viewing them needs the extra `tensorboard`."""

import errno
import os
from collections.abc import Mapping
from pathlib import Path

import tensorflow as tf

from tapeline.runtime import files
from tapeline.runtime.records import LoopEnded, Record, Validated


class TensorBoard:
    """Writes each loop's running means to `train/` and each validation to `val/`.

    Raises `OSError` if the disk is full, because TensorFlow's writer then drops data silently.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in ("train", "val"):  # TensorFlow's own would let no group write, whatever the umask
            files.make_folder(folder / name)
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
            self._flush()

    def close(self) -> None:
        """Write what is buffered."""
        self._flush()
        self._train.close()
        self._val.close()

    def _flush(self) -> None:
        self._train.flush()
        self._val.flush()
        if os.statvfs(self._folder).f_bavail == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._folder))

    def _scalars(self, writer: tf.summary.SummaryWriter, metrics: Mapping[str, float], step: int) -> None:
        with writer.as_default(step=step):
            for name, value in metrics.items():
                tf.summary.scalar(name, value)
