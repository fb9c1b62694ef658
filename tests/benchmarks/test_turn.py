"""A contender counts its steps between a request and its answer, and waits outside of the measured time."""

import pytest

from benchmarks.turn import Turn


class Ended(Exception):
    """No more requests."""


def test_it_answers_once_the_asked_time_is_over_and_waiting_does_not_count():
    now, told = [100.0], []
    requests = iter([{"seconds": 1.0}, {"seconds": 2.0}])

    def ask():
        now[0] += 1000.0
        request = next(requests, None)
        if request is None:
            raise Ended
        return request

    turn = Turn(ask, told.append, lambda: now[0])
    now[0] += 7.0
    turn.stepped()
    now[0] += 3.0
    turn.stepped()
    turn.learned({"loss": 0.5})
    assert told == [{"losses": {"loss": 0.5}, "first_step": 7.0}]
    with pytest.raises(Ended):
        while True:
            now[0] += 0.4
            turn.done(10)
    assert [answer["steps"] for answer in told[1:]] == [30, 50]
    assert [answer["seconds"] for answer in told[1:]] == pytest.approx([1.2, 2.0])
