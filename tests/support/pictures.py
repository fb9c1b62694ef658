"""Image files to train on, and such as nothing may be trained on."""

import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image


def pets(folder: Path, each: int = 12) -> Path:
    """Write images of cats and dogs: so many of each to train on, and two of each to test with."""
    for split, count in (("train", each), ("test", 2)):
        for number in range(2 * count):
            place = folder / split / ("cat", "dog")[number % 2]
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.full((20, 30, 3), number, np.uint8)).save(place / f"{split}{number}.png")
    return folder


def deep_png(height: int, width: int) -> bytes:
    """Return an RGB PNG of 16 bits a channel, which Pillow reads and cannot write."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    rows = zlib.compress((b"\0" + bytes(range(6)) * width) * height)
    header = struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
