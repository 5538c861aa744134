"""The HTTP server: connections that are too slow are closed, and an interrupt answers everyone who waits.

A request that has not arrived SECONDS_TO_ASK after its first byte (or after the connection), and an answer of which nothing was
read for SECONDS_TO_READ, end the connection. An idle connection is closed after SECONDS_IDLE.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from unmask.serving.desk import Desk

SECONDS_TO_ASK = 20.0
SECONDS_TO_READ = 60.0
SECONDS_IDLE = 5
SECONDS_TO_END = 1


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
