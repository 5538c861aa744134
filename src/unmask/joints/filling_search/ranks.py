"""The places that a filling can have among all fillings of a text, of which a search found some."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, floor, prod

from unmask.joints.filling_search.found import ChainSearch, ScoredFilling
from unmask.tables.exploration import Variant


def number_of_fillings(variants: Sequence[Variant], support: int) -> int:
    """An upper bound of the number of fillings of all variants whose tokens are allowed.

    support   how many tokens a blank could take if all were allowed
    """
    total = 0
    for variant in variants:
        sizes: list[int] = []
        for mask in variant.allowed or (None,) * variant.sites:
            size = support
            if mask is not None:
                size = min(support, int(mask.sum()))
            sizes.append(size)
        total += prod(sizes)
    return total


def rank_bounds(filling: ScoredFilling, result: ChainSearch, fillings: int) -> tuple[int, int]:
    """The lowest and the highest place of a filling that the search found, among all `fillings`.

    The fillings that it did not find share a mass of 1 - mass, and each has at most `bound`.
    Those of them that rank above this one have at least its probability p each, so there are at
    most (1 - mass) / p of them.
    """
    low = result.low(filling)
    high = min(result.high(filling), 0.0)
    others = [other for other in result.fillings if other is not filling]
    first = 1 + sum(result.low(other) > high for other in others)
    last = 1 + sum(min(result.high(other), 0.0) > low for other in others)
    if exp(low) == 0:
        return first, fillings
    if result.bound > exp(low):
        last += floor(min((1 - result.mass) / exp(low), fillings))
    return first, min(last, fillings)
