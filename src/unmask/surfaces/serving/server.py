"""The server of `unmask.serve`: who may ask, within which limits, and how the server ends; at which
address it listens, and at which address a browser opens it.

`Guard` refuses a request for one of three reasons:

1. Its Host is not a name of this server. DNS rebinding points a stranger's name at this machine;
   the Host of such a request is the stranger's name.
2. A page of another site asks. A browser says so in Origin, or in Sec-Fetch-Site. A GET without an
   Origin is let through: a link on another site may lead here, and a GET changes nothing.
3. Its body is too large.

Every answer carries HEADERS: their content security policy lets the page load only its own files.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import replace
from html import escape
from ipaddress import IPv4Address, IPv6Address, ip_address
from os import PathLike
from socket import (
    AF_INET,
    AF_INET6,
    SOCK_DGRAM,
    SOCK_STREAM,
    create_server,
    getaddrinfo,
    inet_aton,
    socket,
)
from typing import Any
from urllib.parse import urlsplit

import h11
import uvicorn
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import HTMLResponse, JSONResponse, Response
from uvicorn.protocols.http.h11_impl import H11Protocol

from unmask.common.errors import InputError, argument_name
from unmask.models.load import Model, ModelSpec, as_model, model_name
from unmask.models.own_loader import names_loader
from unmask.surfaces.serving.app import BUNDLED, create_app
from unmask.surfaces.serving.jobs import Jobs
from unmask.surfaces.serving.limits import MOST_BATCH_BYTES, MOST_BYTES

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
"""Names of this machine as the header Host has them."""
LOOPBACK_BY_VERSION = {4: "127.0.0.1", 6: "::1"}
"""The loopback address of each version of IP."""
MOST_CONNECTIONS = 256
"""Open at once; more are answered with 503, in a line of uvicorn."""
MOST_HEADER_BYTES = 32 * 1024
PATHS_OF_LARGE_BODIES = ("/api/batch", "/api/batch/events", "/api/words", "/api/differences")
"""Endings of the paths whose requests may have MOST_BATCH_BYTES.

