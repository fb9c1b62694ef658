"""The fuzzer sees what it should: a reader that breaks the contract in each of its ways is told."""

import time

import pytest
from hypothesis import strategies as st

from tapeline.runtime.errors import InputError
from tests.fuzz import contract
from tests.fuzz.contract import Broken, kept
from tests.fuzz.parsers import Parser
from tests.fuzz.running import long, short


def refuses(_content=b""):
    raise InputError("a value, its rule")


def fails(content=b"x"):
    return {}[content]


class Raw(InputError):
    """An error that says what it was given as it is."""

    def __str__(self):
        return "a\x1b[2J"


def says_escape_codes(_content=b""):
    raise Raw("")


def hangs(_content=b""):
    while True:
        time.sleep(0.01)


def computes(_content=b""):
    while True:
        pass


def test_a_result_and_a_refusal_keep_it():
    assert kept(lambda: 5) == "" and kept(refuses) == "a value, its rule"


@pytest.mark.parametrize(
    ("read", "kind"),
    [
        (fails, "KeyError at "),
        (says_escape_codes, "not one plain line of Raw"),
        (hangs, "hangs at "),
        pytest.param(computes, "hangs at ", marks=pytest.mark.slow),
    ],
)
def test_what_breaks_it(monkeypatch, read, kind):
    monkeypatch.setattr(contract, "HANG", 0.01)
    with pytest.raises(Broken, match=kind):
        kept(read)
    with pytest.raises(Broken, match=kind):
        short(Parser(st.binary(max_size=3), read), 5)


@pytest.mark.slow
def test_a_long_run_collects_what_breaks_it_by_kind():
    def read(content):
        (fails if content[:1] > b"\x80" else refuses)(content)

    said = []
    found = long(Parser(st.binary(min_size=1, max_size=3), read), 5, said=said.append)
    assert found.tried > 10 and 0 < found.refused < found.tried
    assert list(found.broken) == ["KeyError at the test"] and len(said) == 1
    content, why = found.broken["KeyError at the test"]
    assert content[0] > 0x80 and why.startswith("KeyError at ")
