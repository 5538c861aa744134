"""Requests under way: each is a job with a thread of its own, at most MOST_JOBS at once. Jobs that
ask one model share it.

A model passes one batch of rows at a time, under a lock of its own, which threads get in the order
in which they asked for it. Long work gives the lock up after each batch, so a short question waits
for one batch of each other job that asks this model. Before every batch a job asks whether it goes
on. One that is cancelled (its client has left) raises `Cancelled`, and nobody needs its answer. One
that is stopped raises `Enough`: a verb that has something to show catches it, and returns that.

An answer is one JSON object, or a stream of server-sent events: `job` with its id, `progress`,
then `answer` or `error`. When the server ends, waiting requests get 503, and streams end with
`error`.

Threads and events are not those of anyio and sse-starlette, which were measured: see
docs/serve.md, "Why the queue is our own".
"""

from __future__ import annotations

import asyncio
import copy
import logging
import secrets
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
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
"""Sends an event: its name, and a value for JSON."""
HandOver = Callable[[], None]
"""Tells who waits for a job how it ended. A task returns it, and `Jobs._run` calls it when the job
has given up its place. It does not raise. That of a stream waits until there is room for one more
event.
"""
LOOK_AFTER = 0.25
"""Seconds between two looks: `Jobs.answer` looks whether its client is still there, and
`Events.put`, while it waits for room, whether its job was cancelled.
"""
SILENCE = 0.5
"""Seconds without an event after which a stream says that it is alive."""
STILL_WORKING = ": still working\n\n"
"""A comment, which readers of events skip."""
AHEAD = 512
"""Events that a job may be ahead of its reader."""
ENDING = "the server is ending: ask again when it is back"
FAILED = "the server failed, which is a defect of unmask: its terminal shows where"
STOPPED = "the job was stopped before there was an answer: ask again"


class Busy(Exception):
    """MOST_JOBS requests are under way; another would only wait."""


class Cancelled(Exception):
    """The client has left, or the server ends: the answer is not needed."""


class Panic(Exception):
    """Stands for an error that is not an `Exception`, such as a panic of a Rust library; that error
    is its `__cause__`. asyncio and starlette handle an `Exception` only.
    """


def new_id() -> str:
    """The id of a job, which nobody can guess: who has it can stop the job."""
    return secrets.token_hex(8)


@dataclass(eq=False)
class Job:
    """A request under way: its next batch raises `Cancelled` if it is cancelled, `Enough` if it
    is stopping.
    """

    cancelled: bool = False
    stopping: bool = False
    id: str = field(default_factory=new_id)

    def check(self) -> None:
        """Raise `Cancelled` or `Enough`, if it was cancelled or stopped."""
        if self.cancelled:
            raise Cancelled
        if self.stopping:
            raise Enough


CURRENT: ContextVar[Job | None] = ContextVar("job", default=None)
"""The job that this thread works for, which its batches ask; the verb in between knows of no jobs.
None in a thread that works for no request.
"""


class FairLock:
    """A lock that threads get in the order in which they asked for it, so that none can take it
    again past a waiting one.

    `threading.Lock` promises no order. `anyio.CapacityLimiter(1)` does, but threads take it
    through the thread of the event loop. There a turn costs 12 times what a turn of this lock
    costs in an idle process, and 34 ms where three other threads compute in Python
    (`python bench/serve_queue.py`).
    """

    def __init__(self) -> None:
        self._queue: deque[object] = deque()  # a ticket for each thread; the first has the lock
        self._changed = threading.Condition()

    def __enter__(self) -> None:
        ticket = object()
        with self._changed:
            self._queue.append(ticket)
            try:
                self._changed.wait_for(lambda: self._queue[0] is ticket)
            except BaseException:  # an interrupt: those behind would wait for this ticket for ever
                self._queue.remove(ticket)
                self._changed.notify_all()
                raise

    def __exit__(self, *error: object) -> None:
        with self._changed:
            self._queue.popleft()
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
        return super().run(total, bytes_per_row, partial(self._in_turn, compute), most)

    def _in_turn(self, compute: Callable[[slice], Result], rows: slice) -> Result:
        """`compute(rows)` when it is this thread's turn. Raises `Cancelled` or `Enough` if its job
        does not go on.
        """
        with self.turn:
            if self.device.type == "cuda":
                # `compute` returns before a GPU has computed. Without this, a job could queue
                # many batches there, and others would wait for all of them.
                torch.cuda.synchronize(self.device)
            # After the waits, in which the client may have left.
            job = CURRENT.get()
            if job is not None:
                job.check()
            return compute(rows)


