"""One function on many items: in this process, in processes of this machine, or on the workers of a Ray cluster.

    for index, result in each(score, chunks, setup=partial(load, "name")):                  # a plain loop
    for index, result in each(score, chunks, ray_workers(4), setup=partial(load, "name")):  # on Ray, in any order
    for index, result in each(score, chunks, Processes(("cuda:0", "cuda:1")), setup=...):   # a process for each device

computes `function(setup(), item)`; without a setup, `function(item)`. Both travel to the workers, as functions of a module or
`functools.partial` of one; a worker calls the setup once. Items are read as workers take them. `rest(item, result)` is the item
that is left after a result, None at the end: it goes to the same worker, which may have kept its state. A worker that dies is
replaced, and what is left of its item goes to another. An error of the function, or LOST workers that die in a row over an
item, end the loop; earlier results are the caller's.
"""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from multiprocessing.connection import Connection, Pipe
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from unmask.checks import one_of
from unmask.errors import InputError, UnmaskError, UnmaskWarning

LOST, PATIENCE, CONNECT = 3, 60.0, 10.0
"""Workers that may die in a row; seconds without a worker before a warning, and seconds to reach a cluster."""
NOT_SENT = "a given function or object cannot be sent to workers: define it in a module"
NEEDED = "every machine needs unmask, the model under the same name or path, and memory for it"


class Worker:
    """The function and the result of the setup, in a worker's process."""

    def __init__(self, function: Callable[..., Any], setup: Callable[[], Any] | None) -> None:
        self.function, self.setup, self.before = function, setup, tuple[Any, ...]()

    def run(self, *item: Any) -> Any:
        """The result, or the error that ends the loop; without an item, calls the setup."""
        try:
            if item:
                return self.function(*self.before, *item)
            self.before = () if self.setup is None else (self.setup(),)
        except Exception as error:
            line = (str(error).strip() or "no message").splitlines()[0]
            if not item:
                return InputError(f"a worker cannot begin ({type(error).__name__}: {line}): {NEEDED}")
            failed = f"an item failed on a worker ({type(error).__name__}: {line}): the same command tries it again"
            return error if isinstance(error, UnmaskError) else UnmaskError(failed)


class Processes:
    """A process of this machine for each device, such as ("cuda:0", "cuda:1"); each sees its own GPU only, as `cuda`.

    A worker is (Popen, the pipe to it, its GPU). It ends when this process does: its pipe is then closed. `lost`: the errors of
    asking a worker that is dead.
    """

    lost: tuple[type[Exception], ...] = (OSError,)

    def __init__(self, devices: tuple[str, ...]) -> None:
        self.count, self.device = len(devices), devices[0].partition(":")[0]
        numbers = [int(device.partition(":")[2] or 0) for device in devices]
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        self.free = [visible.split(",")[number] if visible else str(number) for number in numbers]
        self._threads = ThreadPoolExecutor(self.count)

    def start(self, *work: Any) -> Any:
        """A new worker that has the function and the setup."""
        try:
            sent = pickle.dumps(work)  # `Connection.send` would pass tensors by file descriptors
        except (TypeError, AttributeError, pickle.PicklingError):
            raise InputError(NOT_SENT) from None
        here, there = Pipe()
        gpu, program = self.free.pop(), f"from unmask.runs.engine import serve; serve({there.fileno()})"
        own = {"PYTHONWARNINGS": "ignore", "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        threads = {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // self.count))}
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            env=threads | os.environ | own | ({"CUDA_VISIBLE_DEVICES": gpu} if self.device == "cuda" else {}),
            pass_fds=[there.fileno()],
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # an interrupt of the terminal is this process's to answer
        )
        there.close()
        here.send_bytes(sent)
        return process, here, gpu

    def send(self, worker: Any, item: tuple[Any, ...]) -> Future[Any]:
        """What `Worker.run` will return for the item."""
        pipe: Connection = worker[1]

        def ask() -> Any:
            try:
                pipe.send_bytes(pickle.dumps(item))
                return pickle.loads(pipe.recv_bytes())
            except (EOFError, OSError):
                raise ChildProcessError("its process has ended") from None

        return self._threads.submit(ask)

    def stop(self, worker: Any) -> None:
        """End a worker."""
        process, pipe, gpu = worker
        process.kill()
        process.wait()
        pipe.close()
        self.free.append(gpu)


def serve(descriptor: int) -> None:
    """A process of `Processes`: answers items until its pipe is closed."""
    with Connection(descriptor) as pipe:
        try:
            worker = Worker(*pickle.loads(pipe.recv_bytes()))
            while True:
                pipe.send_bytes(pickle.dumps(worker.run(*pickle.loads(pipe.recv_bytes()))))
        except (EOFError, OSError):
            return


