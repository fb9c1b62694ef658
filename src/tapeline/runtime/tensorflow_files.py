"""What TensorFlow writes: its folders have modes of their own, and its errors name a disk's fault in their text alone.

with tensorflow_files.disk_errors():   # raises `OSError` for a full disk, as Python's own functions do
    tf.saved_model.save(module, folder)
tensorflow_files.share(folder)
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tensorflow as tf

from tapeline.runtime import files


@contextmanager
def disk_errors() -> Iterator[None]:
    """Raise `OSError` in place of a TensorFlow error that says one of `files.DISK_ERRORS`, with the file it names."""
    try:
        yield
    except tf.errors.OpError as error:
        for number in files.DISK_ERRORS:
            said = os.strerror(number)
            if said in error.message:
                named = re.search(rf"(?:^|}}}} )([^;{{}}\n]+); {re.escape(said)}", error.message, re.MULTILINE)
                raise OSError(number, said, *(named.groups() if named else ())) from None
        raise


def share(folder: Path) -> None:
    """Give the folders below one that Python has made its mode: TensorFlow's have 0755 at most, whatever the umask.

    In a clone that a group shares, the others could not remove what is in them. Files follow the umask.
    """
    mode = stat.S_IMODE(folder.stat().st_mode)
    for path in folder.rglob("*"):
        about = path.lstat()
        if stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid() and stat.S_IMODE(about.st_mode) != mode:
            path.chmod(mode)