def shared(model: MaskedLM, turn: FairLock) -> MaskedLM:
    """The model for many jobs: the same network, each of whose batches waits for its turn."""
    model = copy.copy(model)
    model.batches = SharedBatches(model.batches.budget, model.device, turn)
    return model


class Jobs:
    """Runs requests, each in its own thread; those under way are known by their ids."""

    def __init__(self) -> None:
        self.closing: bool = False
        self.under_way: dict[str, Job] = {}

    def close(self) -> None:
        """Cancel everything, and take nothing more."""
        self.closing = True
        for job in list(self.under_way.values()):
            job.cancelled = True

    async def answer(self, request: Request, ask: Callable[[], Result]) -> Result:
        """Returns what `ask` returns; it runs in its own thread, and is cancelled if the client
        leaves.

        Raises what `ask` raises; `Busy` if MOST_JOBS are under way; `Cancelled` if the client
        has left or the server ends.
        """
        outcome: Future[Result] = Future()
        # `waiting.cancel()` below does not cancel an outcome that is running: the thread, which
        # may still work then, can always set it.
        outcome.set_running_or_notify_cancel()
        job = self._start(lambda _: _asked(ask, outcome))
        waiting = asyncio.wrap_future(outcome)
        try:
            while not waiting.done():
                if self.closing or await request.is_disconnected():
                    raise Cancelled
                await asyncio.wait({waiting}, timeout=LOOK_AFTER)
            return waiting.result()
        finally:
            # Nobody waits any more. A job that still works ends at its next batch. Without
            # `cancel`, asyncio would log the error of a job whose client has left. For an outcome
            # that was returned or raised above, both lines do nothing.
            job.cancelled = True
            waiting.cancel()

    def stream(self, ask: Callable[[Emit], None]) -> StreamingResponse:
        """Events that `ask` emits, each with a name and a JSON value; at the end `error`, if
        it raised one.

        The job ends with the response. Raises `Busy` if MOST_JOBS are under way, and
        `Cancelled` if the server ends.
        """
        events = Events()

        def emit_all(job: Job) -> HandOver:
            def emit(name: str, value: Any) -> None:
                events.put(job, _event(name, value))

            try:
                emit("job", {"id": job.id})
                _ask_or_say_why(ask, emit)
            except Cancelled:
                pass  # nobody reads the events: there is nothing to say
            except BaseException:  # nor could the reason be said: the stream ends without it
                logger.exception("a request failed")
            return partial(events.end, job)

        job = self._start(emit_all)
        # `job.cancelled` does not say that the server ends: `close` cancels only jobs under way,
        # and of a job that has ended up to AHEAD events may still have to be sent.
        on_the_wire = events.on_the_wire(job, is_ending=lambda: self.closing)
        return EventResponse(on_the_wire, job)

    def _start(self, task: Callable[[Job], HandOver]) -> Job:
        """Begin a job in a thread of its own. The event loop alone calls this, so no other job
        begins between the count and the entry.
        """
        if self.closing:
            raise Cancelled
        if len(self.under_way) >= MOST_JOBS:
            raise Busy
        job = Job()
        # The end of the process waits for threads of anyio, but not for daemons.
        thread = threading.Thread(target=self._run, args=(job, task), daemon=True)
        self.under_way[job.id] = job
        try:
            thread.start()
        except BaseException:  # the system has no more threads
            self.under_way.pop(job.id)
            raise
        return job

    def _run(self, job: Job, task: Callable[[Job], HandOver]) -> None:
        """Do a job in this thread, then hand over how it ended.

        Before that, the job gives up its place among MOST_JOBS. A request may be two jobs: the
        check of its settings, then the work. The second one begins as soon as the first is handed
        over, and needs its place.
        """
        CURRENT.set(job)
        try:
            with without_own_code():  # a request never loads a file of code
                hand_over = task(job)
        finally:
            self.under_way.pop(job.id)
        hand_over()


