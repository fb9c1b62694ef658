"""Arrays in shared memory: they arrive as they were, and a description that lies is refused."""

import os

import numpy as np
import pytest

from tapeline.prediction.answering import Channel, Closed, layout, read, write


def sent(values):
    entries, parts, size = layout({"before": np.arange(3, dtype=np.uint8), "x": values})
    memory = np.full(size, 255, np.uint8)
    write(memory, parts)
    found = read(memory, entries, copied=True)
    assert found["before"].tolist() == [0, 1, 2]
    return found["x"]


@pytest.mark.parametrize(
    "values",
    [
        np.arange(6, dtype=np.int64).reshape(2, 3),
        np.array([[1.5], [np.nan]], ">f4"),
        np.array([1 + 2j]),
        np.array([True, False]),
        np.zeros((0, 3), np.uint8),
        np.arange(12, dtype=np.float16).reshape(3, 4).T,
        np.array([b"a\0", "größer".encode(), b""], object),
        np.array([["ä"], ["b\0c"]], object),
        np.array(["ab", "ö"]),
        np.array(7.0),
    ],
    ids=["numbers", "byte order", "complex", "bool", "empty", "turned", "bytes", "text", "fixed text", "scalar"],
)
def test_an_array_arrives_as_it_was(values):
    found = sent(values)
    if values.dtype.kind in "OU":
        expected = [one.encode() if isinstance(one, str) else one for one in values.ravel().tolist()]
        assert found.ravel().tolist() == expected
    else:
        np.testing.assert_array_equal(found, values)
        assert found.dtype == values.dtype.newbyteorder("<")
    assert found.shape == values.shape


LIES = {
    "beyond the memory": {"shape": [9], "at": 0, "dtype": "<f8"},
    "before it": {"shape": [1], "at": -8, "dtype": "<f8"},
    "a negative shape": {"shape": [-1, -1], "at": 0, "dtype": "<f8"},
    "a huge shape": {"shape": [2**62, 4], "at": 0, "dtype": "<f8"},
    "Python objects": {"shape": [1], "at": 0, "dtype": "O"},
    "a structure": {"shape": [1], "at": 0, "dtype": "i4,i4"},
    "no dtype": {"shape": [1], "at": 0, "dtype": "nonsense"},
    "no Python for a dtype": {"shape": [1], "at": 0, "dtype": "(1,f4"},
    "no shape": {"at": 0, "dtype": "<f8"},
    "a number for a shape": {"shape": 1, "at": 0, "dtype": "<f8"},
    "a truth for a place": {"shape": [1], "at": True, "dtype": "<f8"},
    "texts beyond the memory": {"shape": [3], "at": 0, "text": 1000},
    "texts of negative size": {"shape": [1], "at": 0, "text": -1},
    "texts of other lengths": {"shape": [2], "at": 0, "text": 9},
    "no description": 5,
}


@pytest.mark.parametrize("entry", LIES.values(), ids=LIES)
def test_a_description_that_lies(entry):
    memory = np.full(64, 255, np.uint8)  # lengths of -1
    with pytest.raises(ValueError, match="."):
        read(memory, {"x": entry}, copied=True)
    with pytest.raises(ValueError, match="."):
        read(memory, [entry], copied=True)


DEEP = (50_000).to_bytes(8, "little") + b"[" * 50_000
"""More levels than Python's parser takes."""


def test_messages_that_are_none():
    for content in (
        b"",
        b"\1",
        b"\4\0\0\0\0\0\0\0{",
        b"\2\0\0\0\0\0\0\0[]",
        b"\3\0\0\0\0\0\0\0\xff{}",
        b"\xff" * 8,
        DEEP,
    ):
        reads, writes = os.pipe()
        os.write(writes, content)
        os.close(writes)
        with pytest.raises(Closed):
            Channel(reads, -1, -1, -1).receive()
        os.close(reads)
