"""Whether the tables can be the conditionals of one joint at all.

With L = log A - log B for a pair, and lse_x, lse_y, lse its log-sums over x, over y and over both,

    compatibility = mean over all (x, y) of (L + lse - lse_x - lse_y)^2,

zero if and only if the tables are compatible (Arnold & Press 1989): then A/B = mu_a(x) / mu_b(y), a product, and the
bracket is the pointwise mutual information of the distribution proportional to A/B. Swapping the positions turns A/B
into B/A, so that incompatible tables have one value in each order. For k > 2 sites the mean runs over all pairs of
sites too, in the block's order, the other tokens held fixed. That is zero if and only if all k tables are compatible:
log-ratios along the axes then add up to zero around every square of cells, hence around every closed path.

Cells that a table rules out (probability 0) are left out of the sums and of the mean, so that tables with such cells are compared
where both allow a token.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import isfinite, nan

import torch
from torch import Tensor

from unmask.joints.tiles import at, tile_size, tiles
from unmask.joints.triton.pair_form import Linear, PairForm, triton_serves
from unmask.joints.triton.stack import Stack
from unmask.tables.unary import Tables


def compatibility(tables: Tables) -> float:
    """Mean squared log-ratio in nats^2, in two reads of the tables for each pair of sites; zero for a single site."""
    return compatibilities([tables])[0]


def compatibilities(blocks: Sequence[Tables]) -> list[float]:
    """The same for several blocks of one shape."""
    found = _pairs_by_triton(blocks) if triton_serves(*blocks) else [nan] * len(blocks)
    return [number if isfinite(number) else _by_tiles(tables) for number, tables in zip(found, blocks, strict=True)]


def _by_tiles(tables: Tables) -> float:
    pairs = list(combinations(range(tables.sites), 2))
    return sum(_pair(tables, s, t) for s, t in pairs) / max(1, len(pairs))


def _pairs_by_triton(blocks: Sequence[Tables]) -> list[float]:
    """Both reads of each pair on a GPU; not finite where a ratio leaves float32's range."""
    from unmask.joints.triton.pair_sums import pair_sums
    from unmask.joints.triton.table_sums import table_sums

    sums = table_sums(blocks)
    over_y, over_x = torch.stack([s.rows.ratio for s in sums]).log(), torch.stack([s.columns.ratio for s in sums]).log()
    form = PairForm(Linear(1, -1, over_x.logsumexp(1, keepdim=True) - over_y, -over_x))
    a, b = (Stack.of([tables.log_q[t] for tables in blocks]) for t in range(2))
    gaps = pair_sums(a, b, form, square=True)
    means: list[float] = (gaps.row_mass.sum(1) / a.first.numel()).tolist()
    return means


def _pair(tables: Tables, s: int, t: int) -> float:
    def ratio(index: tuple[slice, ...]) -> Tensor:
        cells = at(tables.log_q[s], index) - at(tables.log_q[t], index)
        return cells.masked_fill_(~cells.isfinite(), -torch.inf)

    over_s, over_t = _log_sums(tables, s), _log_sums(tables, t)
    for index in tiles(tables.shape, tile_size(tables)):
        cells = ratio(index)
        for axis, sums in ((s, over_s), (t, over_t)):
            part = at(sums, index)
            torch.logaddexp(part, cells.logsumexp(axis, keepdim=True).double(), out=part)
    over_both = over_s.logsumexp(t, keepdim=True)
    first, second = (over_s - over_both).to(tables.log_q[0].dtype), over_t.to(tables.log_q[0].dtype)
    total, count = torch.zeros((2,), dtype=torch.float64, device=first.device)
    for index in tiles(tables.shape, tile_size(tables)):
        cells = ratio(index)
        left_out = cells == -torch.inf
        gap = (cells - at(first, index) - at(second, index)).masked_fill_(left_out, 0)
        total += gap.square_().sum(dtype=torch.float64)
        count += cells.numel() - left_out.sum()
    return float(total / count)


def _log_sums(tables: Tables, axis: int) -> Tensor:
    shape = [1 if s == axis else n for s, n in enumerate(tables.shape)]
    return torch.full(shape, -torch.inf, dtype=torch.float64, device=tables.log_q[0].device)
