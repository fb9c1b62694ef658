"""Check that a host is reachable before TFDS starts a download.

TFDS retries a failed connection ten times with growing pauses: without a network that takes minutes. Any answer
passes the check, however slow the download is then.
"""

import threading
from urllib.parse import urlsplit

DEADLINE = 8.0


def unreachable(url: str, *, deadline: float = DEADLINE) -> str | None:
    """Return why the host of an http(s) URL gave no answer within `deadline` seconds, or None if it did.

    Uses `requests`, as TFDS does, so that proxies and certificates are the same. A 5xx status does not count as an
    answer, because a proxy without a network returns it. URLs of other schemes are not checked.
    """
    if urlsplit(url).scheme not in {"http", "https"}:
        return None
    reason = f"no answer in {deadline:g} s"

    def ask() -> None:
        nonlocal reason
        reason = _answer(url, deadline)

    # Neither name resolution nor trying several dead addresses honours a timeout: the thread may outlive this call.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(deadline)
    return reason or None


def _answer(url: str, timeout: float) -> str:
    import requests

    try:
        with requests.get(url, stream=True, timeout=timeout) as response:
            return f"HTTP status {response.status_code}" if response.status_code >= 500 else ""
    except (requests.RequestException, ValueError) as error:  # ValueError: an invalid host name
        return type(error).__name__
