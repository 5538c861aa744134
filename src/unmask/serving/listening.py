"""A socket that listens, or one line that says why there is none; and a server on it that ends at once when interrupted."""

from __future__ import annotations

import errno
import socket
from typing import Any

import uvicorn

from unmask.errors import InputError
from unmask.serving.desk import Desk

SECONDS_TO_END = 1
WHY = {
    errno.EADDRINUSE: "another program listens there: give another --port, or 0 for a free one",
    errno.EACCES: "this user may not listen there: give a --port above 1023",
    errno.EADDRNOTAVAIL: "this machine has no such address: give another --host",
}


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that listens at `host` and `port`: from now on a connection waits for the server, and is not refused."""
    try:
        family, _, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError):
        raise InputError(f"host {host!r} is not known: give an address of this machine, such as 127.0.0.1") from None
    found = socket.socket(family, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind(where)
        found.listen()
    except OSError as error:
        found.close()
        why = WHY.get(error.errno or 0, "give another --host or --port")
        raise InputError(f"{host} port {port} cannot be had ({error.strerror or error}): {why}") from None
    return found


class PageServer(uvicorn.Server):
    """An interrupt cancels all requests under way, so that their connections end at once."""

    def __init__(self, app: Any, desk: Desk) -> None:
        super().__init__(
            uvicorn.Config(
                app, log_level="warning", lifespan="off", timeout_graceful_shutdown=SECONDS_TO_END, server_header=False
            )
        )
        self.desk = desk

    def handle_exit(self, *signal: Any) -> None:
        """A signal: let go of all work, then end."""
        self.desk.close()
        super().handle_exit(*signal)
