"""The server of `unmask.serve`: where it listens, within which limits, how it ends; and who may
ask.

Pages of this server may, under a name of this machine, in bounded size. DNS rebinding points a
stranger's name at this machine. Such a request has the stranger's name as its Host, and `Guard`
answers only names that lead here. A request from another site's page has that site as its
Origin, and is refused. Every answer carries HEADERS: their content security policy lets the
page load only its own files.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import replace
from html import escape
from ipaddress import ip_address
from os import PathLike
from socket import AF_INET, AF_INET6, SOCK_DGRAM, SOCK_STREAM, create_server, getaddrinfo, socket
from typing import Any

import uvicorn
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import HTMLResponse, JSONResponse, Response

from unmask.common.errors import InputError, argument_name
from unmask.models.load import Model, ModelSpec, as_model, model_name
from unmask.surfaces.serving.app import create_app
from unmask.surfaces.serving.jobs import Jobs
from unmask.surfaces.serving.limits import MOST_BATCH_BYTES, MOST_BYTES

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
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src"
        " 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "cache-control": "no-cache",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
HOST_NAME = re.compile(r"\*|(\*\.)?[a-zA-Z0-9_.-]+|\[[0-9a-fA-F:.]+\]")
"""A name as --allow-host takes it: *, *.name, a name or an IPv4 address, or an IPv6 address in
brackets.
"""
HOST_HEADER = re.compile(r"([a-zA-Z0-9_.-]+|\[[0-9a-fA-F:.]+\])(:\d*)?")
"""The header Host: such a name without stars, and a port."""
ELSEWHERE = {AF_INET: "192.0.2.1", AF_INET6: "2001:db8::1"}
"""Addresses of no machine, kept for documentation (RFC 5737, RFC 3849)."""
LINE_AS_HTML = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>unmask</title><p>{}</p></html>'
)


class Guard:
    """An ASGI application in front of another one, which is asked under the names `hosts`, and
    those of loopback, only.
    """

    def __init__(self, app: Any, hosts: Sequence[str] = ()) -> None:
        self.hosts: list[str] = [name.lower() for name in (*LOOPBACK, *hosts)]
        self.app: GZipMiddleware = GZipMiddleware(app, minimum_size=1_000, compresslevel=6)

    def answers_to(self, name: str) -> bool:
        """Whether a name of the header Host, in small letters, is one of this server."""
        for allowed in self.hosts:
            if allowed in ("*", name):
                return True
            if allowed.startswith("*.") and name.endswith(allowed[1:]):
                return True
        return False

    def refused_host(self, host: str) -> str | None:
        """Why a request with this header Host is refused, in one line; None if it is not."""
        named = HOST_HEADER.fullmatch(host)
        if named is None:
            return (
                f"the header Host is {host[:80]!r}, which is not a name: open the page's own"
                " address"
            )
        name = named[1].lower()
        if self.answers_to(name):
            return None
        allow = f"start it with --allow-host {name.strip('[]')}"
        return (
            f"this server does not answer to the name {name[:80]!r}: if it is a name of this"
            f" server, {allow}"
        )

    async def __call__(
        self, scope: Message, receive: Callable[[], Awaitable[Message]], send: Any
    ) -> None:
        """Answer, or refuse with one line; a body is counted as it comes, because not every
        request states its length.
        """
        headers, size = Headers(scope=scope), 0
        host, origin = headers.get("host", ""), headers.get("origin")
        unknown = self.refused_host(host)
        if unknown is not None:
            await line_as_asked(unknown, 400, headers)(scope, receive, send)
            return
        path = scope.get("path", "")
        # `words` reads what is pasted into the page, and says how many characters are too many.
        long = "/api/batch" in path or path.endswith("/api/words")
        most = MOST_BATCH_BYTES if long else MOST_BYTES
        elsewhere = (
            headers.get("sec-fetch-site") in ("cross-site", "same-site")
            and scope["method"] != "GET"
        )

        async def bounded() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > most:
                raise HTTPException(
                    413, f"the request is larger than {most:,} bytes: ask for less at once"
                )
            return message

        if elsewhere or origin not in (None, f"http://{host}", f"https://{host}"):
            line = (
                f"the request comes from another site ({str(origin)[:80]!r}): use the page of this"
                " server"
            )
            await line_as_asked(line, 403, headers)(scope, receive, send)
        else:
            await self.app(scope, bounded, send)


def line_as_asked(line: str, status: int, headers: Headers) -> Response:
    """A refusal in one line: a page for a browser that opens an address, JSON for everybody
    else.
    """
    if "text/html" in headers.get("accept", ""):
        return HTMLResponse(LINE_AS_HTML.format(escape(line)), status)
    return JSONResponse({"error": line}, status)


def run_page(
    model: Model,
    beside: Sequence[str | PathLike[str]],
    host: str,
    port: int,
    hosts: Sequence[str],
    ready: Callable[[str], None],
) -> None:
    """Load the models, serve the page until an interrupt; `ready` is called with its address.
    See `unmask.serve`.
    """
    listening, jobs = listening_socket(host, port), Jobs()
    try:
        names = names_of(host, hosts)
        loading = model if isinstance(model, ModelSpec) else ModelSpec()
        options = _given_options(loading)
        others = []
        for name in beside:
            other = replace(loading, name=name).load()
            others.append(create_app(other, jobs, str(name), options))
        app = create_app(as_model(model), jobs, model_name(model), options, others)
        ready(address_of(host, listening.getsockname()[1]))
        page_server(Guard(app, names), jobs).run(sockets=[listening])
    finally:
        jobs.close()
        listening.close()


def _given_options(loading: ModelSpec) -> dict[str, str]:
    """The options of loading a model that differ from their defaults."""
    usual = ModelSpec()
    return {
        name: getattr(loading, name)
        for name in ("device", "dtype")
        if getattr(loading, name) != getattr(usual, name)
    }


def names_of(host: str, hosts: Sequence[str]) -> list[str]:
    """The names that a server at `host` answers to beside those of loopback: its own address,
    then `hosts`.
    """
    own = outward_address(host) if host in EVERY_ADDRESS else host
    return [allowed_name(name) for name in ([] if own is None else [own]) + list(hosts)]


def outward_address(host: str) -> str | None:
    """The address by which its network knows this machine, of the same family as `host`; None
    without a network.

    A UDP socket is connected for the system to choose its own address; nothing is sent.
    """
    family = AF_INET6 if ":" in host else AF_INET
    with suppress(OSError), socket(family, SOCK_DGRAM) as probe:
        probe.connect((ELSEWHERE[family], 9))
        found: str = probe.getsockname()[0]
        if not ip_address(found).is_loopback:
            return found
    return None


def allowed_name(name: str) -> str:
    """A name or address as `Guard` takes it; an IPv6 address in brackets."""
    if name.count(":") > 1 and not name.startswith("["):
        name = f"[{name}]"
    if not HOST_NAME.fullmatch(name):
        raise InputError(
            f"{name!r} is not the name of a host",
            argument="allow_host",
            use="give it without http:// and port, such as box.local",
        )
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
    """A socket that listens at `host` and `port`: connections wait for the server from now on.
    Raises one line if it cannot.
    """
    try:
        family, _, _, _, where = getaddrinfo(host, port, type=SOCK_STREAM)[0]
    except (OSError, UnicodeError):
        raise InputError(
            f"{host!r} is not known",
            argument="host",
            use="give an address of this machine, such as 127.0.0.1",
        ) from None
    try:
        return create_server(where[:2], family=family)
    except OSError as error:
        why = error.strerror or error
        raise InputError(
            f"{port} cannot be had at {host} ({why})",
            argument="port",
            use=f"give another {argument_name('port')} (0: a free one) or {argument_name('host')}",
        ) from None


def address_of(host: str, port: int) -> str:
    """The page's address for a browser on this machine; a host that means every address is not
    one that can be opened.
    """
    shown = EVERY_ADDRESS.get(host, host)
    return f"http://{f'[{shown}]' if ':' in shown else shown}:{port}/"


def print_address(address: str, host: str, hosts: Sequence[str] = ()) -> None:
    """Print where the page is, for this machine and for others, and a warning if others can
    reach it.
    """
    print(f"unmask is at {address} (Ctrl-C ends it)", flush=True)
    if host in EVERY_ADDRESS:
        print(for_other_machines(address, host, hosts), flush=True)
    loopback = (f"http://{LOOPBACK_HOST}:", "http://localhost:", "http://[::1]:")
    if host in EVERY_ADDRESS or not address.startswith(loopback):
        warning = "warning: it listens beyond this machine, and asks nobody for a password"
        print(warning, file=sys.stderr, flush=True)


def for_other_machines(address: str, host: str, hosts: Sequence[str]) -> str:
    """Where other machines open a page that listens at every address, and which names are
    allowed, in one line.
    """
    own = outward_address(host)
    port = int(address.rstrip("/").rpartition(":")[2])
    ways = [] if own is None else [f"at {address_of(own, port)}"]
    if "*" in hosts:
        return f"other machines: {', '.join([*ways, 'under any name'])}"
    ways += [f"under the name {name}" for name in hosts]
    if not ways:
        return "other machines: no name is allowed yet; start it with --allow-host NAME"
    return f"other machines: {', '.join(ways)}; any other name needs --allow-host NAME"
