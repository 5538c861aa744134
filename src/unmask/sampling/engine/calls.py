"""Functions of rows, called for a fixed number of rows at a time: directly, or as a recorded CUDA
graph that is replayed.

Matrix libraries choose their inner loops by the shape of the call, and with them the order of
summation: the same row can differ in its last bits between a call of 1 row and one of 64. Calls
of a fixed number of rows, the last one filled up with others, give each row the same bits
whatever the batch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

logger: logging.Logger = logging.getLogger(__name__)
WARM_UPS = 2  # Calls before one is recorded


def in_full_calls(function: Callable[..., Any], rows: int, *inputs: Tensor) -> Any:
    """`function` of `rows` rows of `inputs` at a time. It returns a tensor, or a tuple of
    tensors, with a row for each.

    The last call is filled up with copies of its last row, whose results are dropped.
    """
    parts = []
    count = len(inputs[0])
    for start in range(0, max(1, count), rows):  # a call without rows gives results without rows
        part = [value[start : start + rows] for value in inputs]
        rows_of_part = len(part[0])
        if 0 < rows_of_part < rows:
            part = [_filled_up(value, rows) for value in part]
        results = _as_tuple(function(*part))
        parts.append([value[:rows_of_part] for value in results])
    joined = tuple(torch.cat(pieces) for pieces in zip(*parts, strict=True))
    return _single_or_tuple(joined)


def _filled_up(value: Tensor, rows: int) -> Tensor:
    """The rows of a tensor, and copies of the last one."""
    missing = rows - len(value)
    copies = value[-1:].expand(missing, *value.shape[1:])
    return torch.cat([value, copies])


def _as_tuple(results: Any) -> tuple[Tensor, ...]:
    return results if isinstance(results, tuple) else (results,)


def _single_or_tuple(results: tuple[Tensor, ...]) -> Any:
    """A tuple as a function returns it: the tensor itself, if it is one."""
    return results if len(results) > 1 else results[0]


class Recorded:
    """`function` in calls of `rows` rows, recorded once as a CUDA graph and replayed; called,
    where it cannot be recorded.

    A pass of a small network is a hundred launches, each shorter than the time a processor
    takes to ask for it; a graph asks once. Inputs are copied into the graph's own tensors and
    results out of them. A call with too few rows leaves the rest of the inputs as the call
    before had them, and drops their results.

    function   of `examples`, row by row, and of `shared`, the tensors that all rows share
    pool       the memory that all graphs of one `Passes` share, in a list; empty before the first
    """

    def __init__(
        self,
        function: Callable[..., Any],
        rows: int,
        examples: Sequence[Tensor],
        shared: Sequence[Tensor],
        pool: list[Any],
    ) -> None:
        self.function = function
        self.rows = rows
        self.inputs: list[Tensor] = [
            value[:1].repeat(rows, *[1] * (value.dim() - 1)) for value in examples
        ]
        self.shared: list[Tensor] = [value.clone() for value in shared]
        self.graph: torch.cuda.CUDAGraph | None = None
        self.outputs: tuple[Tensor, ...] = ()
        self._warm_up()
        self._record(pool)

    def _warm_up(self) -> None:
        """Call the function on a stream of its own, as CUDA graphs ask before they are
        recorded.
        """
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(WARM_UPS):
                self._call()
        torch.cuda.current_stream().wait_stream(aside)

    def _record(self, pool: list[Any]) -> None:
        """Record a call, unless that fails."""
        shared_pool = pool[0] if pool else None
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=shared_pool, capture_error_mode="thread_local"):
                outputs = self._call()
        except RuntimeError as error:
            logger.warning(
                "a call could not be recorded (%s): it is made again each time",
                str(error).splitlines()[0],
            )
            return
        self.graph = graph
        self.outputs = outputs
        pool[:] = [graph.pool()]

    def __call__(self, inputs: Sequence[Tensor], shared: Sequence[Tensor]) -> Any:
        """The function's results for all rows."""
        count = len(inputs[0])
        results: tuple[Tensor, ...] = ()
        for buffer, value in zip(self.shared, shared, strict=True):
            buffer.copy_(value)
        for start in range(0, count, self.rows):
            rows_of_part = min(self.rows, count - start)
            end = start + rows_of_part
            for buffer, value in zip(self.inputs, inputs, strict=True):
                buffer[:rows_of_part].copy_(value[start:end])
            if self.graph is None:
                self.outputs = self._call()
            else:
                self.graph.replay()  # writes `outputs`
            if not results:
                results = tuple(
                    value.new_empty((count, *value.shape[1:])) for value in self.outputs
                )
            for all_rows, part in zip(results, self.outputs, strict=True):
                all_rows[start:end].copy_(part[:rows_of_part])
        return _single_or_tuple(results)

    def _call(self) -> tuple[Tensor, ...]:
        with torch.no_grad():
            return _as_tuple(self.function(*self.inputs, *self.shared))
