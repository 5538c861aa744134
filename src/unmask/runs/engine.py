"""One function on many items: in this process, in processes of this machine, or on the workers
of a Ray cluster.

    # a plain loop
    for index, result in each(score, chunks, None, partial(load, "name")): ...
    # on four workers of Ray, in any order
    for index, result in each(score, chunks, ray_workers("ray:4"), partial(load, "name")): ...

computes `function(setup(), item)` of every item. Of workers:

1. Workers get the function and the setup once, as functions of a module or `functools.partial` of
   one, and call the setup once.
2. `rest(item, result)` is the item that follows on the same worker, which may hold its state; None
   at the end.
3. A worker that dies is replaced, and its item goes to another.
4. An error of the function ends the loop, as do LOST workers that die in a row over one item. The
   results before it are the caller's.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from unmask.common.errors import InputError, UnmaskError
from unmask.common.files import first_line
from unmask.common.warn import warn
from unmask.runs.processes import Processes
from unmask.runs.ray_cluster import RayWorkers

LOST = 3
"""Workers that may die in a row over one item."""
SILENCE_SECONDS = 10.0
"""How long answers are waited for, before a cluster is asked whether it is still there."""
SILENCES = 6
"""Of SILENCE_SECONDS, without a worker that has begun: then there is a warning."""
OF_BEGINNING = None
"""In the place of an item's index, for deaths of workers that have not begun."""

Workers = Processes | RayWorkers
Rest = Callable[[Any, Any], Any]


def nothing_follows(item: Any, result: Any) -> None:
    """The `rest` of items that are computed at once."""


def each(
    function: Callable[[Any, Any], Any],
    items: Iterable[Any],
    workers: Workers | None,
    setup: Callable[[], Any],
    rest: Rest = nothing_follows,
) -> Generator[tuple[int, Any], None, None]:
    """(index of the item, result) as results come; without workers, in order and in this
    process.
    """
    if workers is None:
        loaded = setup()
        yield from enumerate(function(loaded, item) for item in items)
        return
    work = _SharedWork(function=function, items=items, workers=workers, setup=setup, rest=rest)
    try:
        yield from work.results()
    except Exception as error:
        is_of_cluster = isinstance(error, OSError) or type(error).__module__.startswith("ray.")
        if not isinstance(workers, RayWorkers) or not is_of_cluster:
            raise
        use = "start it again and give the same command again; what the run has stored stays"
        raise UnmaskError(f"the Ray cluster is lost ({first_line(error)}): {use}") from None
    finally:
        with suppress(Exception):  # of a lost cluster
            work.stop_workers()


@dataclass(frozen=True)
class _Task:
    """An item, and its place among the items."""

    index: int
    item: Any


class _Asked(NamedTuple):
    """A worker that has a message, and the task in it; None while the worker begins."""

    worker: Any
    task: _Task | None


class _SharedWork:
    """Items on their way through workers.

    unread   items that no worker has asked for
    tasks    what is to be computed next: the first item, items of workers that died, and what
             follows on items
    idle     workers without a task
    busy     workers with a message, by the answer that they will give
    deaths   workers in a row that died over each item, or before they had begun
    silent   times in a row that no answer came in SILENCE_SECONDS
    """

    def __init__(
        self,
        function: Callable[[Any, Any], Any],
        items: Iterable[Any],
        workers: Workers,
        setup: Callable[[], Any],
        rest: Rest,
    ) -> None:
        self.beginning: tuple[Callable[..., Any], Callable[[], Any]] = (function, setup)
        self.workers: Any = workers
        self.rest: Rest = rest
        self.unread: Iterator[_Task] = (_Task(*numbered) for numbered in enumerate(items))
        self.tasks: list[_Task] = []
        first = next(self.unread, None)  # more are read when a worker is free for them
        if first is not None:
            self.tasks.append(first)
        self.idle: list[Any] = []
        self.busy: dict[Future[Any], _Asked] = {}
        self.deaths: Counter[int | None] = Counter()
        self.silent: int = 0

    def results(self) -> Iterator[tuple[int, Any]]:
        """(index, result) as results come."""
        while True:
            self._give_tasks()
            if self._is_done():
                return
            while len(self.idle) + len(self.busy) < self.workers.count:
                self.idle.append(self.workers.start())
                self._send(self.beginning, None)
            answer = self._next_answer()
            if answer is None:
                continue  # a worker may have been lost meanwhile, and is replaced
            worker, task = self.busy.pop(answer)
            death = answer.exception()
            if death is not None:
                self._bury(worker, task, death)
                continue
            self.idle.append(worker)
            result = answer.result()
            if task is None:
                self.deaths[OF_BEGINNING] = 0
                _refuse_failed_beginning(result)
                continue
            self.deaths[task.index] = 0
            if isinstance(result, UnmaskError):
                raise result
            yield task.index, result
            following = self.rest(task.item, result)
            if following is not None:
                self.tasks.append(_Task(task.index, following))

    def stop_workers(self) -> None:
        """End all workers."""
        for worker in [*self.idle, *(asked.worker for asked in self.busy.values())]:
            self.workers.stop(worker)

    def _give_tasks(self) -> None:
        """A task for each idle worker, as long as there are any."""
        while self.idle:
            task = self.tasks.pop() if self.tasks else next(self.unread, None)
            if task is None:
                return
            self._send(task.item, task)

    def _is_done(self) -> bool:
        """Whether no task is left: none is being computed, and none waits for a worker."""
        if any(asked.task is not None for asked in self.busy.values()):
            return False
        return len(self.idle) > 0 or len(self.tasks) == 0

    def _send(self, message: Any, task: _Task | None) -> None:
        """Send a message to an idle worker."""
        try:
            answer = self.workers.send(self.idle[-1], message)
        except (TypeError, AttributeError, pickle.PicklingError):
            raise InputError(
                "a function or object cannot be sent to workers: define it in a module"
            ) from None
        self.busy[answer] = _Asked(self.idle.pop(), task)

    def _next_answer(self) -> Future[Any] | None:
        """One that has come; None if none comes for SILENCE_SECONDS. Raises if the cluster is
        lost.
        """
        come, _ = wait(self.busy, SILENCE_SECONDS, FIRST_COMPLETED)
        if come:
            self.silent = 0
            return come.pop()
        if isinstance(self.workers, RayWorkers):
            self.workers.refuse_lost()
        self.silent += 1
        are_beginning = all(asked.task is None for asked in self.busy.values())
        if are_beginning and self.silent % SILENCES == 0:
            warn("no worker has started in a minute: on Ray, see `ray status`")
        return None

    def _bury(self, worker: Any, task: _Task | None, death: BaseException) -> None:
        """Of a worker that died: its task is to be computed again. Raises after LOST in a row."""
        self.workers.stop(worker)
        index = OF_BEGINNING if task is None else task.index
        self.deaths[index] += 1
        if self.deaths[index] == LOST:
            cause = f"{LOST} workers died in a row ({first_line(death)})"
            raise UnmaskError(f"{cause}: is their memory too small?")
        if task is not None:
            self.tasks.append(task)


def _refuse_failed_beginning(result: Any) -> None:
    """Raise if a worker answers an error to its setup."""
    if isinstance(result, UnmaskError):
        needed = (
            "every machine needs unmask, the model under the same name or path, and memory for it"
        )
        raise InputError(f"a worker cannot begin ({first_line(result)}): {needed}")
