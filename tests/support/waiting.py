"""Polling instead of sleeping."""

import time


def until(condition, *, limit, process=None):
    """Poll until `condition` returns a non-empty value, and return it.

    Fail after `limit` seconds, or as soon as `process` has ended, with what it says on stderr.
    """
    deadline = time.monotonic() + limit
    while (answer := condition()) in (None, False, []):
        assert process is None or process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline, f"not within {limit} s"
        time.sleep(0.05)
    return answer
