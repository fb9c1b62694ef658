"""What a disk refuses, what a group shares, and what is in the place of a file and is none."""

import os
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


@contextmanager
def in_a_group(folder: Path) -> Iterator[None]:
    """What is made in a new folder, and in those below it, is for its whole group to write."""
    before = os.umask(0o002)
    try:
        folder.mkdir()
        folder.chmod(0o2775)
        yield
    finally:
        os.umask(before)


def folders_of_one(folder: Path) -> list[Path]:
    """Return the folders from here on that the group cannot write, or that pass it on to no other."""
    every = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
    return [path for path in every if path.stat().st_mode & 0o7777 != 0o2775]


def unix_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(str(path))


def link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")
