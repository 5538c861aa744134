"""The processes of one training run: who they are, what they share out, what they add up, and how they end together.

    torchrun --nproc-per-node 4 -m unmask train ...

torchrun starts the same command several times and numbers the processes (RANK of WORLD_SIZE; LOCAL_RANK on each machine). They
talk by gloo between CPUs and by NCCL between GPUs, one GPU for each. The first process writes and prints. A process alone has no
group, and nothing here does anything.

With rows R_p of a batch in process p and the divisor Z of the whole batch, the loss is sum_p L_p with L_p = (1 / Z) sum over R_p.
DistributedDataParallel gives every process the mean of the gradients of N L_p over the N processes, which is the loss' gradient.

All processes end together with one line. In a part of the run that all go through (`agreed`), each learns of the errors of the
others, and the first reports one. Elsewhere a process that fails leaves, the others lose their connection to it, and the first
that says so in the store, which torchrun holds, reports it (`ProcessError.quiet` in the others).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from itertools import count
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from unmask.errors import InputError, ProcessError, UnmaskError
from unmask.models.loading import resolve_device
from unmask.models.source import first_line
from unmask.runs.fingerprint import content_hash, provenance
from unmask.training.packing import Rows

MEETING = timedelta(minutes=10)
"""How long a process waits for the others to start."""
WORK = timedelta(days=7)
"""How long it waits for them later, for example until the first has tokenised a corpus. One that dies is noticed at once, as its
connections close; a machine that vanishes without closing them is noticed by torchrun."""
SAME = "start all processes with the same command, files and versions"
MOST_SHOWN = 60
CLOSED = ("closed by peer", "reset by peer", "broken pipe", "connection refused", "pair closure", "remote process exit")
"""Parts of messages, in small letters, by which gloo and NCCL report that another process is gone."""


@dataclass(frozen=True)
class Processes:
    """One of `size` processes, and its device."""

    device: torch.device = torch.device("cpu")
    rank: int = 0
    size: int = 1
    local: int = 0
    store: Any = None

    @property
    def alone(self) -> bool:
        """Whether there is no other process."""
        return self.size == 1

    @property
    def leads(self) -> bool:
        """Whether this is the process that writes."""
        return self.rank == 0

    def rows(self, whole: int) -> Rows:
        """The rows that this process computes, of a batch of `whole`: as many as any other, or one fewer or more."""
        return Rows(whole * self.rank // self.size, whole * (self.rank + 1) // self.size, whole)

    def refuse_few_rows(self, rows: int, length: int) -> None:
        """Raise InputError if batches of `rows` rows of `length` tokens leave a process without a row."""
        if rows < self.size:
            raise InputError(
                f"{self.size} processes cannot share batches of {rows} rows of {length} tokens: "
                f"give --batch-tokens {self.size * length} or more, or start fewer processes"
            )

    def total(self, numbers: Tensor) -> Tensor:
        """The sum of the tensors of all processes, in place."""
        if not self.alone:
            dist.all_reduce(numbers)
        return numbers

    def highest(self, number: int) -> int:
        """The highest of the numbers of all processes."""
        if self.alone:
            return number
        found = torch.tensor(number)
        dist.all_reduce(found, dist.ReduceOp.MAX)
        return int(found)

    def reduced(self, model: nn.Module, loss: Callable[..., Any], compiled: bool) -> Callable[..., Any]:
        """`loss`, whose gradients by the parameters of `model` are averaged over the processes; parts of it may be `compiled`."""
        if self.alone:
            return loss

        class Loss(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.model = model

            def forward(self, *given: Any) -> Any:
                return loss(*given)

        wrapped = nn.parallel.DistributedDataParallel(Loss(), broadcast_buffers=False, gradient_as_bucket_view=True)

        def whole_parts(*given: Any) -> Any:
            """Torch would cut what it compiles at the edges of gradient buckets; each stage is small enough."""
            with torch._dynamo.config.patch(optimize_ddp=False):
                return wrapped(*given)

        return whole_parts if compiled else wrapped

    @contextmanager
    def in_turn(self) -> Iterator[None]:
        """The first process of each machine goes through this part before the others, which find its files in the cache."""
        if self.local:
            self.highest(0)
        try:
            yield
        finally:
            if not self.local:
                self.highest(0)

    @contextmanager
    def agreed(self) -> Iterator[None]:
        """A part that all processes leave together: if one of them fails there, all end, and the first reports it."""
        if self.alone:
            yield
            return
        own: Exception | None = None
        try:
            yield
        except Exception as error:
            if _is_loss(error):
                raise
            own = error
        failed = [(rank, text) for rank, text in enumerate(self._gathered(_text(own))) if text]
        if not failed:
            return
        if own is not None and (self.leads or not isinstance(own, UnmaskError | OSError)):
            raise own
        rank, text = failed[0]
        raise ProcessError(_of(rank, text), quiet=not self.leads) from own

    def refuse_others(self, what: Mapping[str, Any]) -> None:
        """Raise if `what`, values by name, is not the same in all processes."""
        if self.alone:
            return
        first, *others = self._gathered({name: _short(value) for name, value in what.items()})
        for rank, other in enumerate(others, 1):
            for name in (name for name in [*first, *other] if first.get(name) != other.get(name)):
                message = f"process {rank} has {name} {other.get(name)}, and process 0 {first.get(name)}: {SAME}"
                raise InputError(message) if self.leads else ProcessError(message, quiet=True)

    def _gathered(self, value: Any) -> list[Any]:
        found: list[Any] = [None] * self.size
        dist.all_gather_object(found, value)
        return found

    def _ended(self, error: Exception) -> Exception:
        """The error to raise for one that this process met: quiet if another process has reported its own before."""
        lost = _is_loss(error)
        with suppress(Exception):  # without a store nobody knows who was first, and all report
            if self.store.add("ended", 1) > 1:
                return ProcessError("another process ended the run: see its message", quiet=True)
        if lost:
            return ProcessError(
                f"another process of {self.size} has ended, and the run with it: "
                "add --resume to the same command to continue from the last checkpoint"
            )
        if isinstance(error, dist.DistError):
            return ProcessError(f"the processes do not reach each other ({first_line(error)}): check the network and the GPUs")
        plain = isinstance(error, UnmaskError | OSError | MemoryError | torch.OutOfMemoryError)
        return ProcessError(_of(self.rank, _text(error))) if plain and not self.leads else error


ALONE = Processes()
_RUNS = count()
"""Each run has its own keys in the store: those of an earlier one have addresses at which nobody listens any more."""


@contextmanager
def joined(device: str) -> Iterator[Processes]:
    """This process among those that torchrun started with it; the only one without torchrun."""
    size = int(os.environ.get("WORLD_SIZE", 1))
    if size == 1:
        yield Processes(resolve_device(device))
        return
    processes, whole = _meet(device, size), False
    try:
        yield processes
        whole = True
    except ProcessError:
        raise
    except Exception as error:
        ended = processes._ended(error)
        if ended is error:
            raise
        raise ended from error
    finally:
        if whole or processes.device.type == "cpu":  # NCCL would wait for a process that is gone
            dist.destroy_process_group()


@cache
def _rendezvous() -> Any:
    """The store of all runs of this process, its number and how many there are; the first process may hold the store."""
    return next(rendezvous("env://", timeout=MEETING))


def _meet(device: str, size: int) -> Processes:
    if dist.is_initialized():
        raise InputError("torch.distributed is initialised already: leave this to unmask.train")
    local = int(os.environ.get("LOCAL_RANK", 0))
    on = device_of(device, local)
    try:
        whole, rank, size = _rendezvous()
        store = PrefixStore(f"unmask/{next(_RUNS)}", whole)
        store.set(f"here/{rank}", "")
        store.wait([f"here/{other}" for other in range(size)], MEETING)
        backend = "gloo" if on.type == "cpu" else "cpu:gloo,cuda:nccl"
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=WORK)
    except (RuntimeError, ValueError) as error:
        raise InputError(
            f"process {os.environ.get('RANK')} of {size} does not reach the others ({first_line(error)}): "
            "start them all by one torchrun command"
        ) from None
    return Processes(on, rank, size, local, store)


def device_of(device: str, local: int) -> torch.device:
    """The GPU with the process' number on its machine, or the CPU."""
    on = resolve_device(device)
    if on.type == "cpu":
        return on
    if device not in ("auto", "cuda"):
        raise InputError(f"device {device!r} is one GPU, and there are several processes: give --device cuda, one GPU for each")
    count, needed = torch.cuda.device_count(), int(os.environ.get("LOCAL_WORLD_SIZE", local + 1))
    if needed > count:
        raise InputError(
            f"{needed} processes were started on a machine with {count} GPUs: give --nproc-per-node {count}, or --device cpu"
        )
    on = torch.device("cuda", local)
    torch.cuda.set_device(on)
    return on


def versions(device: torch.device) -> dict[str, Any]:
    """What must be equal in all processes beside the command: versions, and the device's kind."""
    found = provenance()
    return {**found["versions"], "device": found["gpu"] if device.type == "cuda" else found["processor"]}


def _is_loss(error: Exception) -> bool:
    """Whether an error says that another process is gone."""
    said = str(error).lower()
    return isinstance(error, RuntimeError) and not isinstance(error, torch.OutOfMemoryError) and any(x in said for x in CLOSED)


def _text(error: Exception | None) -> str:
    if error is None or isinstance(error, UnmaskError):
        return str(error or "")
    return f"{type(error).__name__}: {first_line(error)}"


def _of(rank: int, text: str) -> str:
    return f"in process {rank}: {text}" if rank else text


def _short(value: object) -> str:
    """A value in a few words; of a long one its beginning and its hash."""
    text = "unset" if value in (None, "None") else " ".join(str(value).split())
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN // 2]}... ({content_hash(text)})"
