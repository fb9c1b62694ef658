"""Names of versions, stages and tags, without a repository."""

import pytest

from tapeline.registry.tags import names
from tapeline.registry.tags.names import Artifact, Reference
from tapeline.runtime.errors import InputError


def test_references():
    assert names.parse("one") == Reference("one")
    assert names.parse("one@1.2.3") == names.parse("one@v1.2.3") == Reference("one", version="v1.2.3")
    assert names.parse("one#prod") == Reference("one", stage="prod")
    assert [str(names.parse(text)) for text in ("one", "one@1.2.3", "one#prod")] == ["one", "one@v1.2.3", "one#prod"]
    assert (Artifact("one", "").tag, Artifact("one", "in").tag) == ("one", "in=one")
    for text in ("one@", "one#", "one@v1.0.0#prod", "#prod", "@v1.0.0", "one#Prod", "one@v1.0.0000000001"):
        with pytest.raises(InputError):
            names.parse(text)


def test_digits_are_those_of_ascii():
    """`v1\u0663.0.0` was a version, the thirteenth."""
    assert not any(names.EVENT.fullmatch(name) for name in ("one@v1\u0663.0.0", "one#prod#1\u0663"))
    assert names.order("v1\u0663.0.0") == (-1, -1, -1)


def test_the_next_version_is_after_the_highest():
    assert names.bumped([], "major") == names.bumped([], "patch") == "v1.0.0"
    there = ["v1.9.4", "v1.10.2", "v0.11.7"]
    assert [names.bumped(there, bump) for bump in names.BUMPS] == ["v1.10.3", "v1.11.0", "v2.0.0"]
    assert names.order("v1.10.2") == (1, 10, 2) > names.order("v1.9.4") > names.order("nonsense")
    assert names.order("nonsense") == (-1, -1, -1)


def test_the_counter_is_the_highest_of_all_stages():
    one = Artifact("one", "")
    assert names.counter(["one#prod#2", "one#dev#11", "two#prod#40", "one@v1.0.0", "other"], one) == 11
    assert names.counter(["one@v1.0.0", "one#prod"], one) == 0
    assert names.counter([], one) == 0
