"""Threads that read ahead and work in parallel: in order, within bounds, and gone when nobody wants them."""

import itertools
import threading

import pytest
from waiting import until

from tapeline.runtime.overlap import in_order, prefetched


def test_everything_comes_once_and_in_order():
    wait = threading.Barrier(2, timeout=20)

    def work(item):
        wait.wait()  # only two at once get past this
        return item * item

    assert list(in_order(prefetched(iter(range(100)), 3), work, workers=2)) == [n * n for n in range(100)]
    assert list(in_order(prefetched(iter(()), 3), work, workers=2)) == []


def test_no_more_is_read_than_there_is_room_for():
    read = []

    def items():
        for number in itertools.count():
            read.append(number)
            yield number

    source = prefetched(items(), 3)
    answers = in_order(source, str, workers=2)
    for number in range(50):
        assert next(answers) == str(number)
        assert len(read) <= number + 1 + 2 + 1 + 3 + 2, "the workers' and one more, those that wait, one at each end"
    answers.close()
    source.close()
    seen = len(read)
    assert not [thread for thread in threading.enumerate() if thread.name == "read ahead"] and len(read) == seen


def test_an_error_of_the_reader_comes_after_what_was_read():
    def items():
        yield 1
        yield 2
        raise ValueError("the third")

    source = prefetched(items(), 1)
    assert [next(source), next(source)] == [1, 2]
    with pytest.raises(ValueError, match="the third"):
        next(source)


def test_an_error_of_a_worker_ends_the_reader():
    def work(item):
        if item == 5:
            raise ValueError("five")
        return item

    source = prefetched(itertools.count(), 2)
    with pytest.raises(ValueError, match="five"):
        list(in_order(source, work, workers=2))
    source.close()
    until(lambda: all(thread.name != "read ahead" for thread in threading.enumerate()), limit=60)
