"""One function on many items: in this process, or on the workers of a Ray cluster.

    for index, result in each(score, chunks, setup=partial(load, "name")):                  # a plain loop
    for index, result in each(score, chunks, ray_workers(4), setup=partial(load, "name")):  # on Ray, in any order

computes `function(setup(), item)`; without a setup, `function(item)`. Both travel to the workers, as functions of a module or
`functools.partial` of one; a worker calls the setup once. Items are read as workers take them; None says that there is no item
before the next result. `rest(item, result)` is the item that is left after a result, None at the end: it goes to the same worker,
which may have kept its state. A worker that dies is replaced, and what is left of its item goes to another. An error of the
function, or LOST workers that die in a row over an item, end the loop; earlier results are the caller's.
"""

from __future__ import annotations

import os
import socket
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from unmask.checks import one_of
from unmask.errors import InputError, UnmaskError, UnmaskWarning

LOST, PATIENCE, CONNECT = 3, 60.0, 10.0
"""Workers that may die in a row; seconds without a worker before a warning, and seconds to reach a cluster."""


@dataclass(frozen=True)
class Workers:
    """Processes of the Ray cluster that was joined: at most `count`, each with a GPU (`device` cuda) or its share of CPUs."""

    count: int
    device: str
    cpus: int = 1


def workers_of(engine: str) -> int | None:
    """None for the engine "local"; of "ray:4" the number of workers, 0 where "ray" leaves it to the cluster."""
    name, colon, count = engine.partition(":")
    if one_of("engine", name, ("local", "ray")) == "local" and not colon:
        return None
    if name == "local" or (colon and not (count.isdecimal() and 1 <= int(count) <= 10_000)):
        raise InputError(f"engine {engine!r} is not understood: give local, ray, or ray:4 with the number of workers")
    return int(count or 0)


