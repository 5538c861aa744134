"""What an engine is: pairs go in, measured or failed pairs come out, in any order.

The local engine measures them one after the other in this process. The engine on Ray is in `ray_engine`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from unmask.evaluation.pair import measure_pair
from unmask.evaluation.pairs import Pair
from unmask.evaluation.results import METRICS, rows_of
from unmask.models.masked_lm import MaskedLM


@dataclass(frozen=True)
class Measured:
    """What became of one pair: its rows, or the reason why there are none."""

    pair: int
    rows: list[dict[str, Any]]
    failure: str | None = None


def measure(model: MaskedLM, pair: Pair, constructions: Sequence[str], steps: int | None) -> Measured:
    """Measure one pair; whatever goes wrong with it is recorded, and does not stop the others."""
    start = time.perf_counter()
    try:
        measured = measure_pair(model, pair.cloze(model.mask_id), constructions, steps)
        for row in measured:
            for metric in METRICS:
                if not math.isfinite(row[metric]):
                    return Measured(pair.index, [], f"{metric} of {row['construction']} is {row[metric]}")
    except Exception as error:
        line = (str(error).strip() or "no message").splitlines()[0]
        return Measured(pair.index, [], f"{type(error).__name__}: {line}")
    return Measured(pair.index, rows_of(pair, model.decode(pair.gold), measured, time.perf_counter() - start))


def local_engine(model: MaskedLM, pairs: Iterable[Pair], constructions: Sequence[str], steps: int | None) -> Iterator[Measured]:
    """One pair after the other, with the model that is already loaded."""
    for pair in pairs:
        yield measure(model, pair, constructions, steps)
