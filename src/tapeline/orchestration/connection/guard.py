"""Keep web pages away from a server on the loopback address, which every page in a browser on this machine reaches.

    Guard(app, origins=["http://127.0.0.1:4200", "http://localhost:4200"])

A page of a name that its owner lets point to 127.0.0.1 (DNS rebinding) sends a foreign `Host`; a page of another site
sends its `Origin` with whatever changes something, and with every WebSocket, to which CORS does not apply. Programs
send no `Origin`.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

FORBIDDEN = 403
POLICY_VIOLATION = 1008

_REASON = b"refused: Host and Origin must be this server's own\n"


class Guard:
    """An ASGI application that lets through what is addressed to one of `origins` and comes from none but them."""

    def __init__(self, app: App, *, origins: Collection[str]) -> None:
        self._app = app
        self._origins = {origin.lower().encode() for origin in origins}
        self._hosts = {origin.partition(b"://")[2] for origin in self._origins}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it; a WebSocket before it is accepted."""
        if scope["type"] == "lifespan" or self._lets_through(scope["headers"]):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})
        else:
            headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(_REASON)).encode())]
            await send({"type": "http.response.start", "status": FORBIDDEN, "headers": headers})
            await send({"type": "http.response.body", "body": _REASON})

    def _lets_through(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        found = [(name.lower(), value.strip().lower()) for name, value in headers]
        hosts = [value for name, value in found if name == b"host"]
        origins = [value for name, value in found if name == b"origin"]
        return len(hosts) == 1 and hosts[0] in self._hosts and self._origins.issuperset(origins)
