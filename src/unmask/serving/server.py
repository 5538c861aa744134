"""`unmask.serve`: the page and its JSON interface on this machine, until it is interrupted."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from socket import SO_REUSEADDR, SOCK_STREAM, SOL_SOCKET, getaddrinfo, socket

from unmask.arguments import checked
from unmask.errors import InputError
from unmask.options.answers import ServeOptions
from unmask.options.option import documented

LOOPBACK_HOST = "127.0.0.1"
EVERY_ADDRESS = {"0.0.0.0": LOOPBACK_HOST, "": LOOPBACK_HOST, "::": "::1"}
"""Hosts that mean every address of this machine, and the one that a browser on it opens."""
PATIENCE = 1.0
"""Seconds that requests under way have to end in when the server is interrupted."""
WHY = {
    errno.EADDRINUSE: "another program listens there: give another --port, or 0 for a free one",
    errno.EACCES: "this user may not listen there: give a --port above 1023",
    errno.EADDRNOTAVAIL: "this machine has no such address: give another --host",
}


@documented(ServeOptions)
@checked
def serve(
    model: str | Path | None = None,
    beside: str | Path | None = None,
    host: str = LOOPBACK_HOST,
    port: int = 8000,
    runs: Sequence[str | Path] = (),
    open_browser: bool = False,
    device: str = "auto",
    dtype: str = "auto",
    rename: Mapping[str, str] | None = None,
    lang: str | None = None,
    shift: bool = False,
    mask_token: str | None = None,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve a page that shows joints, dependence, chains and scores of one model, or of two side by side, until Ctrl-C.

    The models are loaded once, before the page is up.

    Arguments: help(unmask.serve)
    """
    ServeOptions.given(locals())
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise InputError("the page needs fastapi and uvicorn, which are not installed: pip install 'unmask[serve]'") from None
    from unmask.models.masked_lm import as_model
    from unmask.serving.app import create_app
    from unmask.serving.guard import PageServer
    from unmask.serving.memory import stay_small

    listening = listening_socket(host, port)
    stay_small()
    try:
        given = {"device": device, "dtype": dtype, "lang": lang, "shift": shift, "mask_token": mask_token}
        options = {name: value for name, value in given.items() if value and value != "auto"}
        loaded = as_model(model, device, dtype, rename, lang, shift, mask_token)
        second, desks = None, []
        if beside is not None:
            other = as_model(beside, device, dtype, None, lang, shift, mask_token)
            second, desk = create_app(other, (), host, str(beside), options)
            desks.append(desk)
        app, desk = create_app(loaded, runs, host, None if model is None else str(model), options, second)
        desks.append(desk)
        address = address_of(host, listening.getsockname()[1])
        server = PageServer(app, desks)
        if ready is None:
            _print_address(address, host)
        else:
            ready(address)
        if open_browser:
            import webbrowser

            webbrowser.open(address)
        try:
            server.run(sockets=[listening])
        finally:
            for one in desks:
                one.close()
                one.model.worker.close(PATIENCE)
    finally:
        listening.close()


def listening_socket(host: str, port: int) -> socket:
    """A socket that listens at `host` and `port`: connections wait for the server from now on. Raises one line if it cannot."""
    try:
        family, _, _, _, where = getaddrinfo(host, port, type=SOCK_STREAM)[0]
    except (OSError, UnicodeError):
        raise InputError(f"host {host!r} is not known: give an address of this machine, such as 127.0.0.1") from None
    found = socket(family, SOCK_STREAM)
    found.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
    try:
        found.bind(where)
        found.listen()
    except OSError as error:
        found.close()
        why = WHY.get(error.errno or 0, "give another --host or --port")
        raise InputError(f"{host} port {port} cannot be had ({error.strerror or error}): {why}") from None
    return found


def address_of(host: str, port: int) -> str:
    """The page's address for a browser on this machine; a host that means every address is not one that can be opened."""
    shown = EVERY_ADDRESS.get(host, host)
    return f"http://{f'[{shown}]' if ':' in shown else shown}:{port}/"


def _print_address(address: str, host: str) -> None:
    print(f"unmask is at {address} (Ctrl-C ends it)", flush=True)
    if host in EVERY_ADDRESS or not address.startswith((f"http://{LOOPBACK_HOST}:", "http://localhost:", "http://[::1]:")):
        others = "; other machines open it under this machine's address" if host in EVERY_ADDRESS else ""
        print(f"warning: it listens beyond this machine, and asks nobody for a password{others}", file=sys.stderr, flush=True)
