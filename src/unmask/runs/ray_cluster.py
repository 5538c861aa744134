"""Workers of a Ray cluster, which is joined, or started on this machine."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from unmask.common.errors import InputError, argument_name
from unmask.common.files import first_line
from unmask.runs.worker import Worker

CONNECT_SECONDS = 10.0
"""How long a cluster may take to accept a connection. Ray itself would try for minutes, and then
end this process without a word."""
TOKENS = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
"""Variables of the environment that hold a token, or the path of one."""


@dataclass(frozen=True)
class RayWorkers:
    """Actors of a Ray cluster: at most `count`, each with a GPU (`device` cuda) or `cpus`.

    Methods are those of `Processes`.
    """

    count: int
    device: str
    cpus: int = 1

    def start(self) -> Any:
        """A new worker, which begins when the cluster has room for it."""
        self.refuse_lost()
        ray = import_module("ray")
        actor = ray.remote(Worker).options(num_gpus=int(self.device == "cuda"), num_cpus=self.cpus)
        return actor.remote()

    def send(self, worker: Any, message: Any) -> Any:
        """The answer to a message, as a future."""
        return worker.answer.remote(message).future()

    def refuse_lost(self) -> None:
        """Raise if the cluster's server does not answer, or the node of this process is dead.

        A ray:// address has neither.
        """
        if os.environ.get("RAY_ADDRESS", "").startswith("ray://"):
            return
        ray = import_module("ray")
        context = ray.get_runtime_context()
        connect(context.gcs_address)
        own_node = context.get_node_id()
        for node in ray.nodes():
            if node["NodeID"] == own_node and not node["Alive"]:
                raise ConnectionError("the node of this process is dead")

    def stop(self, worker: Any) -> None:
        """End a worker."""
        self.refuse_lost()
        import_module("ray").kill(worker)


def connect(address: str) -> None:
    """Raise OSError if nobody listens at HOST:PORT, or SCHEME://HOST:PORT; an address without
    a port is not tried.
    """
    _, _, place = address.rpartition("//")
    url = urlsplit(f"//{place}")
    if url.port is not None:
        socket.create_connection((url.hostname, url.port), CONNECT_SECONDS).close()


def ray_workers(engine: str, device: str = "auto", most: int | None = None) -> RayWorkers:
    """Joins or starts Ray.

    engine   "ray:4" has four workers, "ray" one per GPU, or per two CPUs
    most     no more workers than this, the number of items
    """
    join_ray()
    ray = import_module("ray")
    resources = ray.cluster_resources()
    gpus = int(resources.get("GPU", 0))
    cpus = int(resources.get("CPU", 1))
    if device not in ("auto", "cpu") and not (gpus and device.startswith("cuda")):
        raise InputError(
            f"{device!r} is not known, or the Ray cluster has no GPU",
            argument="device",
            use=f"use {argument_name('device', 'cpu')}",
        )
    on_gpu = gpus > 0 and device != "cpu"
    _, _, number = engine.partition(":")
    if number:
        count = int(number)
    elif on_gpu:
        count = gpus
    else:
        count = max(1, cpus // 2)
    if most:
        count = min(count, most)
    if on_gpu:
        return RayWorkers(count=count, device="cuda", cpus=1)
    of_nodes = [int(node["Resources"].get("CPU", 1)) for node in ray.nodes() if node["Alive"]]
    on_one_machine = max(of_nodes, default=1)  # an actor cannot have CPUs of two machines
    return RayWorkers(count=count, device="cpu", cpus=max(1, min(cpus // count, on_one_machine)))


def join_ray() -> None:
    """Join the cluster that RAY_ADDRESS names, or start Ray on this machine; a started Ray is
    used as it is.
    """
    address = os.environ.get("RAY_ADDRESS")
    token_file = os.path.expanduser("~/.ray/auth_token")
    has_token = any(name in os.environ for name in TOKENS) or os.path.isfile(token_file)
    if address is not None and has_token:  # else Ray uses no token with a named address
        os.environ.setdefault("RAY_AUTH_MODE", "token")
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
