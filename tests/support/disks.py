"""What a disk refuses, and what is in the place of a file and is none."""

import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """A disk that takes no larger file: what a write of more gets from the kernel is a real error."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def unix_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(str(path))


def link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")
