"""Requests under way: each has a thread, at most MOST_JOBS at once, and a request whose client has left is cancelled.

An answer is one JSON object, or a stream of server-sent events: `progress` now and then, then `answer` or `error`.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import uvicorn
from fastapi import Request
from fastapi.responses import StreamingResponse

from unmask.errors import UnmaskError
from unmask.runs.files import as_json
from unmask.serving.limits import MOST_JOBS
from unmask.serving.worker import CURRENT, Cancelled, Job, SharedLM

Result = TypeVar("Result")
Emit = Callable[[str, Any], None]
LOOK_AFTER = 0.25
"""Seconds between two looks at whether the client is still there."""
SECONDS_TO_END = 1
AHEAD = 512
"""Events that a job may be ahead of its reader."""


class Busy(Exception):
    """MOST_JOBS requests are under way; another would only wait."""


class Desk:
    """Runs requests on the served model."""

    def __init__(self, model: SharedLM) -> None:
        self.model = model
        self._jobs: set[Job] = set()
        self._lock = threading.Lock()

    async def answer(self, request: Request, work: Callable[[], Result]) -> Result:
        """Returns what `work` returns; it runs in its own thread, and is cancelled if the client leaves."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Result] = loop.create_future()

        def run() -> None:
            try:
                result = work()
            except BaseException as error:
                _settle(loop, done.set_exception, error)
            else:
                _settle(loop, done.set_result, result)

        job = self._start(run)
        try:
            while not (await asyncio.wait({done}, timeout=LOOK_AFTER))[0]:
                if await request.is_disconnected():
                    raise Cancelled
            return done.result()
        finally:
            self._cancel(job)
            done.cancel()

    def stream(self, work: Callable[[Emit], None], apart: bool = False) -> StreamingResponse:
        """Events that `work` emits, each with a name and a JSON value; at the end `error`, if it raised one."""
        events: queue.Queue[tuple[str, Any] | None] = queue.Queue(AHEAD)
        begin = threading.Event()

        def emit(name: str, value: Any) -> None:
            while not job.cancelled:
                try:
                    events.put((name, value), timeout=LOOK_AFTER)
                    return
                except queue.Full:
                    continue
            raise Cancelled

        def run() -> None:
            begin.wait()
            try:
                work(emit)
            except Cancelled:
                pass
            except UnmaskError as error:
                emit("error", {"error": str(error)})
            finally:
                if not job.cancelled:
                    events.put(None)

        job = self._start(run, apart)
        begin.set()

        async def lines() -> AsyncIterator[str]:
            try:
                while not job.cancelled:
                    found = await asyncio.to_thread(_next, events)
                    if found is None:
                        return
                    yield found
            finally:
                self._cancel(job)

        return StreamingResponse(lines(), media_type="text/event-stream")

    def close(self) -> None:
        """Cancel everything."""
        for job in list(self._jobs):
            self._cancel(job)

    def _start(self, run: Callable[[], None], apart: bool = False) -> Job:
        job = Job(apart)
        with self._lock:
            if len(self._jobs) >= MOST_JOBS:
                raise Busy
            self._jobs.add(job)
        self.model.worker.begin(job)

        def work() -> None:
            CURRENT.set(job)
            try:
                run()
            finally:
                self.model.worker.end(job)
                with self._lock:
                    self._jobs.discard(job)

        threading.Thread(target=work, daemon=True).start()
        return job

    def _cancel(self, job: Job) -> None:
        job.cancelled = True
        self.model.worker.wake()


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
        """Cancel all work, then end."""
        self.desk.close()
        super().handle_exit(*signal)


def _settle(loop: asyncio.AbstractEventLoop, settle: Callable[[Any], None], value: Any) -> None:
    """Settle a future from another thread, if anybody still waits for it."""

    def once() -> None:
        if not settle.__self__.done():  # type: ignore[attr-defined]
            settle(value)

    if not loop.is_closed():
        loop.call_soon_threadsafe(once)


def _next(events: queue.Queue[tuple[str, Any] | None]) -> str | None:
    """The next event as lines, or a comment if none came for a while: writing it finds out whether the client is there."""
    try:
        found = events.get(timeout=2 * LOOK_AFTER)
    except queue.Empty:
        return ": still working\n\n"
    if found is None:
        return None
    name, value = found
    return f"event: {name}\ndata: {as_json(value, indent=None, ascii=True)}\n\n"
