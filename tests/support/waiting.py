"""Polling instead of sleeping."""

import time


def until(condition, *, limit):
    """Poll until `condition` returns a non-empty value, and return it; fail after `limit` seconds."""
    deadline = time.monotonic() + limit
    while (answer := condition()) in (None, False, []):
        assert time.monotonic() < deadline, f"not within {limit} s"
        time.sleep(0.05)
    return answer
