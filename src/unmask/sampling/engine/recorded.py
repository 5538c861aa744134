"""A function of rows in calls of one shape on a GPU, recorded once as a CUDA graph and replayed.

A pass of a small network is a hundred launches, each shorter than the time a processor takes to ask for it; a graph asks
once. Inputs are copied into the graph's own tensors and results out of them. Rows that a call has too few of are left over from
the call before, and their results are dropped. What is `shared` by all rows is copied once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

logger = logging.getLogger(__name__)
WARM_UPS = 2


class Recorded:
    """`function` in calls of `rows` rows; where it cannot be recorded, it is called."""

    def __init__(
        self, function: Callable[..., Any], rows: int, examples: Sequence[Tensor], shared: Sequence[Tensor], pool: list[Any]
    ) -> None:
        self.function, self.rows = function, rows
        self.inputs = [value[:1].repeat(rows, *[1] * (value.dim() - 1)) for value in examples]
        self.shared = [value.clone() for value in shared]
        self.graph: torch.cuda.CUDAGraph | None = None
        self.outputs: tuple[Tensor, ...] = ()
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(WARM_UPS):
                self._call()
        torch.cuda.current_stream().wait_stream(aside)
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool[0] if pool else None, capture_error_mode="thread_local"):
                outputs = self._call()
        except RuntimeError as error:
            logger.warning("a call could not be recorded (%s): it is made again each time", str(error).splitlines()[0])
            return
        self.graph, self.outputs = graph, outputs
        pool[:] = [graph.pool()]

    def __call__(self, inputs: Sequence[Tensor], shared: Sequence[Tensor] = ()) -> Any:
        """The function's results for all rows."""
        whole: tuple[Tensor, ...] = ()
        for own, given in zip(self.shared, shared, strict=True):
            own.copy_(given)
        for start in range(0, len(inputs[0]), self.rows):
            count = min(self.rows, len(inputs[0]) - start)
            for own, given in zip(self.inputs, inputs, strict=True):
                own[:count].copy_(given[start : start + count])
            if self.graph is None:
                self.outputs = self._call()
            else:
                self.graph.replay()
            whole = whole or tuple(value.new_empty((len(inputs[0]), *value.shape[1:])) for value in self.outputs)
            for all_rows, part in zip(whole, self.outputs, strict=True):
                all_rows[start : start + count].copy_(part[:count])
        return whole if len(whole) > 1 else whole[0]

    def _call(self) -> tuple[Tensor, ...]:
        with torch.no_grad():
            found = self.function(*self.inputs, *self.shared)
        return found if isinstance(found, tuple) else (found,)