batch         gets lists and files of texts
words         gets what is pasted, and says itself how much is too much
differences   gets numbers, such as those of all mutants
"""
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
NOT_HTTP = (
    f"the request is not HTTP, or its headers are larger than {MOST_HEADER_BYTES:,} bytes: ask with"
    " a browser, or as /api shows"
)
HOST_NAME = re.compile(r"\*|(\*\.)?[a-zA-Z0-9_.-]+|\[[0-9a-fA-F:.]+\]")
"""A name as --allow-host takes it: *, *.name, a name or an IPv4 address, or an IPv6 address in
brackets.
"""
HOST_HEADER = re.compile(r"([a-zA-Z0-9_.-]+|\[[0-9a-fA-F:.]+\])(:\d*)?")
"""The header Host: such a name without stars; a port may follow."""
LONGEST_NAME = 253
"""Characters of the name of a host (RFC 1035)."""
ELSEWHERE = {AF_INET: "192.0.2.1", AF_INET6: "2001:db8::1"}
"""Addresses of no machine, kept for documentation (RFC 5737, RFC 3849)."""
LINE_AS_HTML = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>unmask</title><p>{}</p></html>'
)


class Guard:
    """An ASGI application in front of another one: it refuses what must not be asked.

    hosts   names that the server answers to beside LOOPBACK_NAMES; *.name is any name that ends
            so, * any name
    """

    def __init__(self, app: Any, hosts: Sequence[str] = ()) -> None:
        self.hosts: list[str] = [in_one_spelling(name) for name in (*LOOPBACK_NAMES, *hosts)]
        self.app: GZipMiddleware = GZipMiddleware(app, minimum_size=1_000, compresslevel=6)

    async def __call__(self, scope: Message, receive: Receive, send: Any) -> None:
        """Answer, or refuse with one line."""
        refusal = self.refusal(Headers(scope=scope), scope["method"])
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        most = most_bytes_of(scope.get("path", ""))
        await self.app(scope, bounded(receive, most), send)

    def refusal(self, headers: Headers, method: str) -> Response | None:
        """The answer to a request that is refused by its headers; None if it is not."""
        unknown = self.refused_host(headers.get("host", ""))
        if unknown is not None:
            return line_as_asked(unknown, 400, headers)
        if from_another_site(headers, method):
            origin = headers.get("origin", "not named")
            line = (
                f"the request comes from another site ({origin[:80]!r}): use the page of this"
                " server"
            )
            return line_as_asked(line, 403, headers)
        return None

    def refused_host(self, host: str) -> str | None:
        """Why a request with this header Host is refused, in one line; None if it is not."""
        named = HOST_HEADER.fullmatch(host)
        if named is None or len(named[1]) > LONGEST_NAME:
            shown = repr(host[:80])
            return f"the header Host is {shown}, which is not a name: open the page's own address"
        name = in_one_spelling(named[1])
        if self.answers_to(name):
            return None
        without_brackets = name.strip("[]")
        return (
            f"this server does not answer to the name {name!r}: if it is a name of this server,"
            f" start it with --allow-host {without_brackets}"
        )

    def answers_to(self, name: str) -> bool:
        """Whether a name of the header Host, in one spelling, is one of this server."""
        for allowed in self.hosts:
            is_any = allowed == "*"
            if is_any or allowed == name:
                return True
            if allowed.startswith("*.") and name.endswith(allowed[1:]):
                return True
        return False


def from_another_site(headers: Headers, method: str) -> bool:
    """Whether a page of another site asks, by what the browser says of it."""
    host = headers.get("host", "")
    origin = headers.get("origin")
    own_origins = (f"http://{host}", f"https://{host}")  # https: of a proxy that ends TLS
    if origin is not None and origin not in own_origins:
        return True
    if method == "GET":  # a link on another site may lead here
        return False
    return headers.get("sec-fetch-site") in ("cross-site", "same-site")


def most_bytes_of(path: str) -> int:
    """The largest body of a request at this path, which may be below /models/1."""
    return MOST_BATCH_BYTES if path.endswith(PATHS_OF_LARGE_BODIES) else MOST_BYTES


def bounded(receive: Receive, most: int) -> Receive:
    """`receive`, which refuses a body of more than `most` bytes. It counts them as they come,
    because not every request states its length.
    """
    size = 0

    async def counting() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > most:
            line = f"the request is larger than {most:,} bytes: ask for less at once"
            raise HTTPException(413, line)
        return message

    return counting


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
    listening = listening_socket(host, port)  # first: loading takes long, and may be for nothing
    jobs = Jobs()
    try:
        names = names_of(host, hosts)
        # The models beside the first one are loaded with its options.
        loading = model if isinstance(model, ModelSpec) else ModelSpec()
        options = _given_options(loading)
        others = []
        for name in beside:
            model_beside = replace(loading, name=name).load()
            own_name = command_name(name)
            others.append(create_app(model_beside, jobs, name=own_name, options=options))
        app = create_app(
            as_model(model), jobs, name=command_name(model), options=options, others=others
        )
        ready(address_of(host, listening.getsockname()[1]))
        page_server(Guard(app, names), jobs).run(sockets=[listening])
    finally:
        jobs.close()
        listening.close()


def command_name(model: Model) -> str:
    """The model's name as a command takes it. `model_name` differs in two ways: to the name of own
    code it adds a hash of the file, and it calls the bundled model as a folder may be called.
    """
    name = model.name if isinstance(model, ModelSpec) else model
    if isinstance(name, str) and names_loader(name):
        return name
    is_folder_called_bundled = name is not None and model_name(model) == BUNDLED
    if is_folder_called_bundled:
        return f"./{BUNDLED}"
    return model_name(model)


def _given_options(loading: ModelSpec) -> dict[str, str]:
    """The options of loading a model that differ from their defaults."""
    usual = ModelSpec()
    options = {}
    for name in ("device", "dtype"):
        value = getattr(loading, name)
        if value != getattr(usual, name):
            options[name] = value
    return options


def names_of(host: str, hosts: Sequence[str]) -> list[str]:
    """The names that a server at `host` answers to beside those of loopback: its own address,
    then `hosts`.
    """
    names = [allowed_name(name) for name in hosts]
    own = outward_address(host) if is_every_address(host) else host
    if own is None:  # there is no network
        return names
    without_scope = own.partition("%")[0]  # fe80::1%eth0: the header Host has no scope
    return [allowed_name(without_scope, argument="host"), *names]


def in_digits(host: str) -> IPv4Address | IPv6Address | None:
    """The address that a host states in digits, in every way in which the system reads it: 0 is
    0.0.0.0, and 127.1 is 127.0.0.1. None of a name.
    """
    try:
        return ip_address(host)
    except ValueError:  # a name, or a spelling that `inet_aton` alone reads, such as 127.1
        pass
    try:
        return IPv4Address(inet_aton(host))
    except OSError:
        return None


def in_one_spelling(name: str) -> str:
    """A name as the header Host has it, in small letters; an address as a browser writes it, which
    may have been typed otherwise: 127.0.0.2 of 127.2, [2001:db8::5] of [2001:DB8:0:0::5].
    """
    address = in_digits(name.strip("[]"))
    if address is None:
        return name.lower()
    return f"[{address}]" if address.version == 6 else str(address)


def is_every_address(host: str) -> bool:
    """Whether a server at `host` listens at every IPv4 address of this machine (0.0.0.0), or at
    every IPv6 address of it (::).
    """
    address = in_digits(host)
    return address is not None and address.is_unspecified


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server at `host`."""
    address = in_digits(host)
    if address is None:
        return host.lower() == "localhost"
    return address.is_loopback


