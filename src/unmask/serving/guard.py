"""Who may ask: pages of this server only, under a name of this machine, in bounded size.

DNS rebinding points a stranger's name at this machine. Such a request has the stranger's name as its Host, and starlette's
TrustedHostMiddleware answers only names that lead here. A request from another site's page has that site as its Origin, and is
refused. Every answer carries a content security policy that lets the page load only its own files.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import JSONResponse

from unmask.serving.limits import MOST_BYTES

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
TOO_LARGE = f"the request is larger than {MOST_BYTES:,} bytes: ask for less at once"
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
    """An ASGI application in front of another one, which is asked under the names `hosts`, and those of loopback, only."""

    def __init__(self, app: Any, hosts: Sequence[str] = ()) -> None:
        self.app = TrustedHostMiddleware(app, allowed_hosts=[*LOOPBACK, *hosts], www_redirect=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse with one line."""
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        size = 0

        async def bounded() -> Message:
            """The body, counted as it comes: not every request states its length."""
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > MOST_BYTES:
                raise HTTPException(413, TOO_LARGE)
            return message

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name.lower() for name, _ in message["headers"]}
                more = [(n.encode(), v.encode()) for n, v in HEADERS.items() if n.encode() not in own]
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        refusal = _refusal(headers, scope["method"])
        if refusal is None:
            await self.app(scope, bounded, with_headers)
        else:
            await JSONResponse({"error": refusal[1]}, refusal[0])(scope, receive, with_headers)


def _refusal(headers: dict[str, str], method: str) -> tuple[int, str] | None:
    host, origin = headers.get("host", ""), headers.get("origin")
    if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
        return 403, f"the request comes from another site ({origin[:80]!r}): use the page of this server"
    if headers.get("sec-fetch-site", "none") in ("cross-site", "same-site") and method != "GET":
        return 403, "the request comes from another site: use the page of this server"
    length = headers.get("content-length", "0")
    if not length.isdecimal() or len(length) > MOST_DIGITS or int(length) > MOST_BYTES:
        return 413, TOO_LARGE
    return None