def ray_workers(count: int = 0, device: str = "auto", most: int | None = None) -> Workers:
    """Joins or starts Ray. `count` 0 is one worker per GPU, or per two CPUs; `most`: the number of items, if it is known."""
    join_ray()
    import ray

    resources = ray.cluster_resources()
    gpus, cpus = int(resources.get("GPU", 0)), int(resources.get("CPU", 1))
    if device not in ("auto", "cpu") and not (gpus and device.startswith("cuda")):
        raise InputError(f"device {device!r} is not known, or the Ray cluster has no GPU: use device cpu")
    on_gpu = bool(gpus) and device != "cpu"
    size = max(1, min(count or (gpus if on_gpu else cpus // 2), most or count or cpus))
    on_one_machine = max((int(node["Resources"].get("CPU", 1)) for node in ray.nodes() if node["Alive"]), default=1)
    share = 1 if on_gpu else max(1, min(cpus // size, on_one_machine))
    return Workers(size, "cuda" if on_gpu else "cpu", share)


def join_ray() -> None:
    """Join the cluster that RAY_ADDRESS names, or start Ray on this machine; a started Ray is used as it is.

    Ray does not use a token with a named address unless RAY_AUTH_MODE says so: it is set where this machine has a token.
    """
    address, token_file = os.environ.get("RAY_ADDRESS"), os.path.expanduser("~/.ray/auth_token")
    if address is not None and ({"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & set(os.environ) or os.path.isfile(token_file)):
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    for name, value in {"RAY_USAGE_STATS_ENABLED": "0", "RAY_BACKEND_LOG_LEVEL": "fatal"}.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError:
        raise InputError('engine ray needs the package ray, which is not installed: pip install "unmask[ray]"') from None
    try:
        if ray.is_initialized():
            return
        if address is not None and (where := urlsplit(f"//{address.rpartition('//')[2]}")).port is not None:
            socket.create_connection((where.hostname, where.port), CONNECT).close()  # Ray itself would try for minutes
        ray.init(include_dashboard=False, log_to_driver=False, logging_level="CRITICAL")
    except Exception as error:
        if address is None:
            raise UnmaskError(f"Ray does not start on this machine ({_last_line(error)}): use engine local") from None
        raise InputError(
            f"RAY_ADDRESS {address!r} cannot be joined as a Ray cluster ({_last_line(error)}): start one there (ray start "
            "--head) with the same version of Ray; if it asks for a token, set RAY_AUTH_TOKEN and RAY_AUTH_MODE=token"
        ) from None


class _Worker:
    """An actor: a process that called the setup once."""

    def __init__(self, function: Callable[..., Any], setup: Callable[[], Any] | None) -> None:
        self.function, self.setup, self.before = function, setup, tuple[Any, ...]()

    def run(self, *item: Any) -> tuple[Any, UnmaskError | str | None]:
        """The result and None, or None and the error; without an item, the beginning."""
        try:
            if item:
                return self.function(*self.before, *item), None
            self.before = () if self.setup is None else (self.setup(),)
            return None, None
        except UnmaskError as error:
            return None, error
        except Exception as error:
            return None, f"{type(error).__name__}: {(str(error).strip() or 'no message').splitlines()[0]}"


class _Task(NamedTuple):
    """What is left of an item, and how many workers died over it since its last result; no number: a worker begins."""

    number: int | None
    item: tuple[Any, ...] = ()
    lost: int = 0


def each(
    function: Callable[..., Any],
    items: Iterable[Any],
    workers: Workers | None = None,
    setup: Callable[[], Any] | None = None,
    rest: Callable[[Any, Any], Any] | None = None,
) -> Generator[tuple[int, Any], None, None]:
    """(index of the item, result) as results come; without workers, in order and in this process."""
    if workers is None:
        before = () if setup is None else (setup(),)
        for index, left in enumerate(item for item in items if item is not None):
            while left is not None:
                result = function(*before, left)
                left = rest(left, result) if rest else None  # noqa: PLW2901
                yield index, result
        return
    import ray

    unread, number, waiting = iter(items), 0, deque[_Task]()
    idle, busy, unborn = list[Any](), dict[Any, tuple[Any, _Task]](), 0
    actor = ray.remote(_Worker).options(num_gpus=int(workers.device == "cuda"), num_cpus=workers.cpus)
    try:
        sent = ray.put(function), ray.put(setup)
    except TypeError:  # pickle's long report
        raise InputError("a given function or object cannot be sent to Ray's workers: define it in a module") from None

    def give(worker: Any, task: _Task) -> None:
        busy[worker.run.remote(*task.item)] = (worker, task)

    try:
        while True:
            while len(waiting) < workers.count and (item := next(unread, None)) is not None:
                waiting.append(_Task(number, (item,)))
                number += 1
            while idle and waiting:
                give(idle.pop(), waiting.popleft())
            starting = sum(task.number is None for _, task in busy.values())
            if not waiting and len(busy) == starting:
                return
            for _ in range(min(len(waiting) - starting, workers.count - len(busy))):
                give(actor.remote(*sent), _Task(None))
            worker, task, answer = _next(busy)
            if isinstance(answer, Exception):
                unborn += task.number is None
                if max(unborn, task.lost + 1) == LOST:
                    over = "before they began" if task.number is None else f"over item {task.number}"
                    raise UnmaskError(f"{LOST} Ray workers died {over} ({_last_line(answer)}): see their logs")
                waiting.extendleft([] if task.number is None else [task._replace(lost=task.lost + 1)])
                continue
            idle.append(worker)
            result, error = answer
            unborn = 0
            if error is not None and task.number is None:
                needed = "every machine needs unmask, and the model under the same name or path"
                raise InputError(f"a Ray worker cannot begin ({error}): {needed}")
            if isinstance(error, str):
                raise UnmaskError(f"item {task.number} failed on a Ray worker ({error}): the same command tries it again")
            if error is not None:
                error.add_note(f"item {task.number}")
                raise error
            if task.number is not None:
                if rest and (left := rest(task.item[0], result)) is not None:
                    give(idle.pop(), _Task(task.number, (left,)))
                yield task.number, result
    except ray.exceptions.RayError as lost:
        raise UnmaskError(f"Ray gave up ({_last_line(lost)}): what was done is kept, the same command continues") from None
    finally:
        for worker in [*idle, *(worker for worker, _ in busy.values())]:
            ray.kill(worker)


def _next(busy: dict[Any, tuple[Any, _Task]]) -> tuple[Any, _Task, tuple[Any, UnmaskError | str | None] | Exception]:
    """A worker, its task, and its answer, or how it died."""
    import ray

    works = any(task.number is not None for _, task in busy.values())
    ready, _ = ray.wait(list(busy), num_returns=1, timeout=None if works else PATIENCE)
    if not ready:
        warnings.warn(f"no Ray worker has started in {PATIENCE:.0f} seconds: see `ray status`", UnmaskWarning, stacklevel=4)
        ready, _ = ray.wait(list(busy), num_returns=1)
    worker, task = busy.pop(ready[0])
    try:
        return worker, task, ray.get(ready[0])
    except (ray.exceptions.RayActorError, ray.exceptions.ObjectLostError) as error:
        ray.kill(worker)  # one that was only out of reach
        return worker, task, error


def _last_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[-1]
