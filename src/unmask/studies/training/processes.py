"""The processes of one training run: who they are, what they share out, and what they add up.

    torchrun --nproc-per-node 4 -m unmask train ...

torchrun starts the same command several times and numbers the processes (RANK of WORLD_SIZE;
LOCAL_RANK on each machine). They talk by gloo between CPUs and by NCCL between GPUs, one GPU
for each. The first process writes and prints. If one is lost, torchrun ends the others and
reports it. A process alone has no group, and nothing here does anything.

With rows R_p of a batch in process p and the divisor Z of the whole batch, the loss is sum_p
L_p with L_p = (1 / Z) sum over R_p. DistributedDataParallel gives every process the mean of the
gradients of N L_p over the N processes, which is the loss' gradient.
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

from unmask.common.errors import InputError
from unmask.runs.devices import resolve_device

WAIT = timedelta(days=7)
"""How long a process waits for the others, for example until the first has tokenised a corpus."""


@dataclass(frozen=True)
class Processes:
    """One of `size` processes, and its device."""

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
        """First and stop of the rows that this process computes, of a batch of `whole`; all
        have as many, give or take one.
        """
        return whole * self.rank // self.size, whole * (self.rank + 1) // self.size

    def refuse_few_rows(self, rows: int, length: int) -> None:
        """Raise InputError if batches of `rows` rows of `length` tokens leave a process without
        a row.
        """
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
        highest = torch.tensor(number)
        dist.all_reduce(highest, dist.ReduceOp.MAX)
        return int(highest)

    def reduced(self, model: nn.Module, loss: Callable[..., Any]) -> Callable[..., Any]:
        """`loss`, whose gradients by the parameters of `model` are averaged over the processes."""
        if self.alone:
            return loss

        class Loss(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.model = model

            def forward(self, *arguments: Any) -> Any:
                return loss(*arguments)

        wrapped = nn.parallel.DistributedDataParallel(
            Loss(), broadcast_buffers=False, gradient_as_bucket_view=True
        )

        def whole_parts(*arguments: Any) -> Any:
            """Torch would cut what it compiles at the edges of gradient buckets; each stage is
            small enough.
            """
            with torch._dynamo.config.patch(optimize_ddp=False):
                return wrapped(*arguments)

        return whole_parts if self.device.type == "cuda" else wrapped

    @contextmanager
    def in_turn(self) -> Iterator[None]:
        """The first process of each machine goes through this part before the others, which
        find its files in the cache.
        """
        if self.local:
            self.highest(0)
        yield
        if not self.local:
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
    if not dist.is_initialized():  # else by an earlier run of this program
        dist.init_process_group("gloo" if own.type == "cpu" else "cpu:gloo,cuda:nccl", timeout=WAIT)
    yield Processes(own, dist.get_rank(), dist.get_world_size(), local)
    atexit.unregister(_leave)
    atexit.register(_leave)


def _leave() -> None:
    """End the group of a program whose last run was whole; after a failure it would wait for a
    process that is gone.
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
            f"device {device!r} is one GPU, and there are several processes: give --device cuda,"
            " one GPU for each"
        )
    count, needed = torch.cuda.device_count(), int(os.environ.get("LOCAL_WORLD_SIZE", local + 1))
    if needed > count:
        raise InputError(
            f"{needed} processes were started on a machine with {count} GPUs: give --nproc-per-node"
            f" {count}, or --device cpu"
        )
    torch.cuda.set_device(local)
    return torch.device("cuda", local)
