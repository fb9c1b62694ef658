"""Shards wait for each other where they meet, and never for ever."""

import threading

import pytest

from tapeline.runtime.errors import InputError


def meeting(place):
    from tapeline.recipe.sharding import meetings

    return meetings.meet(place, 1, sum)


@pytest.mark.parametrize(
    ("calls", "said"),
    [
        ([lambda: meeting("a"), lambda: meeting("b")], "shard 0 comes to a, shard 1 to b"),
        ([lambda: meeting("a"), lambda: 1], "shard 0 comes to a, shard 1 to its end"),
        ([lambda: 1, lambda: 1, lambda: meeting("c")], "shard 0 comes to its end, shard 2 to c"),
    ],
)
def test_shards_that_come_to_different_places_do_not_wait_for_ever(tf, calls, said):
    from tapeline.recipe.sharding.meetings import Shards

    with pytest.raises(InputError, match=said):
        Shards(calls, keep=lambda: lambda: None)()
    assert not [one for one in threading.enumerate() if one.name.startswith("shard ")]


def test_an_error_in_a_shard_or_a_meeting_is_the_callers(tf):
    from tapeline.recipe.sharding import meetings
    from tapeline.recipe.sharding.meetings import Shards

    def fails():
        raise LookupError("here")

    def bad(brought):
        raise LookupError(f"at the meeting of {len(brought)}")

    for calls, said in (
        ([lambda: meeting("a"), fails], "here"),
        ([lambda: meetings.meet("a", 1, bad)] * 3, "at the meeting of 3"),
    ):
        with pytest.raises(LookupError, match=said) as raised:
            Shards(calls, keep=lambda: lambda: None)()
        assert any(entry.name in ("fails", "bad") for entry in raised.traceback)
        assert not [one for one in threading.enumerate() if one.name.startswith("shard ")]
    assert Shards([lambda: meeting("a") + meeting("b")] * 3, keep=lambda: lambda: None)() == [6, 6, 6]
