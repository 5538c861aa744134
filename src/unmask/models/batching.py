"""Rows in batches bounded by a memory budget, halved and retried when memory runs out.

A batch of b rows of T tokens holds about b * cost numbers at its peak, so b = budget / (cost * bytes a number). The
estimate need not be exact: when an allocation fails, the budget is halved for good and the same rows go again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TypeVar

import torch

from unmask.errors import ModelError

logger = logging.getLogger(__name__)
Result = TypeVar("Result")

DEFAULT_CPU_BUDGET = 512 * 2**20
DEFAULT_GPU_SHARE = 0.5


def default_budget(device: torch.device) -> int:
    """Bytes for activations: half of a GPU's free memory, 512 MiB on a CPU (more only leaves the caches)."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(DEFAULT_GPU_SHARE * free)
    return DEFAULT_CPU_BUDGET


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed, on a GPU or on the CPU (where torch raises a plain RuntimeError)."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    message = str(error).lower()
    return isinstance(error, RuntimeError) and any(
        sign in message for sign in ("not enough memory", "can't allocate", "out of memory")
    )


class RowBatches:
    """Cuts rows into batches of at most `budget` bytes; the budget only ever shrinks."""

    def __init__(self, budget: int) -> None:
        self.budget = budget

    def rows(self, bytes_per_row: int) -> int:
        """How many rows of this cost one batch takes; at least one."""
        return max(1, self.budget // max(1, bytes_per_row))

    def run(
        self, total: int, bytes_per_row: int, compute: Callable[[slice], Result], most: int | None = None
    ) -> Iterator[tuple[slice, Result]]:
        """Yield (rows, compute(rows)) over all `total` rows in order, at most `most` rows a batch."""
        start = 0
        while start < total:
            size = min(self.rows(bytes_per_row), most or total, total - start)
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
            self._shrink(size, bytes_per_row, failed)

    def _shrink(self, size: int, bytes_per_row: int, failed: str) -> None:
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        if size == 1:
            raise ModelError(f"one row of this text does not fit in memory ({failed}): use a shorter text or a smaller model")
        self.budget = max(1, size // 2) * max(1, bytes_per_row)
        logger.warning("out of memory with %d rows a batch: going on with %d", size, size // 2)