@dataclass(frozen=True)
class RayWorkers:
    """Actors of the Ray cluster that was joined: at most `count`, each with a GPU (`device` cuda) or its share of CPUs.

    The methods are those of `Processes`.
    """

    count: int
    device: str
    cpus: int = 1

    @property
    def lost(self) -> tuple[type[Exception], ...]:
        return (import_module("ray").exceptions.RayError,)

    def start(self, *work: Any) -> Any:
        ray = import_module("ray")
        try:
            sent = [ray.put(part) for part in work]
        except TypeError:  # pickle's long report
            raise InputError(NOT_SENT) from None
        return ray.remote(Worker).options(num_gpus=int(self.device == "cuda"), num_cpus=self.cpus).remote(*sent)

    def send(self, worker: Any, item: tuple[Any, ...]) -> Future[Any]:
        answer: Future[Any] = worker.run.remote(*item).future()
        return answer

    def stop(self, worker: Any) -> None:
        import_module("ray").kill(worker)


Workers = Processes | RayWorkers


def workers_of(engine: str) -> int | None:
    """None for the engine "local"; of "ray:4" the number of workers, 0 where "ray" leaves it to the cluster."""
    name, colon, count = engine.partition(":")
    if one_of("engine", name, ("local", "ray")) == "local" and not colon:
        return None
    if name == "local" or (colon and not (count.isdecimal() and 1 <= int(count) <= 10_000)):
        raise InputError(f"engine {engine!r} is not understood: give local, ray, or ray:4 with the number of workers")
    return int(count or 0)


def ray_workers(count: int = 0, device: str = "auto", most: int | None = None) -> RayWorkers:
    """Joins or starts Ray. `count` 0 is one worker per GPU, or per two CPUs; `most`: the number of items, if it is known."""
    join_ray()
    ray = import_module("ray")
    gpus, cpus = (int(ray.cluster_resources().get(kind, least)) for kind, least in (("GPU", 0), ("CPU", 1)))
    if device not in ("auto", "cpu") and not (gpus and device.startswith("cuda")):
        raise InputError(f"device {device!r} is not known, or the Ray cluster has no GPU: use device cpu")
    on_gpu = bool(gpus) and device != "cpu"
    size = max(1, min(count or (gpus if on_gpu else cpus // 2), most or count or cpus))
    on_one_machine = max((int(node["Resources"].get("CPU", 1)) for node in ray.nodes() if node["Alive"]), default=1)
    return RayWorkers(size, "cuda" if on_gpu else "cpu", 1 if on_gpu else max(1, min(cpus // size, on_one_machine)))


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
            raise UnmaskError(f"Ray does not start on this machine ({last_line(error)}): use engine local") from None
        raise InputError(
            f"RAY_ADDRESS {address!r} cannot be joined as a Ray cluster ({last_line(error)}): start one there (ray start "
            "--head) with the same version of Ray; if it asks for a token, set RAY_AUTH_TOKEN and RAY_AUTH_MODE=token"
        ) from None


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
        for index, left in enumerate(items):
            while left is not None:
                result = function(*before, left)
                left = rest(left, result) if rest else None  # noqa: PLW2901
                yield index, result
        return
    unread, waiting = (_Task(number, (item,)) for number, item in enumerate(items)), deque[_Task]()
    idle, busy, unborn = list[Any](), dict[Future[Any], tuple[Any, _Task]](), 0

    def give(worker: Any, task: _Task) -> None:
        busy[workers.send(worker, task.item)] = (worker, task)

    try:
        while True:
            waiting.extend(islice(unread, max(0, workers.count - len(waiting))))
            while idle and waiting:
                give(idle.pop(), waiting.popleft())
            starting = sum(task.number is None for _, task in busy.values())
            if not waiting and len(busy) == starting:
                return
            for _ in range(min(len(waiting) - starting, workers.count - len(busy))):
                give(workers.start(function, setup), _Task(None))
                starting += 1
            answered = wait(busy, PATIENCE if starting == len(busy) else None, FIRST_COMPLETED).done
            if not answered:
                why = f"no worker has started in {PATIENCE:.0f} seconds: on Ray, see `ray status`"
                warnings.warn(why, UnmaskWarning, stacklevel=3)
                continue
            worker, task = busy.pop(answer := answered.pop())
            try:
                result = answer.result()
            except workers.lost as death:
                workers.stop(worker)
                unborn += task.number is None
                if max(unborn, task.lost + 1) == LOST:
                    over = "before they began" if task.number is None else f"over item {task.number}"
                    raise UnmaskError(f"{LOST} workers died {over} ({last_line(death)}): is their memory too small?") from None
                waiting.extendleft([] if task.number is None else [task._replace(lost=task.lost + 1)])
                continue
            idle.append(worker)
            unborn = 0
            if isinstance(result, UnmaskError):
                result.add_note(f"item {task.number}")
                raise result
            if task.number is not None:
                if rest and (left := rest(task.item[0], result)) is not None:
                    give(idle.pop(), _Task(task.number, (left,)))
                yield task.number, result
    except workers.lost as loss:
        raise UnmaskError(f"workers are lost ({last_line(loss)}): what was done is kept, the same command continues") from None
    finally:
        for worker in [*idle, *(worker for worker, _ in busy.values())]:
            workers.stop(worker)


def last_line(error: BaseException) -> str:
    """The last line of an error's message, or its name."""
    return (str(error).strip() or type(error).__name__).splitlines()[-1]
