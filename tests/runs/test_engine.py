import operator
import os
import signal
import socket
import threading
import time
from concurrent.futures import Future
from functools import partial
from itertools import islice
from pathlib import Path

import pytest

from support.workers import workers as processes
from unmask.common.errors import InputError, UnmaskError
from unmask.runs import engine, ray_cluster
from unmask.runs.engine import LOST, each
from unmask.runs.processes import Processes
from unmask.runs.ray_cluster import RayWorkers, join_ray, ray_workers


def test_in_this_process_items_come_in_order_and_an_error_goes_through():
    results = each(operator.truediv, iter([1, 2, 0]), None, partial(int, "4"))
    assert [next(results), next(results)] == [(0, 4.0), (1, 2.0)]
    with pytest.raises(ZeroDivisionError):
        next(results)


@pytest.fixture(params=["processes", "ray"])
def pool(request):
    """A function from a number to that many workers: processes of this machine, or Ray's."""
    if request.param == "ray":
        request.getfixturevalue("ray_here")
        return lambda count: ray_workers(f"ray:{count}")
    return lambda count: Processes(("cpu",) * count)


@pytest.mark.parametrize("count", [1, 2])
def test_workers_compute_every_item_once_with_what_the_setup_returned(pool, count):
    results = list(each(operator.truediv, [1, 2, 4, 8], pool(count), partial(int, "8")))
    assert sorted(results) == [(0, 8.0), (1, 4.0), (2, 2.0), (3, 1.0)]
    assert list(each(operator.add, [], pool(count), int)) == []
    assert all_ended()


def getenv(name: str, _: int) -> str | None:
    return os.environ.get(name)


