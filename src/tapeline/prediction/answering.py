"""A standalone program: a SavedModel's answers to batches, which come and go in shared memory.

    python answering.py FOLDER CHANNEL...   # of the SavedModel; channel: descriptors `requests,replies,given,found`

Says on the first channel that the model is loaded, then answers each channel in a thread of its own until nobody asks.
A message is the length of a JSON object and that object; arrays are in the memory, where the message describes them.
The memory for answers grows when this program asks for it by `{"need": bytes}`. `{"error": ...}` says why there is no
answer. Run in `runtime/sandbox.py`: no Tapeline code runs here but programs that are such themselves.
"""

import json
import math
import mmap
import os
import runpy
import struct
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

Arrays = dict[str, "np.ndarray[Any, Any]"]
Entries = dict[str, dict[str, Any]]

LENGTH = struct.Struct("<Q")
LONGEST = 2**24
"""Maximum number of bytes of a message."""
ALIGNED = 64
"""Arrays begin at multiples of so many bytes."""
KINDS = "biufc"
DEFAULT = "serving_default"


class Closed(Exception):
    """The other end is gone, or says what no message is."""


class Channel:
    """One end of two pipes and two pieces of shared memory."""

    def __init__(self, reads: int, writes: int, given: int, found: int) -> None:
        self._reads, self._writes = reads, writes
        self.given, self.found = Memory(given), Memory(found)

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message. Raises `Closed`."""
        text = json.dumps(message).encode()
        left = memoryview(LENGTH.pack(len(text)) + text)
        try:
            while left:
                left = left[os.write(self._writes, left) :]
        except BrokenPipeError:
            raise Closed from None

    def receive(self) -> dict[str, Any]:
        """Wait for a message. Raises `Closed`."""
        (length,) = LENGTH.unpack(self._read(LENGTH.size))
        if length > LONGEST:
            raise Closed
        try:
            message = json.loads(self._read(length))
        except (ValueError, RecursionError):
            raise Closed from None
        if not isinstance(message, dict):
            raise Closed
        return message

    def _read(self, count: int) -> bytes:
        parts = []
        while count:
            part = os.read(self._reads, min(count, 2**16))
            if not part:
                raise Closed
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


class Memory:
    """Shared memory that grows; it is mapped again when it has."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.bytes: Any = np.empty(0, np.uint8)

    def grow(self, size: int) -> None:
        """Have room for `size` bytes and some more."""
        if size > len(self.bytes):
            os.ftruncate(self._descriptor, size + size // 4 + mmap.PAGESIZE)
            self.remap()

    def remap(self) -> None:
        """See what the other end has made of it."""
        if size := os.fstat(self._descriptor).st_size:
            self.bytes = np.frombuffer(mmap.mmap(self._descriptor, size), np.uint8)


def layout(arrays: Mapping[str, Any]) -> tuple[Entries, list[tuple[int, Any]], int]:
    """Return descriptions of arrays, the parts of them with their places, and the bytes of all.

    arrays: numbers; or texts, as bytes or `str` in an array of objects or of fixed length. Texts are their lengths, and
    then themselves.
    """
    entries: Entries = {}
    parts: list[tuple[int, Any]] = []
    size = 0
    for name, values in arrays.items():
        array = np.asarray(values)
        entry: dict[str, Any] = {"shape": list(array.shape), "at": size}
        if array.dtype.kind in "OSU":
            texts = [one.encode() if isinstance(one, str) else one for one in array.ravel().tolist()]
            lengths = np.array([len(one) for one in texts], "<i8")
            joined = np.frombuffer(b"".join(texts), np.uint8)
            entry["text"] = len(joined)
            parts += [(size, lengths), (size + lengths.nbytes, joined)]
            size += lengths.nbytes + len(joined)
        else:
            entry["dtype"] = array.dtype.newbyteorder("<").str
            parts.append((size, array))
            size += array.nbytes
        entries[name] = entry
        size += -size % ALIGNED
    return entries, parts, size


def write(memory: Any, parts: list[tuple[int, Any]]) -> None:
    """Write parts to their places, in little-endian order."""
    for at, array in parts:
        if array.size:
            place = memory[at : at + array.nbytes].view(array.dtype.newbyteorder("<"))
            np.copyto(place.reshape(array.shape), array)


def read(memory: Any, entries: Any, *, copied: bool) -> Arrays:
    """Return the arrays that are described. Raises `ValueError` for a description of anything else.

    copied: what the other end does to the memory afterwards does not matter.
    """
    try:
        return {str(name): _array(memory, entry, copied=copied) for name, entry in entries.items()}
    except (AttributeError, KeyError, TypeError, OverflowError, MemoryError, SyntaxError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None


def _array(memory: Any, entry: Mapping[str, Any], *, copied: bool) -> Any:
    shape, at = tuple(entry["shape"]), entry["at"]
    if not all(type(size) is int and size >= 0 for size in (*shape, at)):
        raise ValueError(f"a shape of {shape} at {at}")
    if "text" in entry:
        return _texts(memory, at, math.prod(shape), entry["text"]).reshape(shape)
    dtype = np.dtype(entry["dtype"])
    end = at + math.prod(shape) * dtype.itemsize
    if dtype.kind not in KINDS or end > len(memory):
        raise ValueError(f"{dtype} of shape {shape} at {at}")
    values = memory[at:end].view(dtype).reshape(shape)
    return np.array(values) if copied else values


def _texts(memory: Any, at: int, count: int, size: int) -> Any:
    if not (type(size) is int and size >= 0 and at + 8 * count + size <= len(memory)):
        raise ValueError(f"{count} texts of {size} bytes at {at}")
    lengths = np.array(memory[at : at + 8 * count].view("<i8"))
    if (lengths < 0).any() or (lengths > size).any() or lengths.sum() != size:
        raise ValueError("texts whose lengths differ from those announced")
    joined, texts, start = memory[at + 8 * count : at + 8 * count + size].tobytes(), np.empty(count, object), 0
    for number, length in enumerate(lengths.tolist()):
        texts[number] = joined[start : start + length]
        start += length
    return texts


def main() -> None:
    """Answer until nobody asks."""
    runtime = Path(__file__).parents[1] / "runtime"
    standalone = SimpleNamespace(**runpy.run_path(str(runtime / "saved_models" / "standalone.py")))
    channels = [Channel(*map(int, text.split(","))) for text in sys.argv[2:]]
    tf = standalone.tensorflow()
    sandbox = {"sandbox": os.environ["TAPELINE_SANDBOX"]}
    try:
        model = standalone.opened(tf, sys.argv[1])
        function = model.signatures[DEFAULT]
    except standalone.Refused as refused:
        channels[0].send({"refused": str(refused), **sandbox})
        return
    except Exception as error:
        channels[0].send({"error": str(error) or type(error).__name__, **sandbox})
        return
    outputs = {name: spec.dtype.name for name, spec in function.structured_outputs.items()}
    channels[0].send({"outputs": outputs, **sandbox})
    threads = [threading.Thread(target=answer_all, args=(tf, function, channel)) for channel in channels]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def answer_all(tf: Any, function: Any, channel: Channel) -> None:
    """Answer one channel until nobody asks."""
    try:
        while True:
            request = channel.receive()
            try:
                found = answered(tf, function, channel, request)
            except Exception as error:  # the model's own, whatever it is
                channel.send({"error": str(error) or type(error).__name__})
                continue
            entries, parts, size = layout(found)
            if size > len(channel.found.bytes):
                channel.send({"need": size})
                channel.receive()
                channel.found.remap()
            write(channel.found.bytes, parts)
            channel.send({"arrays": entries})
    except Closed:
        return


def answered(tf: Any, function: Any, channel: Channel, request: Mapping[str, Any]) -> Arrays:
    """Return the outputs that are asked for."""
    channel.given.remap()
    given = read(channel.given.bytes, request["arrays"], copied=False)
    found = function(**{name: tf.constant(values) for name, values in given.items()})
    return {name: _plain(value.numpy()) for name, value in sorted(found.items()) if name in request["wanted"]}


def _plain(values: Any) -> Any:
    """Return values of a type that NumPy knows by itself: of bfloat16 and its like, float32 has every value."""
    known = values.dtype == object or values.dtype.kind in "biufcSU"
    return values if known else values.astype(np.float32)


if __name__ == "__main__":
    main()
