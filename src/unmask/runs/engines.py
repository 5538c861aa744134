"""Engines: items go in, answers come out, in any order. An item that fails is an answer too, and does not stop the others.

    engine = OnRay(make_work, workers=4, gpu=True)   up to `workers` processes, each with its own make_work()
    for answer in engine(items):                     answer.place: which item; answer.result, or answer.failure: the reason

`make_work` travels to the workers: a function of a module, or `functools.partial` of one. Items are read as workers take them.

Long work is done in pieces: `rest(item, result)` is the item that is left to do after a result, None at the end. It goes to the
same worker, which may have kept its state. A worker that dies is replaced, and its item given to another: what was answered is
not computed again. An item whose worker dies LOST times in a row has failed.
"""

from __future__ import annotations

import os
import socket
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Generic, Self, TypeVar
from urllib.parse import urlsplit

from unmask.errors import InputError, UnmaskError, UnmaskWarning

Item = TypeVar("Item")
Result = TypeVar("Result")
LOST = 3
"""Workers that an item may lose one after the other."""
PATIENCE, CONNECT = 60.0, 10.0
"""Seconds without a worker after which the user is told; and for a cluster to be reached."""


@dataclass(frozen=True)
class Answer(Generic[Result]):
    """The answer for the item at `place`: a result, or the reason of its failure; `more`: others of the same work follow."""

    place: int
    result: Result | None = None
    failure: str | None = None
    more: bool = False

    def value(self) -> Result:
        """The result; raises the failure."""
        if self.result is None:
            raise UnmaskError(self.failure or "no answer")
        return self.result


Engine = Callable[[Sequence[Item]], Iterator[Answer[Result]]]
"""Answers every item once."""


@dataclass(frozen=True)
class _Task(Generic[Item]):
    """An item, or what is left of it, and how many workers it has lost since its last answer."""

    place: int
    item: Item
    lost: int = 0


