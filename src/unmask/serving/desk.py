"""Requests under way: each has a thread, at most MOST_JOBS at once, and a request whose client has left is cancelled.

Equal questions that are under way together are computed once. An answer is one JSON object, or a stream of server-sent events:
`job` with its name, `progress` now and then, then `answer` or `error`. A job of a stream can be asked how far it is, and told to
stop. When the server ends, waiting requests are answered with 503, and streams end with `error`.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Callable, Hashable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from fastapi import Request
from fastapi.responses import StreamingResponse

from unmask.errors import UnmaskError
from unmask.runs.files import as_json
from unmask.runs.progress import Enough
from unmask.serving.memory import GiveBackLater
from unmask.serving.requests import MOST_JOBS
from unmask.serving.worker import CURRENT, Cancelled, Job, SharedLM

Result = TypeVar("Result")
Emit = Callable[[str, Any], None]
LOOK_AFTER = 0.25
"""Seconds between two looks at whether the client is still there."""
SECONDS_QUIET = 10.0
"""After the last job, until free memory goes back to the system."""
AHEAD = 512
"""Events that a job may be ahead of its reader."""
ENDING = "the server is ending: ask again when it is back"
FAILED = "the server failed, which is a defect of unmask: its terminal shows where"
STOPPED = "the job was stopped before there was an answer: ask again"


class Busy(Exception):
    """MOST_JOBS requests are under way; another would only wait."""


class Ending(Exception):
    """The server ends, and answers no more."""


@dataclass
class _Shared:
    """An answer that one request or more wait for."""

    job: Job
    done: Future[Any]
    waiting: int = 1


class Desk:
    """Runs requests on the served model."""

    def __init__(self, model: SharedLM) -> None:
        self.model = model
        self.closing = False
        self._jobs: dict[str, Job] = {}
        self._quiet = GiveBackLater(SECONDS_QUIET)
        self._same: dict[Hashable, _Shared] = {}
        self._lock = threading.RLock()

    async def answer(self, request: Request, work: Callable[[], Result], key: Hashable = None) -> Result:
        """Returns what `work` returns; it runs in its own thread, and is cancelled if the client leaves.

        Requests with equal keys that are under way together are computed once.
        """
        shared = self._shared(work, key)
        done: asyncio.Future[Result] = asyncio.wrap_future(shared.done)
        try:
            while not (await asyncio.wait({done}, timeout=LOOK_AFTER))[0] and not self.closing:
                if await request.is_disconnected():
                    raise Cancelled
            if self.closing:
                raise Ending
            return done.result()
        finally:
            done.cancel()
            self._leave(shared, key)

    def _shared(self, work: Callable[[], Any], key: Hashable) -> _Shared:
        """The answer of an equal question that is under way, or else of this one."""
        done: Future[Any] = Future()
        done.set_running_or_notify_cancel()

        def run() -> None:
            try:
                done.set_result(work())
            except BaseException as error:
                done.set_exception(error)

        with self._lock:
            if key is not None and key in self._same:
                self._same[key].waiting += 1
                return self._same[key]
            shared = _Shared(self._start(run), done)
            if key is not None:
                self._same[key] = shared
        return shared

    def _leave(self, shared: _Shared, key: Hashable) -> None:
        with self._lock:
            shared.waiting -= 1
            if shared.waiting:
                return
            if self._same.get(key) is shared:
                del self._same[key]
        self._cancel(shared.job)

    def stream(self, work: Callable[[Emit, Job], None], apart: bool = False) -> StreamingResponse:
        """Events that `work` emits, each with a name and a JSON value; at the end `error`, if it raised one.

        The job ends with the response.
        """
        events: queue.Queue[str | None] = queue.Queue(AHEAD)
        loop, more, begin = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

        def put(line: str | None) -> None:
            while not job.cancelled:
                try:
                    events.put(line, timeout=LOOK_AFTER)
                except queue.Full:
                    continue
                if not loop.is_closed():
                    loop.call_soon_threadsafe(more.set)
                return
            raise Cancelled

        def emit(name: str, value: Any) -> None:
            put(_event(name, value))

        def run() -> None:
            begin.wait()
            with suppress(Cancelled):
                try:
                    emit("job", {"id": job.id})
                    work(emit, job)
                except Enough:
                    emit("error", {"error": STOPPED, "stopped": True})
                except UnmaskError as error:
                    emit("error", {"error": str(error)})
                except Exception:
                    emit("error", {"error": FAILED})
                    raise
                finally:
                    put(None)

        job = self._start(run, apart)
        begin.set()

        async def lines() -> AsyncIterator[str]:
            while not job.cancelled:
                more.clear()
                try:
                    found = events.get_nowait()
                except queue.Empty:
                    if not await _waited(more, 2 * LOOK_AFTER):
                        yield ": still working\n\n"
                    continue
                if found is None:
                    return
                yield found
            if self.closing:
                yield _event("error", {"error": ENDING})

        return _Events(lines(), partial(self._cancel, job))

    @property
    def jobs(self) -> int:
        """Requests under way."""
        return len(self._jobs)

    def job(self, name: str) -> Job | None:
        """The job of this name, while it is under way."""
        return self._jobs.get(name)

    def stop(self, job: Job) -> None:
        """Let a job end with what it has."""
        job.stopping = True
        self.model.worker.wake()

    def close(self) -> None:
        """Cancel everything, and take nothing more."""
        self.closing = True
        for job in list(self._jobs.values()):
            self._cancel(job)

    def _start(self, run: Callable[[], None], apart: bool = False) -> Job:
        job = Job(apart)
        with self._lock:
            if self.closing:
                raise Ending
            if len(self._jobs) >= MOST_JOBS:
                raise Busy
            self._jobs[job.id] = job
        self.model.worker.begin(job)

        def work() -> None:
            CURRENT.set(job)
            try:
                run()
            finally:
                self.model.worker.end(job)
                with self._lock:
                    self._jobs.pop(job.id)
                if not self._jobs:
                    self._quiet.again()

        threading.Thread(target=work, daemon=True).start()
        return job

    def _cancel(self, job: Job) -> None:
        job.cancelled = True
        self.model.worker.wake()


class _Events(StreamingResponse):
    """Server-sent events; `ended` is called when the response ends, also before its first line."""

    def __init__(self, lines: AsyncIterator[str], ended: Callable[[], None]) -> None:
        super().__init__(lines, media_type="text/event-stream")
        self.ended = ended

    async def __call__(self, *connection: Any) -> None:
        try:
            await super().__call__(*connection)
        finally:
            self.ended()


async def _waited(event: asyncio.Event, seconds: float) -> bool:
    """Whether the event came within this time; writing something if not finds out whether the client is there."""
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return False
    return True


def _event(name: str, value: Any) -> str:
    return f"event: {name}\ndata: {as_json(value, indent=None, ascii=True)}\n\n"
