"""`unmask.serve`: the page and its JSON interface on this machine, until it is interrupted."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from unmask.arguments import checked
from unmask.errors import InputError
from unmask.options.option import documented
from unmask.options.serving import ServeOptions

LOOPBACK_HOST = "127.0.0.1"
PATIENCE = 1.0
"""Seconds that requests under way have to end in when the server is interrupted."""


@documented(ServeOptions)
@checked
def serve(
    model: str | Path | None = None,
    host: str = LOOPBACK_HOST,
    port: int = 8000,
    runs: Sequence[str | Path] = (),
    open_browser: bool = False,
    device: str = "auto",
    dtype: str = "auto",
    rename: Mapping[str, str] | None = None,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve a page that shows joints, dependence, chains and scores of one model, until Ctrl-C.

    The model is loaded once, before the page is up.
    """
    ServeOptions.given(locals())
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise InputError("the page needs fastapi and uvicorn, which are not installed: pip install 'unmask[serve]'") from None
    from unmask.models.masked_lm import as_model
    from unmask.serving.app import create_app
    from unmask.serving.listening import PageServer, listening_socket

    socket = listening_socket(host, port)
    try:
        app, desk = create_app(as_model(model, device, dtype, rename), runs, host, None if model is None else str(model))
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{socket.getsockname()[1]}/"
        server = PageServer(app, desk)
        (ready or _tell)(address)
        if open_browser:
            import webbrowser

            webbrowser.open(address)
        try:
            server.run(sockets=[socket])
        finally:
            desk.close()
            desk.model.worker.close(PATIENCE)
    finally:
        socket.close()


def _tell(address: str) -> None:
    print(f"unmask is at {address} (Ctrl-C ends it)", flush=True)
    if not address.startswith((f"http://{LOOPBACK_HOST}:", "http://localhost:", "http://[::1]:")):
        print("warning: it listens beyond this machine, and asks nobody for a password", file=sys.stderr, flush=True)
