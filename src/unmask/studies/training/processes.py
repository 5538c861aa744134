"""The processes of one training run: who they are, what they share out, and what they add up.

torchrun starts the same command several times and numbers the processes (RANK of WORLD_SIZE;
LOCAL_RANK on each machine). They talk by gloo between CPUs and by NCCL between GPUs, one GPU
for each. The first process writes and prints. If one is lost, torchrun ends the others and
reports it. A process alone has no group, and nothing here does anything.

Process p of N has the rows R_p of a batch. With Z the divisor of the whole batch,

    loss = sum_p L_p,    L_p = (1 / Z) sum over R_p

DistributedDataParallel gives every process the mean of the gradients of N L_p over the processes,
which is the loss' gradient.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from unmask.common.errors import InputError, argument_name
from unmask.runs.devices import resolve_device

WAIT = timedelta(days=7)
"""How long a process waits for the others, for example until the first has tokenised a corpus."""


@dataclass(frozen=True)
class Processes:
    """One of `size` processes, and its device.

    rank    its number among all processes
    local   its number among those on its machine
    """

    device: torch.device = torch.device("cpu")
    rank: int = 0
    size: int = 1
    local: int = 0

    @property
    def alone(self) -> bool:
        """Whether there is no other process."""
        return self.size == 1

    @property
    def leads(self) -> bool:
        """Whether this is the process that writes."""
        return self.rank == 0

    def rows(self, whole: int) -> tuple[int, int]:
        """The rows that this process computes, of a batch of `whole`: the first, and the one after
        the last.

        The numbers of rows of two processes differ by at most one.
        """
        first = whole * self.rank // self.size
        stop = whole * (self.rank + 1) // self.size
        return first, stop

    def refuse_few_rows(self, rows: int, length: int) -> None:
        """Raise InputError if batches of `rows` rows of `length` tokens leave a process without
        a row.
        """
        if rows < self.size:
            enough = argument_name("batch_tokens", self.size * length)
            raise InputError(
                f"{self.size} processes cannot share batches of {rows} rows of {length} tokens:"
                f" give {enough} or more, or start fewer processes"
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
        highest = torch.tensor(number)
        dist.all_reduce(highest, dist.ReduceOp.MAX)
        return int(highest)

    def reduced(self, model: nn.Module, loss: Callable[..., Any]) -> Callable[..., Any]:
        """`loss`, whose gradients by the parameters of `model` are averaged over the processes."""
        if self.alone:
            return loss

        class Loss(nn.Module):
            """The loss as a module that has the parameters, which torch asks for."""

            def __init__(self) -> None:
                super().__init__()
                self.model = model

            def forward(self, *arguments: Any) -> Any:
                return loss(*arguments)

        averaged = nn.parallel.DistributedDataParallel(
            Loss(), broadcast_buffers=False, gradient_as_bucket_view=True
        )
        if self.device.type != "cuda":
            return averaged

        def averaged_and_compiled(*arguments: Any) -> Any:
            """Torch would cut what it compiles at the edges of gradient buckets; each stage is
            small enough.
            """
            with torch._dynamo.config.patch(optimize_ddp=False):
                return averaged(*arguments)

        return averaged_and_compiled

    @contextmanager
    def in_turn(self) -> Iterator[None]:
        """The first process of each machine goes through this part before the others, which
        find its files in the cache.

        Everyone waits in `highest` once: the others before the part, the first after it.
        """
        goes_first = self.local == 0
        if not goes_first:
            self.highest(0)
        yield
        if goes_first:
            self.highest(0)


ALONE: Processes = Processes()


@contextmanager
def joined(device: str) -> Iterator[Processes]:
    """This process among those that torchrun started with it; the only one without torchrun."""
    if int(os.environ.get("WORLD_SIZE", 1)) == 1:
        yield Processes(resolve_device(device))
        return
    local = int(os.environ.get("LOCAL_RANK", 0))
    own = device_of(device, local)
    atexit.unregister(_leave)  # registered by an earlier run of this program, which was whole
    if not dist.is_initialized():  # else by an earlier run
        backend = "gloo" if own.type == "cpu" else "cpu:gloo,cuda:nccl"
        dist.init_process_group(backend, timeout=WAIT)
    yield Processes(device=own, rank=dist.get_rank(), size=dist.get_world_size(), local=local)
    atexit.register(_leave)


def _leave() -> None:
    """End the group of a program whose last run was whole.

    After a run that failed it is not registered: it would wait for a process that is gone.
    """
    if dist.is_initialized():
        dist.destroy_process_group()


def device_of(device: str, local: int) -> torch.device:
    """The GPU with the process' number on its machine, or the CPU."""
    resolved = resolve_device(device)
    if resolved.type == "cpu":
        return resolved
    if device not in ("auto", "cuda"):
        raise InputError(
            f"{device!r} is one GPU, and there are several processes",
            argument="device",
            use="give cuda, one GPU for each",
        )
    count = torch.cuda.device_count()
    needed = int(os.environ.get("LOCAL_WORLD_SIZE", local + 1))
    if needed > count:
        raise InputError(
            f"{needed} processes were started on a machine with {count} GPUs: start {count} of"
            f" them, or give {argument_name('device', 'cpu')}"
        )
    torch.cuda.set_device(local)
    return torch.device("cuda", local)
