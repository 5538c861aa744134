"""What the page's queue costs beside anyio's: a turn at the model, and an event of a stream.

    python bench/serve_queue.py [--runs 7]

- a turn: microseconds from asking for the model to having given it back, of 8 threads that take
  turns and do nothing else; `FairLock`, or `anyio.CapacityLimiter(1)` through `from_thread.run`;
- an event: microseconds for which the thread of a job is held up; `Events`, or the memory object
  stream of anyio through `from_thread.run`.

Each is measured once in an idle process, and once beside other threads that compute in Python, as
other jobs do between two batches. Medians over runs; ours and anyio's are measured in turn.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import numpy as np
from anyio import from_thread, to_thread

from unmask.surfaces.serving.jobs import AHEAD, Events, FairLock, Job

THREADS = 8
"""Jobs that take turns."""
TURNS = 25
"""Of each of them."""
EVENTS = 50
BUSY = (0, 1, 3)
"""Threads that compute beside."""


class LimiterLock:
    """A fair lock of anyio for threads."""

    def __init__(self) -> None:
        self.limiter = anyio.CapacityLimiter(1)

    def __enter__(self) -> None:
        from_thread.run(self.limiter.acquire_on_behalf_of, threading.get_ident())

    def __exit__(self, *error: object) -> None:
        from_thread.run_sync(self.limiter.release_on_behalf_of, threading.get_ident())


class OurEvents:
    """Events as the server sends them."""

    def __init__(self) -> None:
        self.job = Job()
        self.events = Events()

    def put(self, line: str) -> None:
        """Called in a thread."""
        self.events.put(self.job, line)

    async def read(self, count: int) -> None:
        """Take this many."""
        on_the_wire = self.events.on_the_wire(self.job, is_ending=lambda: False)
        for _ in range(count):
            await anext(on_the_wire)


class StreamEvents:
    """Events over a memory object stream of anyio."""

    def __init__(self) -> None:
        self.sending, self.receiving = anyio.create_memory_object_stream[str](AHEAD)

    def put(self, line: str) -> None:
        """Called in a thread."""
        from_thread.run(self.sending.send, line)

    async def read(self, count: int) -> None:
        """Take this many."""
        for _ in range(count):
            await self.receiving.receive()


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Threads that compute in Python within the block."""
    ended = threading.Event()

    def compute() -> None:
        while not ended.is_set():
            sum(range(1000))

    threads = [threading.Thread(target=compute) for _ in range(count)]
    for thread in threads:
        thread.start()
    yield
    ended.set()
    for thread in threads:
        thread.join()


async def seconds_of_turns(lock: Any) -> float:
    """Seconds per turn."""

    def take_turns() -> None:
        for _ in range(TURNS):
            with lock:
                pass

    start = time.perf_counter()
    async with anyio.create_task_group() as group:
        for _ in range(THREADS):
            group.start_soon(to_thread.run_sync, take_turns)
    return (time.perf_counter() - start) / (THREADS * TURNS)


async def seconds_of_events(make: Callable[[], Any]) -> float:
    """Seconds that a thread waits for an event to be taken from it."""
    events = make()
    seconds: list[float] = []

    def put_all() -> None:
        start = time.perf_counter()
        for _ in range(EVENTS):
            events.put("an event")
        seconds.append((time.perf_counter() - start) / EVENTS)

    async with anyio.create_task_group() as group:
        group.start_soon(to_thread.run_sync, put_all)
        group.start_soon(events.read, EVENTS)
    return seconds[0]


def compare(
    name: str, ask: Callable[[Any], Awaitable[float]], ours: Any, theirs: Any, runs: int
) -> None:
    """Print the medians of both for each number of busy threads."""
    for count in BUSY:
        rows = []
        with busy(count):
            for _ in range(runs):
                rows.append([anyio.run(ask, ours()), anyio.run(ask, theirs())])
        here, there = 1e6 * np.median(rows, axis=0)
        ratio = np.median([there / here for here, there in rows])
        line = f"{name}, {count} threads beside: {here:,.0f} µs, anyio's {there:,.0f} µs"
        print(f"{line}: {ratio:,.0f} times", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=7)
    runs = parser.parse_args().runs
    compare("a turn", seconds_of_turns, FairLock, LimiterLock, runs)
    compare("an event", seconds_of_events, lambda: OurEvents, lambda: StreamEvents, runs)


if __name__ == "__main__":
    main()
