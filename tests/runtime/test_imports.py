import gc
import sys
import weakref

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


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Name a module with a thousand lists, which nobody has imported."""
    (tmp_path / "a_thousand_lists.py").write_text("made = [[] for _ in range(1000)]\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "a_thousand_lists"
    sys.modules.pop("a_thousand_lists", None)


def test_what_was_made_is_never_looked_through_again(module):
    before = gc.get_freeze_count()
    with imports.lasting():
        __import__(module)
    assert gc.get_freeze_count() >= before + 1000


def test_what_is_imported_already_keeps_no_garbage():
    class Kept:
        pass

    kept = Kept()
    kept.itself, gone = kept, weakref.ref(kept)
    del kept
    with imports.lasting():
        import json  # noqa: F401
    gc.collect()
    assert gone() is None


def test_who_looks_for_none_still_does_not():
    gc.disable()
    with imports.lasting():
        pass
    assert not gc.isenabled()


def test_an_error_ends_it():
    with pytest.raises(ImportError), imports.lasting():
        raise ImportError
    assert gc.isenabled()
