"""The server of `unmask.serve`: where it listens, within which limits, how it ends; and who may ask.

Pages of this server may, under a name of this machine, in bounded size. DNS rebinding points a stranger's name at this machine.
Such a request has the stranger's name as its Host, and starlette's TrustedHostMiddleware answers only names that lead here. A
request from another site's page has that site as its Origin, and is refused. Every answer carries HEADERS: their content
security policy lets the page load only its own files.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from functools import partial
from os import PathLike
from socket import SOCK_STREAM, create_server, getaddrinfo, socket
from typing import Any

import uvicorn
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import JSONResponse

from unmask.errors import InputError
from unmask.models.load import Model, as_model, load, model_name
from unmask.serving.app import create_app
from unmask.serving.jobs import Jobs
from unmask.serving.limits import MOST_BATCH_BYTES, MOST_BYTES

Message = MutableMapping[str, Any]
LOOPBACK_HOST = "127.0.0.1"
EVERY_ADDRESS = {"0.0.0.0": LOOPBACK_HOST, "": LOOPBACK_HOST, "::": "::1"}
"""Hosts that mean every address of this machine, and the one that a browser on it opens."""
MOST_CONNECTIONS = 256
"""Open at once; more are answered with 503."""
MOST_HEADER_BYTES = 32 * 1024
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "cache-control": "no-cache",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
HOST_NAME = re.compile(r"\*|(\*\.)?[\w.-]+|\[[0-9a-fA-F:.]+\]")


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


def run_page(
    model: Model,
    beside: Sequence[str | PathLike[str]],
    host: str,
    port: int,
    hosts: Sequence[str],
    ready: Callable[[str], None],
) -> None:
    """Load the models, serve the page until an interrupt; `ready` is called with its address. See `unmask.serve`."""
    listening, jobs = listening_socket(host, port), Jobs()
    try:
        names = [allowed_name(name) for name in ([] if host in EVERY_ADDRESS else [host]) + list(hosts)]
        options = dict(model.keywords) if isinstance(model, partial) else {}
        others = [create_app(load(one, **options), jobs, str(one), options) for one in beside]
        app = create_app(as_model(model), jobs, model_name(model), options, others)
        ready(address_of(host, listening.getsockname()[1]))
        page_server(Guard(app, names), jobs).run(sockets=[listening])
    finally:
        jobs.close()
        listening.close()


def allowed_name(name: str) -> str:
    """A name or address as TrustedHostMiddleware takes it; an IPv6 address in brackets."""
    if name.count(":") > 1 and not name.startswith("["):
        name = f"[{name}]"
    if not HOST_NAME.fullmatch(name):
        raise InputError(f"allow_host {name!r} is not the name of a host: give it without http:// and port, such as box.local")
    return name


def page_server(app: Any, jobs: Jobs) -> uvicorn.Server:
    """A server of uvicorn within limits; an interrupt cancels all jobs, then ends it."""

    class PageServer(uvicorn.Server):
        def handle_exit(self, *signal: Any) -> None:
            jobs.close()
            super().handle_exit(*signal)

    return PageServer(
        uvicorn.Config(
            app,
            http="h11",
            ws="none",
            lifespan="off",
            log_level="warning",
            server_header=False,
            headers=list(HEADERS.items()),
            limit_concurrency=MOST_CONNECTIONS,
            h11_max_incomplete_event_size=MOST_HEADER_BYTES,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=1,
        )
    )


def listening_socket(host: str, port: int) -> socket:
    """A socket that listens at `host` and `port`: connections wait for the server from now on. Raises one line if it cannot."""
    try:
        family, _, _, _, where = getaddrinfo(host, port, type=SOCK_STREAM)[0]
    except (OSError, UnicodeError):
        raise InputError(f"host {host!r} is not known: give an address of this machine, such as 127.0.0.1") from None
    try:
        return create_server(where[:2], family=family)
    except OSError as error:
        why = error.strerror or error
        raise InputError(f"{host} port {port} cannot be had ({why}): give another port=... (0: a free one) or host=...") from None


def address_of(host: str, port: int) -> str:
    """The page's address for a browser on this machine; a host that means every address is not one that can be opened."""
    shown = EVERY_ADDRESS.get(host, host)
    return f"http://{f'[{shown}]' if ':' in shown else shown}:{port}/"


def print_address(address: str, host: str) -> None:
    """Print where the page is, and a warning if other machines can reach it."""
    print(f"unmask is at {address} (Ctrl-C ends it)", flush=True)
    if host in EVERY_ADDRESS or not address.startswith((f"http://{LOOPBACK_HOST}:", "http://localhost:", "http://[::1]:")):
        others = "; name the addresses by which other machines open it with --allow-host" if host in EVERY_ADDRESS else ""
        print(f"warning: it listens beyond this machine, and asks nobody for a password{others}", file=sys.stderr, flush=True)
