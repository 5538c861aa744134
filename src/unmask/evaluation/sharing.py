"""Pairs on Ray: workers take some pairs at a time and measure them in batches, as this process would."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from unmask.evaluation.measure import MOST, InBatches, Measurer, Row
from unmask.evaluation.pairs import PositionPair
from unmask.models.workers import WorkersModel
from unmask.runs.engines import Answer, OnRay

SECONDS = 2.0
"""After which a worker answers with the batches that it has."""
SHARES = 4
"""Of each worker, at least: so that none waits long for the last one."""

Some = list[tuple[int, PositionPair]]
"""Pairs, and their places among all."""
Answers = list[Answer[list[Row]]]


class SharedOut:
    """Answers pairs on Ray; those of a batch one after the other, as `InBatches` does."""

    def __init__(self, make: Callable[[], Callable[[Some], Answers]], workers: int | None, gpu: bool) -> None:
        self.make, self.workers, self.gpu = make, workers, gpu

    def __call__(self, pairs: Sequence[PositionPair]) -> Iterator[Answer[list[Row]]]:
        """Answers as they arrive."""
        if not pairs:
            return
        engine = OnRay(self.make, self.workers, self.gpu, _rest, most=len(pairs))
        size = min(MOST, -(-len(pairs) // (SHARES * engine.size)))
        shares = [list(enumerate(pairs))[first : first + size] for first in range(0, len(pairs), size)]
        left = {place for share in shares for place, _ in share}
        for answer in engine(shares):
            found = answer.result
            if found is None:
                lost = [place for place, _ in shares[answer.place] if place in left]
                found = [Answer(place, failure=answer.failure) for place in lost]
            left -= {one.place for one in found}
            yield from found


def make_measuring(
    model: WorkersModel,
    constructions: Sequence[str],
    steps: int | None,
    support: Sequence[int] | None,
    budget: str | float | None,
    longest: int,
) -> Callable[[Some], Answers]:
    """What a worker does, with a model of its own; arguments of `Measurer` and of `InBatches`."""
    return partial(_measured, InBatches(Measurer(model.load(), constructions, steps, support), budget, longest))


def _measured(engine: InBatches, some: Some) -> Answers:
    """The answers of the first batches."""
    found, began = [], time.monotonic()
    for answer in engine([pair for _, pair in some]):
        found.append(replace(answer, place=some[answer.place][0]))
        if not answer.more and time.monotonic() - began > SECONDS:
            break
    return found


def _rest(some: Some, found: Answers) -> Some | None:
    return some[len(found) :] or None
