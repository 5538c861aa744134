"""The server of `unmask.serve`: where it listens, under which names, within which limits, and how it ends."""

from __future__ import annotations

import errno
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike
from socket import SO_REUSEADDR, SOCK_STREAM, SOL_SOCKET, getaddrinfo, socket
from typing import TYPE_CHECKING, Any

from unmask.errors import InputError
from unmask.models.load import Model, as_model, load, model_name

if TYPE_CHECKING:
    from uvicorn import Server

    from unmask.serving.jobs import Jobs

LOOPBACK_HOST = "127.0.0.1"
EVERY_ADDRESS = {"0.0.0.0": LOOPBACK_HOST, "": LOOPBACK_HOST, "::": "::1"}
"""Hosts that mean every address of this machine, and the one that a browser on it opens."""
MOST_CONNECTIONS = 256
"""Open at once; more are answered with 503."""
MOST_HEADER_BYTES = 32 * 1024
HOST_NAME = re.compile(r"\*|(\*\.)?[\w.-]+|\[[0-9a-fA-F:.]+\]")
WHY = {
    errno.EADDRINUSE: "another program listens there: give another --port, or 0 for a free one",
    errno.EACCES: "this user may not listen there: give a --port above 1023",
    errno.EADDRNOTAVAIL: "this machine has no such address: give another --host",
}


def run_page(
    model: Model,
    beside: Sequence[str | PathLike[str]],
    host: str,
    port: int,
    hosts: Sequence[str],
    runs: Sequence[str | PathLike[str]],
    ready: Callable[[str], None],
) -> None:
    """Load the models, serve the page until an interrupt; `ready` is called with its address. See `unmask.serve`."""
    from unmask.serving.app import create_app
    from unmask.serving.guard import Guard
    from unmask.serving.jobs import Jobs

    listening, jobs = listening_socket(host, port), Jobs()
    try:
        names = [allowed_name(name) for name in ([] if host in EVERY_ADDRESS else [host]) + list(hosts)]
        options = dict(model.keywords) if isinstance(model, partial) else {}
        others = [create_app(load(one, **options), jobs, (), str(one), options) for one in beside]
        app = create_app(as_model(model), jobs, runs, model_name(model), options, others)
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


def page_server(app: Any, jobs: Jobs) -> Server:
    """A server of uvicorn within limits; an interrupt cancels all jobs, then ends it."""
    import uvicorn

    from unmask.serving.guard import HEADERS

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
    listening = socket(family, SOCK_STREAM)
    listening.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
    try:
        listening.bind(where)
        listening.listen()
    except OSError as error:
        listening.close()
        why = WHY.get(error.errno or 0, "give another --host or --port")
        raise InputError(f"{host} port {port} cannot be had ({error.strerror or error}): {why}") from None
    return listening


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
