"""How `mutants` compares scores with measured values: a group of its options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from annotated_types import Interval

from unmask.common.border.calls import settings


@settings
class Ranking:
    """How scores are compared with measured values.

    Parameters:
        column: The column of the values [default: the only one of numbers].
        variant: The column of the variants [default: the first without numbers].
        better: Which values are better [default: higher].
        skip_bad: Leave out rows that cannot be read, and count them.
        scores: Scores to compare: all, or some of singles, product, pll, left_to_right,
            any_order, epistasis, pairs:CONSTRUCTION [default: all].
        orders: Sampled orders of any_order [default: 8].

    >>> values = {"cat2dog": 0.9, "cat2man": 0.2, "cat2bird": 0.4}
    >>> measured = [{"variant": name, "value": value} for name, value in values.items()]
    >>> ranking = unmask.Ranking(better="lower", scores="singles")
    >>> words = "cat,dog,man,bird"
    >>> answer = unmask.mutants("the cat sat", measured=measured, ranking=ranking, alphabet=words)
    >>> answer.better
    'lower'
    """

    column: str | None = None
    variant: str | None = None
    better: Literal["higher", "lower"] | None = None
    skip_bad: bool = False
    scores: str | Sequence[str] | None = None
    orders: Annotated[int, Interval(ge=1, le=10_000)] | None = None
