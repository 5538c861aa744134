"""Several pairs at once on a GPU, as many as a memory budget holds: an engine.

What a pair of a small vocabulary costs is not arithmetic but launches: with 8,192 tokens the card computes for 50 of the 200
milliseconds that one pair takes, most of them in ten thousand operations on small vectors, none of which waits for more than
the launch. Threads would wait for Python's lock, and a captured graph fits neither the changing number of steps nor the
likely tokens of a pair. So pairs go through the solver side by side, a row each (`unmask.joints.solver`), and share the
launches of sweeps, Newton steps and sums; the passes of a pair fill the card by themselves. Two tables of 8,192 tokens are half
a gigabyte, so that dozens of pairs fit.

A budget counts everything that this process keeps on the card, and is kept: an allocation beyond it fails as if the card had no
more. Where memory runs out in the passes, the joints or the numbers, that stage goes on with half (`unmask.models.batching`);
where one pair's share of a stage is too much beside the tables of the others, the pairs at once are halved for good.

The last digits of a pair's numbers may depend on which others it is measured with. So the pairs of a batch are kept together, and
how many there are depends on the longest text of the whole run: a run that is killed and continued measures the same batches.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import torch

from unmask.checks import memory
from unmask.errors import InputError
from unmask.evaluation.measure import Measurer, Row
from unmask.evaluation.pairs import Pair
from unmask.joints.registry import named
from unmask.joints.solver.likely_tokens import LIKELY
from unmask.models.batching import at_most, is_out_of_memory, release_memory, whole_memory
from unmask.runs.engines import Answer, answered

logger = logging.getLogger(__name__)
SHARE = 0.5
"""Of the card's free memory, without a budget."""
MOST = 64
"""Pairs at once: more gain little, and are lost together when a run is killed."""


class InBatches:
    """Answers pairs in this process, in order: several at once on a GPU or within a budget, else one after the other."""

    def __init__(self, measurer: Measurer, budget: str | float | None = None, longest: int = 0) -> None:
        """`budget`: bytes, as a number or such as "20GB", or a share of the device's memory, such as 0.5; `longest`: tokens of
        the longest text that there may be, by default of those asked about.
        """
        self.longest = longest
        self.measurer, self.device = measurer, measurer.model.device
        self.budget = None if budget is None else memory("memory", budget, whole_memory(self.device))
        if self.budget is not None and self.budget < self._bytes():
            raise InputError(
                f"memory of {self.budget:,} bytes is too little for one pair, which takes about {self._bytes():,}: "
                "give more memory, or an alphabet"
            )

    def __call__(self, pairs: Sequence[Pair]) -> Iterator[Answer[list[Row]]]:
        """Answers, batch by batch."""
        if pairs:
            self.measurer.rehearse()
            self.measurer.end_rehearsal()
        with at_most(self.budget, self.device):
            size, start = self._fitting(pairs), 0
            while start < len(pairs):
                some = range(start, min(start + size, len(pairs)))
                found = self._together([pairs[i] for i in some]) if len(some) > 1 else []
                if isinstance(found, int):
                    size = found
                    continue
                if found:
                    for place, measured in zip(some, found, strict=True):
                        answer = answered(partial(self.measurer.rows, measured=measured), place, pairs[place])
                        yield replace(answer, more=place + 1 < some.stop)
                else:
                    for place in some:
                        yield answered(self.measurer, place, pairs[place])
                start = some.stop

    def _together(self, pairs: Sequence[Pair]) -> list[list[Row]] | int:
        """The numbers of all; none where one of them fails, for which they are asked one by one; or how many may be tried at
        once where memory has run out.
        """
        try:
            return self.measurer.together(pairs)
        except Exception as error:
            if not is_out_of_memory(error):
                return []
        release_memory()
        logger.warning("out of memory with %d pairs at once: going on with %d", len(pairs), len(pairs) // 2)
        return len(pairs) // 2

    def _fitting(self, pairs: Sequence[Pair]) -> int:
        """How many pairs are tried at once."""
        if not pairs or (self.budget is None and self.device.type != "cuda"):
            return 1
        model = self.measurer.model
        longest = max(self.longest, *(len(pair.ids) for pair in pairs))
        passes = model.rows_at_once(longest, 1) * model.cost.bytes(longest, 1)
        if self.budget is not None:
            held = torch.cuda.memory_allocated(self.device) if self.device.type == "cuda" else 0
            room = self.budget - held
        else:
            room = int(SHARE * torch.cuda.mem_get_info(self.device)[0])
        return max(1, min(MOST, (room - passes) // self._bytes()))

    def _bytes(self) -> int:
        """About what one pair keeps at the peak: two tables, the strips of its likely tokens, and the state of its members."""
        tokens = self.measurer.tokens
        likely, members = min(tokens, 3 * LIKELY), sum(named(name).member is not None for name in self.measurer.constructions)
        strips, systems, vectors = 4 * 4 * likely * tokens, 16 * 8 * likely**2, 60 * 8 * 2 * tokens
        return 2 * 4 * tokens**2 + strips + members * (systems + vectors) + tokens**2 // 2
