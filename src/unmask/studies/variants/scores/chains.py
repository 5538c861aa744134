"""Scores of variants that are means over chains of contexts.

    product               sum over t of log q(x_t | no site revealed)
    pll_sites             sum over t of log q(x_t | all other sites)
    left_to_right_sites   sum over t of log q(x_t | the sites before t)
    any_order_sites       log of the mean over sampled orders of
                          prod over t of q(x_t | those before t)

The last three are like the scores of texts pll, left_to_right and any_order (`unmask.scoring`),
but t runs over the sites that vary and q over the alphabet. So their numbers are others, and
their names are, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from annotated_types import Interval

from unmask.common.lazy import torch
from unmask.common.methods.method import method
from unmask.studies.variants.scores.score import Chain, VariantScore


@method
class Product(VariantScore):
    """sum over the sites of log q(x_t | no site revealed): all sites masked"""

    name = "product"
    place = 20
    probability = True

    def chains(self, sites: int) -> list[Chain]:
        """Every site given none."""
        return [[(0, t) for t in range(sites)]]


@method
class PLLSites(VariantScore):
    """sum over the sites of log q(x_t | all other sites)"""

    name = "pll_sites"
    place = 30

    def chains(self, sites: int) -> list[Chain]:
        """Every site given all others."""
        every_site = (1 << sites) - 1
        return [[(every_site - (1 << t), t) for t in range(sites)]]


@method
class LeftToRightSites(VariantScore):
    """sum over the sites of log q(x_t | the sites before it)"""

    name = "left_to_right_sites"
    place = 40
    probability = True

    def chains(self, sites: int) -> list[Chain]:
        """Every site given those before it."""
        return [_along(range(sites))]


@method
class AnyOrderSites(VariantScore):
    """log of the mean over sampled orders of the sites of the chain rule's probability;
    any_order_sites_mean_log: mean of the logs

    Parameters:
        orders: Sampled orders: 8 by default of any_order_sites, 64 of any_order.
        seed: Seed of the sampled orders.

    >>> rows = [{"mutant": f"cat2{word}", "y": y} for y, word in enumerate(("dog", "man", "boy"))]
    >>> score = unmask.AnyOrderSites(orders=4)
    >>> assay = unmask.assay("the cat sat", rows, score=score, alphabet="cat,dog,man,boy")
    >>> "any_order_sites" in assay.to_frame()
    True
    """

    orders: Annotated[int, Interval(ge=1, le=10_000)] = 8
    seed: Annotated[int, Interval(ge=0, le=2**63 - 1)] = 0

    name = "any_order_sites"
    place = 50
    probability = True
    extra: ClassVar[tuple[str, ...]] = ("mean_log",)

    def chains(self, sites: int) -> list[Chain]:
        """Every site given those before it, in each of the sampled orders."""
        from unmask.tables.lattice import random_orders

        generator = torch.Generator().manual_seed(self.seed)
        (sampled,) = random_orders(1, self.orders, sites, generator)
        return [_along(order) for order in sampled.tolist()]


def _along(order: Sequence[int]) -> Chain:
    """The chain rule in one order."""
    chain: Chain = []
    revealed = 0
    for site in order:
        chain.append((revealed, site))
        revealed |= 1 << site
    return chain
