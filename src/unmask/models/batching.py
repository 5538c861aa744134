"""Rows of texts in batches for a network, bounded by a memory budget, halved and retried when
memory runs out.

A batch of b rows of T tokens holds about b * cost numbers at its peak, so b = budget / (cost *
bytes per number). The estimate need not be exact: when an allocation fails, the budget is
halved for good and the same rows go again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, TypeVar

import torch
from torch import Tensor

from unmask.common.errors import ModelError
from unmask.runs import memory

logger = logging.getLogger(__name__)
Item = TypeVar("Item")
Result = TypeVar("Result")

DEFAULT_CPU_BUDGET = 512 * 2**20
DEFAULT_GPU_SHARE = 0.5
CPU_CACHE = 6 * 2**20
"""Bytes of the widest activation of a batch on a CPU: more rows than this leave the caches and
gain nothing.
"""
GPU_TOKENS = 2**18
"""Tokens of a batch on a GPU: more gain nothing, and half as many leave a small model waiting
for its launches.
"""
HAS_TRITON = find_spec("triton") is not None
# Kinds of devices on which Triton's programs run; tests add the CPU, where Triton interprets them
TRITON_DEVICES = {"cuda"}


@contextmanager
def passes() -> Iterator[None]:
    """Runs a network without gradients and, on a GPU, without cuDNN's attention, which is
    planned again for every length of text.

    A block or a decorator. The setting belongs to the whole process, so it is restored afterwards.
    """
    planned = torch.backends.cuda.cudnn_sdp_enabled()
    if planned:
        torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        with torch.no_grad():
            yield
    finally:
        if planned:
            torch.backends.cuda.enable_cudnn_sdp(True)


def triton_wanted(tensor: Tensor) -> bool:
    """Whether Triton's programs are to read or write this tensor."""
    return tensor.device.type in TRITON_DEVICES and HAS_TRITON


def on_device(values: Any, device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """Python numbers as a tensor, copied without waiting; `torch.tensor(values, device=...)`
    would synchronise with a GPU.
    """
    return torch.as_tensor(values, dtype=dtype).to(device, non_blocking=True)


def default_budget(device: torch.device) -> int:
    """Bytes for activations: half of a GPU's free memory, 512 MiB on a CPU (more only leaves
    the caches).
    """
    return (
        int(DEFAULT_GPU_SHARE * torch.cuda.mem_get_info(device)[0])
        if device.type == "cuda"
        else DEFAULT_CPU_BUDGET
    )


def whole_memory(device: torch.device) -> int:
    """Bytes of memory that the device has."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[1])
    return memory.whole_memory()


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed, on a GPU or on the CPU (for which torch raises a plain
    RuntimeError).
    """
    signs = ("not enough memory", "can't allocate", "out of memory")
    failed = isinstance(error, RuntimeError) and any(sign in str(error).lower() for sign in signs)
    return failed or isinstance(error, torch.OutOfMemoryError | MemoryError)


def halving(work: Callable[[Sequence[Item]], list[Result]], items: Sequence[Item]) -> list[Result]:
    """work(items); if memory runs out, that of one half and then of the other, and so on down
    to single items.
    """
    try:
        return work(items)
    except (RuntimeError, MemoryError) as error:
        if len(items) == 1 or not is_out_of_memory(error):
            raise
    release_memory()
    logger.warning("out of memory with %d at once: going on with %d", len(items), len(items) // 2)
    half = len(items) // 2
    return [*halving(work, items[:half]), *halving(work, items[half:])]


def release_memory() -> None:
    """Give a GPU's cached allocations back to it."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


@dataclass(frozen=True)
class RowCost:
    """The cost of a row, from the network's shapes; `everywhere`: logits are computed at all
    tokens.
    """

    width: int
    inner: int
    heads: int
    vocab_size: int
    itemsize: int
    on_cpu: bool
    everywhere: bool = False

    @classmethod
    def of(cls, network: Any, vocab_size: int, everywhere: bool = False) -> RowCost:
        """Read the shapes from the network's configuration; a missing one is taken as BERT has
        it.
        """
        config, first = network.config, next(network.parameters())
        width = getattr(config, "hidden_size", None) or first.shape[-1]
        inner = (
            getattr(config, "intermediate_size", None)
            or getattr(config, "hidden_dim", None)
            or 4 * width
        )
        heads = getattr(config, "num_attention_heads", None) or max(1, width // 64)
        return cls(
            width,
            inner,
            heads,
            vocab_size,
            first.dtype.itemsize,
            first.device.type == "cpu",
            everywhere,
        )

    def bytes(self, tokens: int, predicted: int) -> int:
        """About how many bytes one row needs at the peak."""
        predicted = tokens if self.everywhere else predicted
        encoder = tokens * (8 * self.width + 2 * self.inner + 2 * self.heads * tokens)
        return encoder * self.itemsize + predicted * (4 * self.width + 2 * self.vocab_size) * max(
            4, self.itemsize
        )

    def rows(self, tokens: int) -> int:
        """The number of rows of the fastest batch."""
        if self.on_cpu:
            return max(1, CPU_CACHE // (tokens * self.inner * self.itemsize))
        return max(1, GPU_TOKENS // tokens)


class RowBatches:
    """Cuts rows into batches of at most `budget` bytes; the budget only ever shrinks."""

    def __init__(self, budget: int) -> None:
        self.budget = budget

    def rows(self, bytes_per_row: int) -> int:
        """The number of rows of this cost that fit into one batch; at least one."""
        return max(1, self.budget // max(1, bytes_per_row))

    def run(
        self, total: int, bytes_per_row: int, compute: Callable[[slice], Result], most: int
    ) -> Iterator[tuple[slice, Result]]:
        """Yield (rows, compute(rows)) over all `total` rows in order, at most `most` rows per
        batch.
        """
        start = 0
        while start < total:
            size = min(self.rows(bytes_per_row), most, total - start)
            part = slice(start, start + size)
            try:
                result = compute(part)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                failed = str(error).splitlines()[0] if str(error) else type(error).__name__
            else:
                yield part, result
                del result
                start = part.stop
                continue
            release_memory()
            if size == 1:
                raise ModelError(
                    f"one row of this text does not fit in memory ({failed}): use a shorter text or"
                    " a smaller model"
                )
            self.budget = max(1, size // 2) * max(1, bytes_per_row)
            logger.warning(
                "out of memory with %d rows per batch: going on with %d", size, size // 2
            )
