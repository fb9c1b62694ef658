import gc

import pytest

from tapeline.runtime import imports


@pytest.fixture(autouse=True)
def _thawed():
    yield
    gc.enable()


def test_no_garbage_is_looked_for_meanwhile():
    with imports.lasting():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_what_was_made_is_never_looked_through_again():
    before = gc.get_freeze_count()
    with imports.lasting():
        made = [[] for _ in range(1000)]
    assert gc.get_freeze_count() >= before + len(made)


def test_who_looks_for_none_still_does_not():
    gc.disable()
    with imports.lasting():
        pass
    assert not gc.isenabled()


def test_an_error_ends_it():
    with pytest.raises(ImportError), imports.lasting():
        raise ImportError
    assert gc.isenabled()