class OnRay(Generic[Item, Result]):
    """On Ray: `start_ray` first. By default one worker per GPU, or per two CPUs; `most`: items that there can be at once.

    Workers end with the call; within a `with` block, with the block.
    """

    def __init__(
        self,
        make_work: Callable[[], Callable[[Item], Result]],
        workers: int | None = None,
        gpu: bool = False,
        rest: Callable[[Item, Result], Item | None] | None = None,
        most: int | None = None,
    ) -> None:
        import ray

        self.make_work, self.gpu, self.rest = make_work, gpu, rest
        resources = ray.cluster_resources()
        cpus = int(resources.get("CPU", 1))
        size = workers or max(1, int(resources.get("GPU", 1)) if gpu else cpus // 2)
        self.size = size if most is None else max(1, min(size, most))
        in_one_place = max((int(node["Resources"].get("CPU", 1)) for node in ray.nodes() if node["Alive"]), default=1)
        self._needs = {"num_gpus": 1 if gpu else 0, "num_cpus": 1 if gpu else max(1, min(cpus // self.size, in_one_place))}
        self._idle: list[Any] = []
        self._busy: dict[Any, tuple[Any, _Task[Item] | None]] = {}
        self._lost = 0
        self._held = False

    def __enter__(self) -> Self:
        self._held = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._held = False
        self.close()

    def close(self) -> None:
        """End the workers."""
        import ray

        for worker in [*self._idle, *(worker for worker, _ in self._busy.values())]:
            ray.kill(worker)
        self._idle, self._busy = [], {}

    def __call__(self, items: Iterable[Item]) -> Iterator[Answer[Result]]:
        """Answers as they arrive."""
        import ray

        try:
            yield from self._answers(enumerate(items))
        except ray.exceptions.RayError as error:
            raise UnmaskError(f"Ray gave up ({_last_line(error)}): what was done is kept, the same command continues") from None
        finally:
            if not self._held:
                self.close()

    def _answers(self, items: Iterator[tuple[int, Item]]) -> Iterator[Answer[Result]]:
        waiting: deque[_Task[Item]] = deque()
        while True:
            while len(waiting) < self.size and (taken := next(items, None)) is not None:
                waiting.append(_Task(*taken))
            self._hand_out(waiting)
            if not waiting and not any(task for _, task in self._busy.values()):
                return
            worker, task, answer = self._next()
            if task is None:
                self._greet(worker, answer)
            elif answer is None:
                again = replace(task, lost=task.lost + 1)
                if again.lost < LOST:
                    waiting.appendleft(again)
                else:
                    yield Answer(task.place, failure=f"{LOST} workers died over it, one after the other")
            else:
                rest = self.rest(task.item, answer.result) if self.rest and answer.result is not None else None
                if rest is None:
                    self._idle.append(worker)
                else:
                    self._give(worker, _Task(task.place, rest))
                yield replace(answer, place=task.place, more=rest is not None)

    def _hand_out(self, waiting: deque[_Task[Item]]) -> None:
        """Items to idle workers; a new worker for each item that is left, up to the number asked for."""
        import ray

        while self._idle and waiting:
            self._give(self._idle.pop(), waiting.popleft())
        starting = sum(task is None for _, task in self._busy.values())
        for _ in range(min(len(waiting) - starting, self.size - len(self._idle) - len(self._busy))):
            try:
                worker = ray.remote(_Worker).options(**self._needs).remote(self.make_work)
            except TypeError:  # a long report on what pickle says
                raise InputError("a given function or object cannot be sent to Ray's workers: define it in a module") from None
            self._busy[worker.begin.remote()] = (worker, None)

    def _give(self, worker: Any, task: _Task[Item]) -> None:
        self._busy[worker.answer.remote(task.item)] = (worker, task)

    def _next(self) -> tuple[Any, _Task[Item] | None, Answer[Result] | None]:
        """A worker, its item (None: it has begun), and the answer (None: it has died)."""
        import ray

        works = any(task for _, task in self._busy.values())
        ready, _ = ray.wait(list(self._busy), num_returns=1, timeout=None if works else PATIENCE)
        if not ready:
            warnings.warn(
                f"no Ray worker has started in {PATIENCE:.0f} seconds: the cluster may be in use, see `ray status`",
                UnmaskWarning,
                stacklevel=5,
            )
            ready, _ = ray.wait(list(self._busy), num_returns=1)
        worker, task = self._busy.pop(ready[0])
        try:
            return worker, task, ray.get(ready[0])
        except (ray.exceptions.RayActorError, ray.exceptions.ObjectLostError) as error:
            ray.kill(worker)  # one that was only out of reach
            if task is None and (lost := self._lost + 1) >= LOST:
                raise UnmaskError(f"{lost} Ray workers died before they began ({_last_line(error)}): see their logs") from None
            self._lost += task is None
            return worker, task, None

    def _greet(self, worker: Any, answer: Answer[Result] | None) -> None:
        """A worker has begun, or died, or it cannot work."""
        if answer is None:
            return
        if answer.failure is not None:
            raise InputError(
                f"a Ray worker cannot begin ({answer.failure}): every machine of the cluster needs unmask, and the model "
                "under the same name or path"
            )
        self._lost = 0
        self._idle.append(worker)


class _Worker:
    """One process of the pool."""

    def __init__(self, make_work: Callable[[], Callable[[Any], Any]]) -> None:
        self.make_work = make_work
        self.work: Callable[[Any], Any] | None = None

    def begin(self) -> Answer[None]:
        def make(_: None) -> None:
            self.work = self.make_work()

        return answered(make, 0, None)

    def answer(self, item: Any) -> Answer[Any]:
        assert self.work is not None
        return answered(self.work, 0, item)


def start_ray() -> None:
    """Join the cluster that RAY_ADDRESS names, or start Ray on this machine; an already started Ray is used as it is."""
    try:
        import ray
    except ImportError:
        raise InputError('--engine ray needs the package ray, which is not installed: pip install "unmask[ray]"') from None
    if ray.is_initialized():
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    address = os.environ.get("RAY_ADDRESS")
    try:
        if address is not None and (where := urlsplit(f"//{address.rpartition('//')[2]}")).port is not None:
            socket.create_connection((where.hostname, where.port), CONNECT).close()  # Ray itself would try for minutes
        ray.init(include_dashboard=False, log_to_driver=False, logging_level="CRITICAL")
    except Exception as error:
        if address is None:
            raise UnmaskError(f"Ray does not start on this machine ({_last_line(error)}): use --engine local") from None
        raise InputError(
            f"RAY_ADDRESS {address!r} cannot be joined as a Ray cluster ({_last_line(error)}): start one there (ray start "
            "--head) with the same version of Ray and the same token, or unset it to use this machine"
        ) from None


def results(answers: Iterable[Answer[Result]]) -> Iterator[tuple[int, Result]]:
    """Places and results of chunks as they come; raises at the end if some failed."""
    done, failed = 0, list[str]()
    for answer in answers:
        if answer.result is None:
            failed.append(answer.failure or "no reason was given")
        else:
            done += 1
            yield answer.place, answer.result
    if failed:
        raise UnmaskError(f"{len(failed)} of {done + len(failed)} chunks failed ({failed[0]}): the same command tries them again")


def ray_has_gpus() -> bool:
    """Whether the cluster that was started or joined has a GPU."""
    import ray

    return bool(ray.cluster_resources().get("GPU", 0))


def answered(work: Callable[[Item], Result], place: int, item: Item) -> Answer[Result]:
    """The answer for one item; an exception other than an interrupt becomes a failure."""
    try:
        return Answer(place, work(item))
    except UnmaskError as error:
        return Answer(place, failure=str(error))
    except Exception as error:
        line = (str(error).strip() or "no message").splitlines()[0]
        return Answer(place, failure=f"{type(error).__name__}: {line}")


def _last_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[-1]
