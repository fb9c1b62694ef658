"""Polling instead of sleeping."""

import time


def until(condition, *, limit):
    """Poll until something is so, and return it; fail when it does not become so within `limit` seconds."""
    deadline = time.monotonic() + limit
    while (answer := condition()) in (None, False, []):
        assert time.monotonic() < deadline, f"not within {limit} s"
        time.sleep(0.05)
    return answer
