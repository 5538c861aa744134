"""Rows of texts in batches for a network, bounded by a memory budget.

    rows per batch = budget / bytes of a row at its peak (`RowCost.bytes`)

The estimate need not be exact: when an allocation fails, the batch is halved for good and the same
rows go again.
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

logger: logging.Logger = logging.getLogger(__name__)
Item = TypeVar("Item")
Result = TypeVar("Result")

DEFAULT_CPU_BUDGET = 512 * 2**20
"""Bytes of all activations of a batch on a CPU."""
DEFAULT_GPU_SHARE = 0.5
"""Of a GPU's free memory, for a batch's activations."""
CPU_CACHE = 6 * 2**20
"""Bytes of the widest activation alone, of a batch on a CPU: more rows leave the caches and gain
nothing. For BERT this is the tighter of the two limits.
"""
GPU_TOKENS = 2**18
"""Tokens of a batch on a GPU: more gain nothing, and half as many leave a small model waiting
for its launches.
"""
FLOAT32 = 4
"""Bytes of a float32 number; logits come in float32 or wider."""
SIGNS_OF_LACKING_MEMORY = ("not enough memory", "can't allocate", "out of memory")
HAS_TRITON = find_spec("triton") is not None
TRITON_DEVICES = {"cuda"}
"""Kinds of devices on which Triton's programs run; tests add the CPU, where Triton interprets them.
"""


@contextmanager
def passes() -> Iterator[None]:
    """Run a network without gradients, and on a GPU without cuDNN's attention, which is planned
    again for every length of text.

    It is a context and a decorator. The settings are as before afterwards.
    """
    had_cudnn_attention = torch.backends.cuda.cudnn_sdp_enabled()  # of the whole process
    if had_cudnn_attention:
        torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        with torch.no_grad():
            yield
    finally:
        if had_cudnn_attention:
            torch.backends.cuda.enable_cudnn_sdp(True)


def triton_wanted(tensor: Tensor) -> bool:
    """Whether Triton's programs can read and write this tensor."""
    return tensor.device.type in TRITON_DEVICES and HAS_TRITON


def on_device(values: Any, device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """Python numbers as a tensor.

    The copy does not wait for a GPU; `torch.tensor(values, device=...)` would.
    """
    return torch.as_tensor(values, dtype=dtype).to(device, non_blocking=True)


def default_budget(device: torch.device) -> int:
    """Bytes for the activations of a batch."""
    if device.type == "cuda":
        free, _whole = torch.cuda.mem_get_info(device)
        return int(DEFAULT_GPU_SHARE * free)
    return DEFAULT_CPU_BUDGET


def whole_memory(device: torch.device) -> int:
    """Bytes of memory that the device has."""
    if device.type == "cuda":
        _free, whole = torch.cuda.mem_get_info(device)
        return int(whole)
    return memory.whole_memory()


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed, on a GPU or on the CPU."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    if not isinstance(error, RuntimeError):  # torch's error for the CPU's memory
        return False
    message = str(error).lower()
    return any(sign in message for sign in SIGNS_OF_LACKING_MEMORY)


def halving(work: Callable[[Sequence[Item]], list[Result]], items: Sequence[Item]) -> list[Result]:
    """work(items). If memory runs out, the work on one half and then on the other, and so on down
    to single items.
    """
    try:
        return work(items)
    except (RuntimeError, MemoryError) as error:
        if len(items) == 1 or not is_out_of_memory(error):
            raise
    # The error ends with its except clause, and with it the tensors that its frames held.
    release_memory()
    half = len(items) // 2
    logger.warning("out of memory with %d at once: going on with %d", len(items), half)
    return [*halving(work, items[:half]), *halving(work, items[half:])]


def release_memory() -> None:
    """Give a GPU's cached allocations back to it."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


@dataclass(frozen=True)
class RowCost:
    """The memory that a row takes in a pass, from the network's shapes.

    width        numbers of a hidden state
    inner        numbers of the widest activation of a token
    heads        attention heads
    vocab_size   logits per position
    itemsize     bytes of a weight
    on_cpu       whether the network is on the CPU
    everywhere   whether logits are computed at all tokens
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
        """The shapes that the network's configuration states; what it does not state is taken as
        in BERT.
        """
        config = network.config
        first_weight = next(network.parameters())
        width = getattr(config, "hidden_size", None)
        if not width:
            width = first_weight.shape[-1]
        inner = getattr(config, "intermediate_size", None)
        if not inner:
            inner = getattr(config, "hidden_dim", None)  # DistilBERT's name of it
        if not inner:
            inner = 4 * width
        heads = getattr(config, "num_attention_heads", None)
        if not heads:
            heads = max(1, width // 64)
        return cls(
            width=width,
            inner=inner,
            heads=heads,
            vocab_size=vocab_size,
            itemsize=first_weight.dtype.itemsize,
            on_cpu=first_weight.device.type == "cpu",
            everywhere=everywhere,
        )

    def bytes(self, tokens: int, predicted: int) -> int:
        """About how many bytes a row of `tokens` tokens needs at the peak, of which `predicted`
        are predicted.

        The factors are how many such activations are counted, for example 8 hidden states per
        token. They are estimates; if they are too low, the batch is halved.
        """
        if self.everywhere:
            predicted = tokens
        attention = self.heads * tokens  # each head has a weight for each other token
        per_token = 8 * self.width + 2 * self.inner + 2 * attention
        per_prediction = 4 * self.width + 2 * self.vocab_size
        encoder = tokens * per_token * self.itemsize
        head = predicted * per_prediction * max(FLOAT32, self.itemsize)
        return encoder + head

    def rows(self, tokens: int) -> int:
        """The number of rows of the fastest batch, whatever memory there is."""
        if self.on_cpu:
            widest_activation = tokens * self.inner * self.itemsize
            return max(1, CPU_CACHE // widest_activation)
        return max(1, GPU_TOKENS // tokens)


class RowBatches:
    """Cuts rows into batches of at most `budget` bytes; the budget only ever shrinks."""

    def __init__(self, budget: int) -> None:
        self.budget: int = budget

    def rows(self, bytes_per_row: int) -> int:
        """The number of rows of this cost that fit into one batch; at least one."""
        return max(1, self.budget // max(1, bytes_per_row))

    def run(
        self, total: int, bytes_per_row: int, compute: Callable[[slice], Result], most: int
    ) -> Iterator[tuple[slice, Result]]:
        """Yield (rows, compute(rows)) over all `total` rows in order. A batch has at most `most`
        rows, and no more than fit into the budget.

        If memory runs out, the batch is halved; raises ModelError if a single row is too much.
        """
        start = 0
        while start < total:
            size = min(self.rows(bytes_per_row), most, total - start)
            rows = slice(start, start + size)
            failure = None
            try:
                result = compute(rows)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                message = str(error)
                failure = message.splitlines()[0] if message else type(error).__name__
            if failure is None:
                yield rows, result
                del result  # otherwise it would still be in memory when the next is computed
                start = rows.stop
            else:  # The error ended with its except clause, and so did the tensors of its frames.
                release_memory()
                self._halve(size, bytes_per_row, failure)

    def _halve(self, size: int, bytes_per_row: int, failure: str) -> None:
        """Let batches be half as large as one of `size` rows, which did not fit."""
        if size == 1:
            raise ModelError(
                f"one row of this text does not fit in memory ({failure}): use a shorter text or"
                " a smaller model"
            )
        half = size // 2
        self.budget = half * max(1, bytes_per_row)  # `rows` then gives `half`
        logger.warning("out of memory with %d rows per batch: going on with %d", size, half)
