"""Requests under way: each is a job with its own thread, at most MOST_JOBS at once, and all of
them share one model.

The model passes one batch of rows at a time, under one lock that threads get in the order in
which they asked for it. Long work gives the lock up after each batch, so a short question waits
for one batch of each other job. Every batch asks whether its job still goes on: a cancelled
job, whose client has left, raises `Cancelled`; a stopped one raises `Enough` and returns what
it has.

An answer is one JSON object, or a stream of server-sent events: `job` with its name,
`progress`, then `answer` or `error`. When the server ends, waiting requests get 503, and
streams end with `error`.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import logging
import secrets
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from fastapi import Request
from fastapi.responses import StreamingResponse

from unmask.common.errors import UnmaskError
from unmask.common.files import as_json
from unmask.common.methods.own_code import without_own_code
from unmask.models.batching import RowBatches
from unmask.models.masked_lm import MaskedLM
from unmask.runs.progress import Enough
from unmask.surfaces.serving.limits import MOST_JOBS
from unmask.surfaces.serving.names import in_request

logger: logging.Logger = logging.getLogger(__name__)
Result = TypeVar("Result")
Emit = Callable[[str, Any], None]
LOOK_AFTER = 0.25
"""Seconds between two looks at whether the client is still there."""
AHEAD = 512
"""Events that a job may be ahead of its reader."""
ENDING = "the server is ending: ask again when it is back"
FAILED = "the server failed, which is a defect of unmask: its terminal shows where"
STOPPED = "the job was stopped before there was an answer: ask again"


class Busy(Exception):
    """MOST_JOBS requests are under way; another would only wait."""


class Cancelled(Exception):
    """The client has left, or the server ends: the answer is not needed."""


@dataclass(eq=False)
class Job:
    """A request under way: its next batch raises `Cancelled` if it is cancelled, `Enough` if it
    is stopping.
    """

    cancelled: bool = False
    stopping: bool = False
    id: str = field(default_factory=lambda: secrets.token_hex(8))

    def check(self) -> None:
        """Raise `Cancelled` or `Enough`, if it was cancelled or stopped."""
        if self.cancelled:
            raise Cancelled
        if self.stopping:
            raise Enough


CURRENT: ContextVar[Job | None] = ContextVar("job", default=None)
"""The job that this thread works for."""


class FairLock:
    """A lock that threads get in the order in which they asked for it, so that none can take it
    again past a waiting one.
    """

    def __init__(self) -> None:
        self._tickets, self._now, self._changed = itertools.count(), 0, threading.Condition()

    def __enter__(self) -> None:
        with self._changed:
            mine = next(self._tickets)
            self._changed.wait_for(lambda: self._now == mine)

    def __exit__(self, *error: object) -> None:
        with self._changed:
            self._now += 1
            self._changed.notify_all()


class SharedBatches(RowBatches):
    """Batches of rows, one at a time: those of several jobs take turns."""

    def __init__(self, budget: int, device: torch.device, turn: FairLock) -> None:
        super().__init__(budget)
        self.device: torch.device = device
        self.turn: FairLock = turn

    def run(
        self, total: int, bytes_per_row: int, compute: Callable[[slice], Result], most: int
    ) -> Iterator[tuple[slice, Result]]:
        """As `RowBatches.run`; each batch waits for its turn."""

        def in_turn(rows: slice) -> Result:
            with self.turn:
                if (job := CURRENT.get()) is not None:
                    job.check()
                if (
                    self.device.type == "cuda"
                ):  # which else is given more batches than the one that others wait for
                    torch.cuda.synchronize(self.device)
                return compute(rows)

        return super().run(total, bytes_per_row, in_turn, most)


def shared(model: MaskedLM, turn: FairLock) -> MaskedLM:
    """The model for many jobs: the same network, each of whose batches waits for its turn."""
    model = copy.copy(model)
    model.batches = SharedBatches(model.batches.budget, model.device, turn)
    return model


class Jobs:
    """Runs requests, each in its own thread; those under way are known by their names."""

    def __init__(self) -> None:
        self.closing: bool = False
        self.under_way: dict[str, Job] = {}

    def close(self) -> None:
        """Cancel everything, and take nothing more."""
        self.closing = True
        for job in list(self.under_way.values()):
            job.cancelled = True

    async def answer(self, request: Request, work: Callable[[], Result]) -> Result:
        """Returns what `work` returns; it runs in its own thread, and is cancelled if the
        client leaves.
        """
        done: Future[Result] = Future()
        done.set_running_or_notify_cancel()

        def run(job: Job) -> None:
            try:
                done.set_result(work())
            except BaseException as error:
                done.set_exception(error)

        job, result = self._start(run), asyncio.wrap_future(done)
        try:
            while not (await asyncio.wait({result}, timeout=LOOK_AFTER))[0]:
                if self.closing or await request.is_disconnected():
                    raise Cancelled
            return result.result()
        finally:
            result.cancel()
            job.cancelled = True

    def stream(self, work: Callable[[Emit], None]) -> StreamingResponse:
        """Events that `work` emits, each with a name and a JSON value; at the end `error`, if
        it raised one.

        The job ends with the response.
        """
        events: asyncio.Queue[str | None] = asyncio.Queue()
        loop, room = asyncio.get_running_loop(), threading.Semaphore(AHEAD)

        def run(job: Job) -> None:
            def put(line: str | None) -> None:
                while not job.cancelled:
                    if room.acquire(timeout=LOOK_AFTER):
                        with suppress(RuntimeError):  # the loop is closed: the server has ended
                            loop.call_soon_threadsafe(events.put_nowait, line)
                        return
                raise Cancelled

            def emit(name: str, value: Any) -> None:
                put(_event(name, value))

            with suppress(Cancelled):
                try:
                    emit("job", {"id": job.id})
                    work(emit)
                except Enough:
                    emit("error", {"error": STOPPED, "stopped": True})
                except UnmaskError as error:
                    emit("error", {"error": error.written(in_request)})
                except Cancelled:
                    raise
                except Exception:
                    logger.exception("a request failed")
                    emit("error", {"error": FAILED})
                put(None)

        job = self._start(run)

        async def lines() -> AsyncIterator[str]:
            while not job.cancelled:
                try:
                    async with asyncio.timeout(2 * LOOK_AFTER):
                        line = await events.get()
                except TimeoutError:
                    yield ": still working\n\n"  # fails if the client has left
                    continue
                room.release()
                if line is None:
                    return
                yield line
            yield _event("error", {"error": ENDING})

        return _Events(lines(), job)

    def _start(self, run: Callable[[Job], None]) -> Job:
        if self.closing:
            raise Cancelled
        if len(self.under_way) >= MOST_JOBS:
            raise Busy
        job = Job()
        self.under_way[job.id] = job

        def work() -> None:
            CURRENT.set(job)
            try:
                with without_own_code():  # a request never loads a file of code
                    run(job)
            finally:
                self.under_way.pop(job.id)

        threading.Thread(target=work, daemon=True).start()
        return job


class _Events(StreamingResponse):
    """Server-sent events, whose job ends with the response, also if that ends before its first
    line.
    """

    def __init__(self, lines: AsyncIterator[str], job: Job) -> None:
        super().__init__(lines, media_type="text/event-stream")
        self.job = job

    async def __call__(self, *connection: Any) -> None:
        try:
            await super().__call__(*connection)
        finally:
            self.job.cancelled = True


def _event(name: str, value: Any) -> str:
    return f"event: {name}\ndata: {as_json(value, indent=None, ascii=True)}\n\n"
