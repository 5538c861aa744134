"""Whether the tables can be the conditionals of one joint at all.

With L = log A - log B for a pair, and lse_x, lse_y, lse its log-sums over x, over y and over both,

    compatibility = mean over all (x, y) of (L + lse - lse_x - lse_y)^2,

zero if and only if the tables are compatible (Arnold & Press 1989): then A/B = mu_a(x) / mu_b(y), a product, and the
bracket is the pointwise mutual information of the distribution proportional to A/B. Swapping the positions turns A/B
into B/A, so that incompatible tables have one value in each order. For k > 2 sites the mean runs over all pairs of
sites too, in the block's order, the other tokens held fixed. That is zero if and only if all k tables are compatible:
log-ratios along the axes then add up to zero around every square of cells, hence around every closed path.
"""

from __future__ import annotations

from itertools import combinations
from math import isfinite

import torch
from torch import Tensor

from unmask.joints.tiles import at, tile_size, tiles
from unmask.joints.triton.pair_form import Linear, PairForm, table_form, triton_serves
from unmask.tables.unary import Tables


def compatibility(tables: Tables) -> float:
    """Mean squared log-ratio in nats^2, in two reads of the tables for each pair of sites; zero for a single site."""
    if triton_serves(tables):
        found = _pair_by_triton(tables)
        if isfinite(found):
            return found
    pairs = list(combinations(range(tables.sites), 2))
    return sum(_pair(tables, s, t) for s, t in pairs) / max(1, len(pairs))


def _pair_by_triton(tables: Tables) -> float:
    """The pair's two reads on a GPU; not finite where a ratio leaves float32's range."""
    from unmask.joints.triton.pair_sums import pair_sums

    a, b = tables.log_q
    sums = pair_sums(a, b, table_form(tables, 1, -1))
    over_y, over_x = sums.row_mass.log(), sums.column_mass.log()
    f, e = (over_x.logsumexp(0) - over_y).to(a.dtype), (-over_x).to(a.dtype)
    gaps = pair_sums(a, b, PairForm(Linear(1, -1, f, e)), square=True)
    return float(gaps.row_mass.sum()) / a.numel()


def _pair(tables: Tables, s: int, t: int) -> float:
    def ratio(index: tuple[slice, ...]) -> Tensor:
        return at(tables.log_q[s], index) - at(tables.log_q[t], index)

    over_s, over_t = _log_sums(tables, s), _log_sums(tables, t)
    for index in tiles(tables.shape, tile_size(tables)):
        cells = ratio(index)
        for axis, sums in ((s, over_s), (t, over_t)):
            part = at(sums, index)
            torch.logaddexp(part, cells.logsumexp(axis, keepdim=True).double(), out=part)
    over_both = over_s.logsumexp(t, keepdim=True)
    first, second = (over_s - over_both).to(tables.log_q[0].dtype), over_t.to(tables.log_q[0].dtype)
    total = over_both.new_zeros(())
    for index in tiles(tables.shape, tile_size(tables)):
        gap = ratio(index) - at(first, index) - at(second, index)
        total += gap.square_().sum(dtype=torch.float64)
    return float(total) / tables.log_q[0].numel()


def _log_sums(tables: Tables, axis: int) -> Tensor:
    shape = [1 if s == axis else n for s, n in enumerate(tables.shape)]
    return torch.full(shape, -torch.inf, dtype=torch.float64, device=tables.log_q[0].device)
