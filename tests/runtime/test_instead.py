"""What is replaced for a block is itself again after it."""

from types import SimpleNamespace

import pytest

from tapeline.runtime.instead import instead


def test_attributes_are_replaced_in_the_block_however_it_ends():
    owner = SimpleNamespace(a=1, b=2, c=3)
    with pytest.raises(KeyError), instead(owner, a=10, b=20):
        assert vars(owner) == {"a": 10, "b": 20, "c": 3}
        with instead(owner, a=100):
            assert owner.a == 100
        assert owner.a == 10
        raise KeyError
    assert vars(owner) == {"a": 1, "b": 2, "c": 3}
