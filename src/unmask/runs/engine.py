"""One function on many items: in this process, in processes of this machine, or on the workers
of a Ray cluster.

    for index, result in each(score, chunks, None, partial(load, "name")):                   # a
                                                                                             plain
                                                                                             loop
    for index, result in each(score, chunks, ray_workers("ray:4"), partial(load, "name")):   #
                                                                                             on
                                                                                             Ray,
                                                                                             in
                                                                                             any
                                                                                             order

computes `function(setup(), item)`. Workers get both as functions of a module or
`functools.partial` of one, and call the setup once. Of workers alone: `rest(item, result)` is
the item that follows on the same worker, which may hold its state; None at the end. A dead
worker is replaced, and its item goes to another. An error of the function ends the loop, as do
LOST workers that die in a row over one item; the results before it are the caller's.
"""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

from unmask.common.errors import InputError, UnmaskError, UnmaskWarning, argument_name
from unmask.common.files import first_line

LOST, CONNECT, PATIENCE = 3, 10.0, 6
"""Workers that may die in a row; seconds to reach a cluster, which Ray itself would try for
minutes, and then end this process without a word; times as many without a worker before a
warning."""


class Worker:
    """In a worker's process: gets (function, setup), answers None, then gets items and answers
    their results.
    """

    function: Callable[..., Any] | None = None
    loaded: Any = None

    def answer(self, message: Any) -> Any:
        """The result, or the error that ends the loop."""
        try:
            if self.function is not None:
                return self.function(self.loaded, message)
            self.loaded = message[1]()
            self.function = message[0]
        except UnmaskError as error:
            return error
        except Exception as error:
            return UnmaskError(
                f"a worker failed ({type(error).__name__}: {first_line(error)}): the same command"
                " tries again"
            )


