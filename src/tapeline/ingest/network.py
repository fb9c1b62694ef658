"""Whether a download can begin, asked before TFDS begins it.

TFDS repeats a failed connection ten times with growing pauses: without a network that takes minutes. A host that
answers at all is left to TFDS, however slow the download then is.
"""

import threading
from urllib.parse import urlsplit

DEADLINE = 8.0


def unreachable(url: str, *, deadline: float = DEADLINE) -> str | None:
    """Return why no answer came from the host of an http(s) address within `deadline` seconds, or None when one came.

    Asked with `requests`, as TFDS downloads, so that proxies and certificates are the same. An answer of 5xx is none:
    a proxy without a network gives it. Addresses of other schemes are not asked.
    """
    if urlsplit(url).scheme not in {"http", "https"}:
        return None
    reason = f"no answer in {deadline:g} s"

    def ask() -> None:
        nonlocal reason
        reason = _answer(url, deadline)

    # Neither name resolution nor a list of dead addresses honours a timeout: the thread may stay behind.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(deadline)
    return reason or None


def _answer(url: str, timeout: float) -> str:
    import requests

    try:
        with requests.get(url, stream=True, timeout=timeout) as response:
            return f"HTTP status {response.status_code}" if response.status_code >= 500 else ""
    except (requests.RequestException, ValueError) as error:  # ValueError: a name that is none
        return type(error).__name__
