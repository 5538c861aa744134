"""Scores of variants that are means over chains of contexts.

    product         sum over t of log q(x_t | no site revealed)
    pll             sum over t of log q(x_t | all other sites)
    left_to_right   sum over t of log q(x_t | the sites before t)
    any_order       log of the mean over sampled orders of prod over t of q(x_t | those before t)

The last three are the scores of texts of the same names (`unmask.scoring`), with t over the sites
and q over the alphabet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from unmask.common.methods.method import method
from unmask.studies.variants.scores.score import Chain, VariantScore


@method
class Product(VariantScore):
    """sum over the sites of log q(x_t | no site revealed): all sites masked"""

    name = "product"
    place = 20
    probability = True

    def chains(self, sites: int, orders: Sequence[Sequence[int]]) -> list[Chain]:
        """Every site given none."""
        return [[(0, t) for t in range(sites)]]


@method
class PLL(VariantScore):
    """sum over the sites of log q(x_t | all other sites)"""

    name = "pll"
    place = 30

    def chains(self, sites: int, orders: Sequence[Sequence[int]]) -> list[Chain]:
        """Every site given all others."""
        every_site = (1 << sites) - 1
        return [[(every_site - (1 << t), t) for t in range(sites)]]


@method
class LeftToRight(VariantScore):
    """sum over the sites of log q(x_t | the sites before it)"""

    name = "left_to_right"
    place = 40
    probability = True

    def chains(self, sites: int, orders: Sequence[Sequence[int]]) -> list[Chain]:
        """Every site given those before it."""
        return [_along(range(sites))]


@method
class AnyOrder(VariantScore):
    """log of the mean over sampled orders of the chain rule's probability; any_order_mean_log: mean
    of the logs
    """

    name = "any_order"
    place = 50
    probability = True
    extra: ClassVar[tuple[str, ...]] = ("mean_log",)

    def chains(self, sites: int, orders: Sequence[Sequence[int]]) -> list[Chain]:
        """Every site given those before it, in each order."""
        return [_along(order) for order in orders]


def _along(order: Sequence[int]) -> Chain:
    """The chain rule in one order."""
    chain: Chain = []
    revealed = 0
    for site in order:
        chain.append((revealed, site))
        revealed |= 1 << site
    return chain