def outward_address(host: str) -> str | None:
    """The address by which its network knows this machine, of the same family as `host`; None
    without a network.

    A UDP socket is connected, for which the system chooses its own address.
    """
    family = AF_INET6 if ":" in host else AF_INET
    try:
        with socket(family, SOCK_DGRAM) as probe:
            probe.connect((ELSEWHERE[family], 9))  # any port: nothing is sent
            own: str = probe.getsockname()[0]
    except OSError:  # there is no network
        return None
    return None if ip_address(own).is_loopback else own


def allowed_name(name: str, argument: str = "allow_host") -> str:
    """A name or address as `Guard` takes it; an IPv6 address in brackets.

    argument   the one that has the name, for the error
    """
    is_bare_ipv6 = name.count(":") > 1 and not name.startswith("[")
    if is_bare_ipv6:
        name = f"[{name}]"
    if not HOST_NAME.fullmatch(name):
        raise InputError(
            f"{name!r} is not the name of a host",
            argument=argument,
            use="give it without http:// and port, such as box.local",
        )
    return name


def page_server(app: Any, jobs: Jobs) -> uvicorn.Server:
    """A server of uvicorn within limits; an interrupt cancels all jobs, then ends it."""

    class PageServer(uvicorn.Server):
        def handle_exit(self, *signal_and_frame: Any) -> None:
            jobs.close()
            super().handle_exit(*signal_and_frame)

    config = uvicorn.Config(
        app,
        http=LineProtocol,
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
    return PageServer(config)


class LineProtocol(H11Protocol):
    """HTTP as uvicorn reads it with h11. What it cannot read is refused with a line of JSON, as
    the application refuses.
    """

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, or has headers of more than MOST_HEADER_BYTES, and close the
        connection; uvicorn would send `msg` as text.
        """
        headers = [
            ("content-type", "application/json"),
            ("connection", "close"),
            *HEADERS.items(),
        ]
        head = h11.Response(status_code=400, headers=headers, reason=b"Bad Request")
        body = h11.Data(data=JSONResponse({"error": NOT_HTTP}).body)
        for part in (head, body, h11.EndOfMessage()):
            self.transport.write(self.conn.send(part))
        self.transport.close()


def listening_socket(host: str, port: int) -> socket:
    """A socket that listens at `host` and `port`: connections wait for the server from now on.
    Raises one line if it cannot.
    """
    try:
        addresses = getaddrinfo(host, port, type=SOCK_STREAM)
    except (OSError, UnicodeError):
        raise InputError(
            f"{host!r} is not known",
            argument="host",
            use="give an address of this machine, such as 127.0.0.1",
        ) from None
    family, _type, _protocol, _name, address = addresses[0]
    try:
        return create_server(address, family=family)  # that of IPv6 has its scope, such as %eth0
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
    opened = host
    address = in_digits(host)
    if address is not None and address.is_unspecified:
        opened = LOOPBACK_BY_VERSION[address.version]
    if ":" in opened:  # IPv6; a scope is written %25eth0 (RFC 6874)
        opened = f"[{opened.replace('%', '%25')}]"
    return f"http://{opened}:{port}/"


def print_address(address: str, host: str, hosts: Sequence[str] = ()) -> None:
    """Print where the page is, for this machine and for others, and a warning if others can
    reach it.
    """
    print(f"unmask is at {address} (Ctrl-C ends it)", flush=True)
    if is_every_address(host):
        port = urlsplit(address).port
        assert port is not None, "`address_of` writes it"
        print(for_other_machines(port, host, hosts), flush=True)
    if not is_loopback(host):
        warning = "warning: it listens beyond this machine, and asks nobody for a password"
        print(warning, file=sys.stderr, flush=True)


def for_other_machines(port: int, host: str, hosts: Sequence[str]) -> str:
    """Where other machines open a page that listens at every address, and which names are
    allowed, in one line.
    """
    ways = []
    own = outward_address(host)
    if own is not None:
        ways.append(f"at {address_of(own, port)}")
    if "*" in hosts:
        ways.append("under any name")
        return f"other machines: {', '.join(ways)}"
    for name in hosts:
        ending = name.removeprefix("*")
        if ending == name:
            ways.append(f"under the name {name}")
        else:
            ways.append(f"under any name that ends in {ending}")
    if not ways:
        return "other machines: no name is allowed yet; start it with --allow-host NAME"
    return f"other machines: {', '.join(ways)}; any other name needs --allow-host NAME"
