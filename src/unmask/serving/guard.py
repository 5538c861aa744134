"""Who may ask: pages of this server only, under a name of this machine, in bounded size.

DNS rebinding points a stranger's name at this machine. Such a request has the stranger's name as its Host, and starlette's
TrustedHostMiddleware answers only names that lead here. A request from another site's page has that site as its Origin, and is
refused. Every answer carries HEADERS: their content security policy lets the page load only its own files.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import JSONResponse

from unmask.serving.limits import MOST_BATCH_BYTES, MOST_BYTES

Message = MutableMapping[str, Any]
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Guard:
    """An ASGI application in front of another one, which is asked under the names `hosts`, and those of loopback, only."""

    def __init__(self, app: Any, hosts: Sequence[str] = ()) -> None:
        trusted = TrustedHostMiddleware(app, allowed_hosts=[*LOOPBACK, *hosts], www_redirect=False)
        self.app = GZipMiddleware(trusted, minimum_size=1_000, compresslevel=6)

    async def __call__(self, scope: Message, receive: Callable[[], Awaitable[Message]], send: Any) -> None:
        """Answer, or refuse with one line; a body is counted as it comes, because not every request states its length."""
        headers, size = Headers(scope=scope), 0
        host, origin = headers.get("host", ""), headers.get("origin")
        most = MOST_BATCH_BYTES if "/api/batch" in scope.get("path", "") else MOST_BYTES
        elsewhere = headers.get("sec-fetch-site") in ("cross-site", "same-site") and scope["method"] != "GET"

        async def bounded() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > most:
                raise HTTPException(413, f"the request is larger than {most:,} bytes: ask for less at once")
            return message

        if elsewhere or origin not in (None, f"http://{host}", f"https://{host}"):
            line = f"the request comes from another site ({str(origin)[:80]!r}): use the page of this server"
            await JSONResponse({"error": line}, 403)(scope, receive, send)
        else:
            await self.app(scope, bounded, send)
