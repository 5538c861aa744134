"""The lattice of revealed sets: a text's probability by the chain rule, over all orders of its
sites at once.

For sites 1..k and a text x, q(x_i | x_S) is the model's probability of x_i with the sites of S
revealed and all others masked. An order o of the sites gives the probability p_o(x) = prod_t
q(x_{o_t} | x_{o_<t}). Their mean over all k! orders,

    p(x) = G(all),   G(S) = 1/|S| sum_{i in S} G(S - i) q(x_i | x_{S - i}),   G(empty) = 1,

is a probability over the V^k texts too, exact in 2^k - 1 passes. The same recursion with the
mean of logarithms gives the mean of log p_o, a lower bound of log p. A text with more than
MOST_SITES sites has too many sets. The mean of p_o over sampled orders estimates its p without
bias.

A set S is a bit mask: bit i says whether it holds site i.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import log, nan
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.common.errors import InputError
from unmask.tables.conditionals import Conditionals

MOST_SITES = 16  # 65,535 passes, and 8 MiB of numbers, per text


@dataclass(frozen=True)
class Lattice:
    """log_q[n, S, i] = log q(x_i | x_S) of text n; NaN where i is in S."""

    log_q: Float[Tensor, "n sets k"]

    @property
    def sites(self) -> int:
        return self.log_q.shape[2]

    @cached_property
    def log_mean(self) -> Float[Tensor, " n"]:
        """log p(x), the mean over all orders: a probability over all texts."""
        return self._recursion(lambda terms: terms.logsumexp(2) - log(terms.shape[2]))

    @property
    def mean_log(self) -> Float[Tensor, " n"]:
        """The mean of log p_o(x) over all orders, at most log p(x)."""
        return self._recursion(lambda terms: terms.mean(2))

    def _recursion(self, combine: Callable[[Tensor], Tensor]) -> Tensor:
        """value(all), where value(empty) = 0 and value(S) = combine over i in S of value(S - i) +
        log q(x_i | x_{S - i}). `combine` takes (n, sets, i) to (n, sets).
        """
        value = self.log_q.new_zeros(self.log_q.shape[:2])
        for sets, inside, _ in _sets_by_size(self.sites, self.log_q.device)[1:]:
            without_i = sets[:, None] - (1 << inside)  # (c, s): S - i for each i in S
            terms = value[:, without_i] + self.log_q[:, without_i, inside]  # (n, c, s)
            value[:, sets] = combine(terms)
        return value[:, -1]


def lattice(
    conditionals: Conditionals, texts: Int[Tensor, "n T"], sites: Int[Tensor, "n k"]
) -> Lattice:
    """The lattice of each text: (2^k - 1) passes per text, fewer where texts reveal the same
    tokens.

    A row of `texts` holds the ids of a whole text, and the same row of `sites` its k free
    positions. The fillings of one text are the rows of one call, so that they share passes: all
    of them, for example, that with every site masked.
    """
    device = conditionals.model.device
    mask = conditionals.model.mask_id
    texts = texts.to(device)
    sites = sites.to(device)
    n, k = sites.shape
    if k > MOST_SITES:
        raise InputError(
            f"{k} sites have {2**k:,} revealed sets, over the limit of {MOST_SITES} sites: sample"
            " orders instead"
        )
    blank = texts.scatter(1, sites, mask)
    # Texts that differ outside their sites have no equal rows, whatever is revealed
    distinct = n == 1 or len(blank.unique(dim=0)) == n
    log_q = torch.full((n, 2**k, k), nan, dtype=torch.float64, device=device)
    for sets, _, hidden in _sets_by_size(k, device)[:k]:  # without that of all sites
        of_each_set = texts[:, None].expand(-1, len(sets), -1)
        positions = sites[:, hidden]  # (n, c, k - s)
        targets = of_each_set.gather(2, positions)
        rows = of_each_set.scatter(2, positions, mask)
        values = conditionals.log_q(
            rows.flatten(0, 1), positions.flatten(0, 1), targets.flatten(0, 1), distinct
        )
        log_q[:, sets[:, None], hidden] = values.reshape(positions.shape)
    return Lattice(log_q)


def along_orders(
    conditionals: Conditionals,
    texts: Int[Tensor, "n T"],
    sites: Int[Tensor, "n k"],
    orders: Int[Tensor, "n m k"],
) -> Float[Tensor, "n m"]:
    """log p_o(x) of text n in each of its m orders (site indices 0..k-1): at most m k passes
    per text, for any k.
    """
    device = conditionals.model.device
    texts = texts.to(device)
    sites = sites.to(device)
    n, m, k = orders.shape
    in_order = sites[:, None].expand(-1, m, -1).gather(2, orders.to(device))
    positions = in_order.flatten(0, 1)
    filled = texts.repeat_interleave(m, 0)
    rows = filled.scatter(1, positions, conditionals.model.mask_id)
    total = torch.zeros(n * m, dtype=torch.float64, device=device)
    for step in range(k):
        position = positions[:, step : step + 1]
        token = filled.gather(1, position)
        total += conditionals.log_q(rows, position, token)[:, 0]
        rows = rows.scatter(1, position, token)
    return total.reshape(n, m)


def random_orders(
    texts: int, orders: int, sites: int, generator: torch.Generator
) -> Int[Tensor, "texts orders sites"]:
    """Orders drawn independently and uniformly."""
    return torch.rand((texts, orders, sites), generator=generator, dtype=torch.float64).argsort(2)


def log_mean_of_sampled(
    log_probs: Float[Tensor, "n m"],
) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
    """(log of the mean of p_o over m sampled orders, its standard error in nats).

    The mean is unbiased for p(x). Its logarithm lies below log p(x) on average, by about half
    the squared error. To first order the error of a logarithm is the relative error of what it
    is taken of. With the share s_o = p_o / sum of p_o, whose mean is 1/m, that is

        std(p_o) / sqrt(m) / mean(p_o) = std(s_o) sqrt(m).

    It is NaN for a single order.
    """
    m = log_probs.shape[1]
    total = log_probs.logsumexp(1)
    share = (log_probs - total[:, None]).exp()
    share = share.nan_to_num(nan=1 / m)  # -inf minus -inf, where no order makes the text possible
    if m > 1:
        spread = share.std(1)
    else:
        spread = torch.full_like(total, nan)
    return total - log(m), spread * m**0.5


@lru_cache(maxsize=64)
def revealed_sets(k: int, device: torch.device | None = None) -> Bool[Tensor, "sets k"]:
    """Whether set S, a bit mask, holds site i."""
    sets = torch.arange(2**k, device=device)
    sites = torch.arange(k, device=device)
    return ((sets[:, None] >> sites) & 1).bool()


class _SetsOfOneSize(NamedTuple):
    """The c sets of s sites: their bit masks, and the sites inside and outside each of them."""

    sets: Int[Tensor, " c"]
    inside: Int[Tensor, "c s"]
    hidden: Int[Tensor, "c k-s"]


def _sets_by_size(k: int, device: torch.device) -> list[_SetsOfOneSize]:
    """The sets of 0, 1, ..., k sites."""
    holds = revealed_sets(k, device)
    sizes = holds.sum(1)
    by_size: list[_SetsOfOneSize] = []
    for size in range(k + 1):
        sets = (sizes == size).nonzero().flatten()
        inside = holds[sets].nonzero()[:, 1].reshape(len(sets), size)
        hidden = (~holds[sets]).nonzero()[:, 1].reshape(len(sets), k - size)
        by_size.append(_SetsOfOneSize(sets, inside, hidden))
    return by_size
