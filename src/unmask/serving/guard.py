"""The HTTP server, and who may ask: pages of this server only, under a name that leads to this machine, in bounded size and time.

DNS rebinding points a stranger's name at this machine; such a request has the stranger's name in its Host, so that only
loopback names (and, if the server listens to more than loopback, plain addresses and the name it was given) are answered. A
request from another site's page has that site as its Origin, and is refused. Every answer carries a content security policy
that lets the page load nothing but its own files.

A request that has not arrived SECONDS_TO_ASK after its first byte (or after the connection), and an answer of which nothing was
read for SECONDS_TO_READ, end the connection. An idle connection is closed after SECONDS_IDLE.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from ipaddress import ip_address
from typing import Any

import uvicorn
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

from unmask.serving.desk import Desk
from unmask.serving.requests import MOST_BYTES

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

LOOPBACK = ("localhost", "127.0.0.1", "::1")
TOO_LARGE = f"the request is larger than {MOST_BYTES:,} bytes: ask for less at once"
SECONDS_TO_ASK = 20.0
SECONDS_TO_READ = 60.0
SECONDS_IDLE = 5
SECONDS_TO_END = 1
MOST_DIGITS = 20
"""Of a length: Python refuses to read numbers of thousands of digits."""
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """An ASGI application in front of another one."""

    def __init__(self, app: Any, host: str) -> None:
        self.app, self.host = app, host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse with one line of JSON."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                more = [(n.encode(), v.encode()) for n, v in HEADERS.items() if n.encode() not in given]
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        refusal = self._refusal(headers, scope["method"])
        if refusal is None:
            await self.app(scope, _Bounded(receive), guarded)
        else:
            await JSONResponse({"error": refusal[1]}, refusal[0])(scope, receive, guarded)

    def _refusal(self, headers: dict[str, str], method: str) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if not self._is_own(_name(host)):
            return 403, f"the address {host[:80]!r} is not this server's: open the one that it printed when it started"
        origin = headers.get("origin")
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            return 403, f"the request comes from another site ({origin[:80]!r}): use the page of this server"
        if headers.get("sec-fetch-site", "none") in ("cross-site", "same-site") and method != "GET":
            return 403, "the request comes from another site: use the page of this server"
        length = headers.get("content-length", "0")
        if not length.isdecimal() or len(length) > MOST_DIGITS or int(length) > MOST_BYTES:
            return 413, TOO_LARGE
        return None

    def _is_own(self, name: str) -> bool:
        if name in LOOPBACK or name == self.host.strip("[]").lower():
            return True
        return self.host.strip("[]") not in LOOPBACK and _is_address(name)


class _Bounded:
    """The body, counted as it comes: not every request says its length."""

    def __init__(self, receive: Receive) -> None:
        self.receive, self.size = receive, 0

    async def __call__(self) -> Message:
        message = await self.receive()
        self.size += len(message.get("body", b""))
        if self.size > MOST_BYTES:
            raise HTTPException(413, TOO_LARGE)
        return message


def _name(host: str) -> str:
    """ "[::1]:8000" is "::1"; names are compared in lower case."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


class Impatient(H11Protocol):
    """A connection that is closed if its client is too slow."""

    _asking: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request."""
        super().connection_made(transport)
        self._asking = self.loop.call_later(SECONDS_TO_ASK, transport.abort)

    def data_received(self, data: bytes) -> None:
        """Wait for the rest of the request, if there is any."""
        super().data_received(data)
        whole = self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body
        if whole and self._asking is not None:
            self._asking.cancel()
            self._asking = None
        elif not whole and self._asking is None:
            self._asking = self.loop.call_later(SECONDS_TO_ASK, self.transport.abort)

    def pause_writing(self) -> None:
        """Wait for the client to read."""
        super().pause_writing()
        self._reading = self.loop.call_later(SECONDS_TO_READ, self.transport.abort)

    def resume_writing(self) -> None:
        """It reads."""
        super().resume_writing()
        if self._reading is not None:
            self._reading.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        for timer in (self._asking, self._reading):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)


class PageServer(uvicorn.Server):
    """An interrupt cancels all requests under way: those who wait get 503, streams an `error`, and the connections end."""

    def __init__(self, app: Any, desks: Sequence[Desk]) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=Impatient,
                log_level="warning",
                lifespan="off",
                timeout_keep_alive=SECONDS_IDLE,
                timeout_graceful_shutdown=SECONDS_TO_END,
                server_header=False,
            )
        )
        self.desks = desks

    def handle_exit(self, *signal: Any) -> None:
        """Cancel all work, then end."""
        for desk in self.desks:
            desk.close()
        super().handle_exit(*signal)