class Processes:
    """A process of this machine for each device, such as ("cuda:0", "cuda:1"); each sees its
    own GPU only, as `cuda`.

    A worker is (Popen, its GPU). Its standard input has pickled messages, and closes when this
    process ends.
    """

    def __init__(self, devices: tuple[str, ...]) -> None:
        self.count: int = len(devices)
        self.device: str = devices[0].partition(":")[0]
        visible, numbers = (
            os.environ.get("CUDA_VISIBLE_DEVICES"),
            [device.partition(":")[2] or "0" for device in devices],
        )
        self.free: list[str] = [
            visible.split(",")[int(number)] if visible else number for number in numbers
        ]
        self._threads = ThreadPoolExecutor(self.count)

    def start(self) -> Any:
        """A new worker, in a Python of its own; an interrupt of the terminal does not reach it."""
        gpu = self.free.pop()
        own = {
            "PYTHONWARNINGS": "ignore",
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }
        threads = {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // self.count))}
        environment = (
            threads
            | os.environ
            | own
            | ({"CUDA_VISIBLE_DEVICES": gpu} if self.device == "cuda" else {})
        )
        program, pipe = (
            [sys.executable, "-c", "from unmask.runs.engine import serve; serve()"],
            subprocess.PIPE,
        )
        apart: dict[str, Any] = {"start_new_session": True}
        if hasattr(subprocess, "CREATE_NEW_PROCESS_GROUP"):  # Windows, which has no sessions
            apart = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        return subprocess.Popen(program, stdin=pipe, stdout=pipe, env=environment, **apart), gpu

    def send(self, worker: Any, message: Any) -> Future[Any]:
        """The answer to a message; an exception if the worker dies."""
        process, data = worker[0], pickle.dumps(message)

        def ask() -> Any:
            with suppress(EOFError, OSError, pickle.UnpicklingError):
                process.stdin.write(data)
                process.stdin.flush()
                return pickle.load(process.stdout)
            raise ChildProcessError("its process has ended")

        return self._threads.submit(ask)

    def stop(self, worker: Any) -> None:
        """End a worker."""
        worker[0].kill()
        worker[0].wait()
        self.free.append(worker[1])


def serve() -> None:
    """Answers the messages on standard input, in a process of `Processes`; what its function
    prints is dropped.
    """
    answers, worker = os.fdopen(os.dup(1), "wb"), Worker()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    with suppress(EOFError, OSError):
        while True:
            answers.write(pickle.dumps(worker.answer(pickle.load(sys.stdin.buffer))))
            answers.flush()


@dataclass(frozen=True)
class RayWorkers:
    """Actors of a Ray cluster: at most `count`, each with a GPU (`device` cuda) or `cpus`.
    Methods are those of `Processes`.
    """

    count: int
    device: str
    cpus: int = 1

    def start(self) -> Any:
        self.refuse_lost()
        return (
            import_module("ray")
            .remote(Worker)
            .options(num_gpus=int(self.device == "cuda"), num_cpus=self.cpus)
            .remote()
        )

    def send(self, worker: Any, message: Any) -> Any:
        return worker.answer.remote(message).future()

    def refuse_lost(self) -> None:
        """Raises if the cluster's server does not answer, or the node of this process is dead.
        A ray:// address has neither.
        """
        ray = import_module("ray")
        if not os.environ.get("RAY_ADDRESS", "").startswith("ray://"):
            connect((context := ray.get_runtime_context()).gcs_address)
            if any(
                node["NodeID"] == context.get_node_id() and not node["Alive"]
                for node in ray.nodes()
            ):
                raise ConnectionError("the node of this process is dead")

    def stop(self, worker: Any) -> None:
        self.refuse_lost()
        import_module("ray").kill(worker)


def connect(address: str) -> None:
    """Raises OSError if nobody listens at HOST:PORT, or SCHEME://HOST:PORT; an address without
    a port is not tried.
    """
    if (url := urlsplit(f"//{address.rpartition('//')[2]}")).port is not None:
        socket.create_connection((url.hostname, url.port), CONNECT).close()


Workers = Processes | RayWorkers


def ray_workers(engine: str, device: str = "auto", most: int | None = None) -> RayWorkers:
    """Joins or starts Ray. "ray:4" has four workers, "ray" one per GPU, or per two CPUs; at
    most `most`, the number of items.
    """
    join_ray()
    ray = import_module("ray")
    gpus, cpus = (
        int(ray.cluster_resources().get(kind, least)) for kind, least in (("GPU", 0), ("CPU", 1))
    )
    if device not in ("auto", "cpu") and not (gpus and device.startswith("cuda")):
        raise InputError(
            f"{device!r} is not known, or the Ray cluster has no GPU",
            argument="device",
            use=f"use {argument_name('device', 'cpu')}",
        )
    on_gpu = gpus > 0 and device != "cpu"
    count = int(engine.partition(":")[2] or (gpus if on_gpu else max(1, cpus // 2)))
    count = min(count, most or count)
    on_one_machine = max(
        (int(node["Resources"].get("CPU", 1)) for node in ray.nodes() if node["Alive"]), default=1
    )
    return RayWorkers(
        count,
        "cuda" if on_gpu else "cpu",
        1 if on_gpu else max(1, min(cpus // count, on_one_machine)),
    )


def join_ray() -> None:
    """Join the cluster that RAY_ADDRESS names, or start Ray on this machine; a started Ray is
    used as it is.
    """
    address, token_file = os.environ.get("RAY_ADDRESS"), os.path.expanduser("~/.ray/auth_token")
    if address is not None and (
        {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & set(os.environ) or os.path.isfile(token_file)
    ):
        os.environ.setdefault(
            "RAY_AUTH_MODE", "token"
        )  # else Ray uses no token with a named address
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    try:
        import ray

        if ray.is_initialized():
            return
        if address is not None:
            connect(address)
        ray.init(include_dashboard=False, log_to_driver=False, logging_level="CRITICAL")
    except ImportError:
        raise InputError(
            f"{argument_name('engine', 'ray')} needs the package ray, which is not installed: pip"
            ' install "unmask[ray]"'
        ) from None
    except Exception as error:
        where = "Ray on this machine" if address is None else f"RAY_ADDRESS {address!r}"
        local = argument_name("engine", "local")
        use = f"start one (ray start --head) with the same version of Ray, or use {local}"
        token = "if it asks for a token, set RAY_AUTH_TOKEN and RAY_AUTH_MODE=token"
        raise InputError(
            f"{where} cannot be joined as a cluster ({first_line(error)}): {use}; {token}"
        ) from None


def each(
    function: Callable[[Any, Any], Any],
    items: Iterable[Any],
    workers: Workers | None,
    setup: Callable[[], Any],
    rest: Callable[[Any, Any], Any] = lambda item, result: None,
) -> Generator[tuple[int, Any], None, None]:
    """(index of the item, result) as results come; without workers, in order and in this
    process.
    """
    if workers is None:
        loaded = setup()
        yield from enumerate(function(loaded, item) for item in items)
        return
    unread, idle, deaths = enumerate(items), list[Any](), Counter[int | None]()
    tasks = list(islice(unread, 1))  # more items are read when a worker is free for them
    busy = dict[
        Future[Any], tuple[Any, int | None, Any]
    ]()  # worker, index, item; the index is None while a worker begins
    silent = 0  # times CONNECT seconds without an answer

    def give(index: int | None, message: Any) -> None:
        try:
            answer = workers.send(idle[-1], message)
        except (TypeError, AttributeError, pickle.PicklingError):
            raise InputError(
                "a function or object cannot be sent to workers: define it in a module"
            ) from None
        busy[answer] = idle.pop(), index, message

    try:
        while True:
            while idle and (task := tasks.pop() if tasks else next(unread, None)):
                give(*task)
            beginning = all(index is None for _, index, _ in busy.values())
            if beginning and (idle or not tasks):
                return
            while len(idle) + len(busy) < workers.count:
                idle.append(workers.start())
                give(None, (function, setup))
            if not (answered := wait(busy, CONNECT, FIRST_COMPLETED).done):
                if isinstance(workers, RayWorkers):
                    workers.refuse_lost()
                silent += 1
                if beginning and silent % PATIENCE == 0:
                    warnings.warn(
                        "no worker has started in a minute: on Ray, see `ray status`",
                        UnmaskWarning,
                        stacklevel=3,
                    )
                continue
            silent = 0
            worker, index, item = busy.pop(answer := answered.pop())
            if (death := answer.exception()) is not None:
                workers.stop(worker)
                deaths[index] += 1
                if deaths[index] == LOST:
                    raise UnmaskError(
                        f"{LOST} workers died in a row ({first_line(death)}): is their memory too"
                        " small?"
                    )
                tasks += [] if index is None else [(index, item)]
                continue
            idle.append(worker)
            deaths[index] = 0
            if isinstance(result := answer.result(), UnmaskError):
                needed = (
                    "every machine needs unmask, the model under the same name or path, and memory"
                    " for it"
                )
                raise (
                    result
                    if index is not None
                    else InputError(f"a worker cannot begin ({first_line(result)}): {needed}")
                )
            if index is not None:
                yield index, result
                tasks += [] if (following := rest(item, result)) is None else [(index, following)]
    except Exception as error:
        if not isinstance(workers, RayWorkers) or not (
            isinstance(error, OSError) or type(error).__module__.startswith("ray.")
        ):
            raise
        use = "start it again and give the same command again; what the run has stored stays"
        raise UnmaskError(f"the Ray cluster is lost ({first_line(error)}): {use}") from None
    finally:
        with suppress(Exception):  # of a lost cluster
            for worker in [*idle, *(worker for worker, _, _ in busy.values())]:
                workers.stop(worker)