def test_a_process_sees_its_own_gpu(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    results = list(
        each(
            getenv, range(6), Processes(("cuda:1", "cuda:0")), partial(str, "CUDA_VISIBLE_DEVICES")
        )
    )
    assert {value for _, value in results} <= {"4", "5"}
    assert len(results) == 6
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert Processes(("cuda:1", "cuda:3")).free == ["1", "3"]


def all_ended() -> bool:
    """Ray ends its processes a moment after it was asked to."""
    until = time.monotonic() + 600
    while processes() and time.monotonic() < until:
        time.sleep(0.05)
    return not processes()


def count_on(log: Path, item: tuple[int, int]) -> int:
    """Counts one further, and notes it; at 3 its process dies once, at 7 always."""
    number = item[0] + 1
    if number == 7 or (number == 3 and not (log / "died").exists()):
        (log / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    with open(log / "done", "a") as file:
        file.write(f"{number}\n")
    return number


def left(item: tuple[int, int], number: int) -> tuple[int, int] | None:
    return (number, item[1]) if number < item[1] else None


def test_work_of_a_worker_that_dies_goes_on_after_its_last_result(pool, tmp_path):
    results = each(count_on, [(0, 5), (9, 11)], pool(1), partial(Path, tmp_path), left)
    assert sorted(results) == [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (1, 10), (1, 11)]
    assert sorted((tmp_path / "done").read_text().split(), key=int) == [*"12345", "10", "11"]
    assert (tmp_path / "died").exists()


def test_an_item_that_kills_every_worker_ends_the_loop(pool, tmp_path):
    (tmp_path / "died").touch()
    with pytest.raises(
        UnmaskError, match=f"^{LOST} workers died in a row .*: is their memory too small[?]$"
    ):
        list(each(count_on, [(1, 2), (6, 8)], pool(1), partial(Path, tmp_path), left))


def refuse(one: int, n: int) -> float:
    if n == 2:
        raise InputError("2 is refused: give another")
    return one / n


def test_an_error_of_the_function_is_raised_here(pool):
    with pytest.raises(InputError, match="^2 is refused: give another$"):
        list(each(refuse, [1, 2], pool(1), partial(int, "1")))
    with pytest.raises(
        UnmaskError,
        match=r"^a worker failed \(ZeroDivisionError: division by zero\): the same command",
    ):
        list(each(refuse, [0], pool(1), partial(int, "1")))
    with pytest.raises(
        InputError, match=r"a worker cannot begin \(.*ValueError: .*\): every machine needs unmask"
    ) as error:
        list(each(refuse, [1], pool(1), partial(int, "no number")))
    assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="cannot be sent to workers: define it in a module"):
        list(each(refuse, [1], pool(1), partial(int, threading.Lock())))
    assert all_ended()


def test_items_are_read_as_workers_take_them_and_workers_end_with_the_loop(pool):
    read: list[int] = []
    results = each(operator.sub, (read.append(n) or n for n in range(1, 9)), pool(1), int)
    assert next(results) == (0, -1)
    assert len(read) < 4
    results.close()
    assert all_ended()


def test_what_ray_has_decides_the_workers(ray_here):
    assert ray_workers("ray") == RayWorkers(1, "cpu", 2)
    assert ray_workers("ray:2", "cpu") == RayWorkers(2, "cpu", 1)
    assert ray_workers("ray:8", most=1) == RayWorkers(1, "cpu", 2)
    assert ray_workers("ray:4") == RayWorkers(4, "cpu", 1)
    with pytest.raises(InputError, match="the Ray cluster has no GPU: use device=cpu"):
        ray_workers("ray:1", "cuda")


@pytest.mark.parametrize(
    ("address", "why"), [("127.0.0.1:{}", "Connection refused"), ("nowhere", "Invalid address")]
)
def test_a_cluster_that_cannot_be_reached_is_one_line(monkeypatch, address, why):
    ray, bound = pytest.importorskip("ray"), socket.socket()
    bound.bind(("127.0.0.1", 0))  # nobody listens here, nor can begin to
    address = address.format(bound.getsockname()[1])
    monkeypatch.setenv("RAY_ADDRESS", address)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(
        InputError,
        match=(
            rf"'{address}' cannot be joined .*{why}.*: .* set RAY_AUTH_TOKEN and"
            r" RAY_AUTH_MODE=token$"
        ),
    ):
        join_ray()


@pytest.mark.filterwarnings("ignore:no worker has started")
@pytest.mark.parametrize("lost_at", [0, 1, 3])
def test_a_cluster_that_is_lost_while_a_worker_starts_begins_or_works_is_one_line(
    ray_here, monkeypatch, lost_at
):
    sent, send = [], RayWorkers.send

    def send_some(self, worker, message):
        sent.append(message)
        return (
            send(self, worker, message) if len(sent) < lost_at else Future()
        )  # one that is never answered

    def connect(address):
        if len(sent) >= lost_at:
            raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(RayWorkers, "send", send_some)
    monkeypatch.setattr(ray_cluster, "connect", connect)
    monkeypatch.setattr(engine, "SILENCE_SECONDS", 0.01)
    results = each(operator.sub, [1, 2], ray_workers("ray:1"), int)
    answered = [(0, -1)] if lost_at == 3 else []
    assert list(islice(results, len(answered))) == answered
    with pytest.raises(
        UnmaskError,
        match=r"^the Ray cluster is lost \(.*refused\): start it again and give the same command",
    ):
        next(results)


@pytest.mark.parametrize(
    ("token", "mode"), [(None, None), ("RAY_AUTH_TOKEN", "token"), ("file", "token")]
)
def test_a_token_of_this_machine_is_used_with_a_named_cluster(monkeypatch, tmp_path, token, mode):
    ray = pytest.importorskip("ray")
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_AUTH_MODE"):
        monkeypatch.setenv(name, "set and removed, so that it is restored")
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    if token == "file":
        (tmp_path / ".ray").mkdir()
        (tmp_path / ".ray" / "auth_token").write_text("0123")
    elif token:
        monkeypatch.setenv(token, "0123")
    join_ray()
    assert os.environ.get("RAY_AUTH_MODE") == mode