class Events:
    """Events on their way from a job's thread to the event loop, at most AHEAD of them. Each is a
    text as `_event` writes it.

    The job's thread hands an event over, and waits only if there is no room: 3 µs in an idle
    process, 3 ms where three other threads compute in Python. A stream of anyio takes each event
    in the loop's thread while the job's thread waits: 51 µs and 31 ms
    (`python bench/serve_queue.py`).
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[str | None] = asyncio.Queue()  # None: there are no more
        self._room = threading.Semaphore(AHEAD)

    def put(self, job: Job, event: str | None) -> None:
        """Called in the job's thread: wait for room, and hand an event over; None is the end.
        Raises `Cancelled` if nobody reads any more.
        """
        has_room = False
        while not has_room:
            if job.cancelled:
                raise Cancelled
            has_room = self._room.acquire(timeout=LOOK_AFTER)
        with suppress(RuntimeError):  # the loop is closed: the server has ended
            self._loop.call_soon_threadsafe(self._queue.put_nowait, event)

    def end(self, job: Job) -> None:
        """Called in the job's thread: there are no more events."""
        with suppress(Cancelled):  # nobody waits for the end
            self.put(job, None)

    async def on_the_wire(self, job: Job, is_ending: Callable[[], bool]) -> AsyncIterator[str]:
        """The events as the response sends them, and comments where the job is silent. The last
        event is an error if the job is cancelled, or if the server ends before all are sent.

        is_ending   returns whether the server ends
        """
        while not (job.cancelled or is_ending()):
            try:
                async with asyncio.timeout(SILENCE):
                    event = await self._queue.get()
            except TimeoutError:
                yield STILL_WORKING
                continue  # to the head of the loop: the job may have been cancelled meanwhile
            self._room.release()
            if event is None:
                return
            yield event
        only_the_end_is_left = False
        if not self._queue.empty():
            only_the_end_is_left = self._queue.get_nowait() is None
        if not only_the_end_is_left:
            yield _event("error", {"error": ENDING})


class EventResponse(StreamingResponse):
    """Server-sent events. Their job is cancelled when the response ends, also if the client left
    before the first line.
    """

    def __init__(self, on_the_wire: AsyncIterator[str], job: Job) -> None:
        super().__init__(on_the_wire, media_type="text/event-stream")
        self.job = job

    async def __call__(self, *connection: Any) -> None:
        try:
            await super().__call__(*connection)
        finally:
            self.job.cancelled = True


def _asked(ask: Callable[[], Result], outcome: Future[Result]) -> HandOver:
    """Ask. Returns a function that gives `outcome` what was returned or raised."""
    try:
        result = ask()
    except Exception as error:
        return partial(outcome.set_exception, error)
    except BaseException as error:
        panic = Panic()
        panic.__cause__ = error
        return partial(outcome.set_exception, panic)
    return partial(outcome.set_result, result)


def _ask_or_say_why(ask: Callable[[Emit], None], emit: Emit) -> None:
    """Ask; if it raises, the last event is `error`. Raises `Cancelled` if nobody reads it."""
    try:
        ask(emit)
    except Cancelled:
        raise
    except Enough:
        emit("error", {"error": STOPPED, "stopped": True})
    except UnmaskError as error:
        emit("error", {"error": error.written(in_request)})
    except BaseException:  # a panic of a Rust library is no `Exception`, and ends the stream, too
        logger.exception("a request failed")
        emit("error", {"error": FAILED})


def _event(name: str, value: Any) -> str:
    """An event on the wire. JSON without indent has no line break, so it is one line of data."""
    return f"event: {name}\ndata: {as_json(value, indent=None, ascii=True)}\n\n"
