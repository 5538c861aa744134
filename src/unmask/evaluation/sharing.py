"""Pairs on Ray: workers take some pairs at a time and measure them in batches, as this process would."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from unmask.evaluation.measure import MOST, InBatches, Measurer, Row
from unmask.evaluation.pairs import PositionPair
from unmask.models.masked_lm import MaskedLM
from unmask.models.workers import Workers
from unmask.runs.engines import Answer

SECONDS = 2.0
"""After which a worker answers with the batches that it has."""
SHARES = 4
"""Of each worker, at least: so that none waits long for the last one."""

Some = list[tuple[int, PositionPair]]
"""Pairs, and their places among all."""
Answers = list[Answer[list[Row]]]


def measured_on_ray(workers: Workers, measured: Sequence[Any], pairs: Sequence[PositionPair]) -> Iterator[Answer[list[Row]]]:
    """Answers as they arrive, those of a batch one after the other, as `InBatches` does.

    measured   the arguments of `Measurer` after the model (three), and of `InBatches` after the measurer
    """
    if not pairs:
        return
    engine = workers.pool(partial(_worker, measured), _rest, most=len(pairs))
    size = min(MOST, -(-len(pairs) // (SHARES * engine.size)))
    places = list(enumerate(pairs))
    shares = [places[first : first + size] for first in range(0, len(pairs), size)]
    left = set(range(len(pairs)))
    for answer in engine(shares):
        found = answer.result
        if found is None:
            lost = [place for place, _ in shares[answer.place] if place in left]
            found = [Answer(place, failure=answer.failure) for place in lost]
        left -= {one.place for one in found}
        yield from found


def _worker(measured: Sequence[Any], model: MaskedLM) -> Callable[[Some], Answers]:
    return partial(_measured, InBatches(Measurer(model, *measured[:3]), *measured[3:]))


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
