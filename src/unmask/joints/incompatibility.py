"""Incompatibility: how far the conditionals of a block are from those of any joint, in nats; a
property of the tables alone.

Two tables A[x, y] = q(x | y) and B[x, y] = q(y | x) come from one joint mu in which every
context has mass if and only if

1. they have the same zeros, and
2. log A - log B = f(x) + g(y) wherever they are not zero (Arnold & Press 1989):

with u and v the marginals of mu, A = mu / v and B = mu / u, so f = log u and g = -log v.
Conversely A e^-g = B e^f is a joint up to its normaliser: its column sums are e^-g and its row
sums e^f, both positive. So with L = log A - log B

    incompatibility = min over f and g of ( mean of (L - f(x) - g(y))^2 )^(1/2),
            the mean over the cells that are not zero,

is zero if and only if one joint has both conditionals, and infinite where a cell is zero in one
table alone. It is the least root mean square change of the log-ratios that makes the tables
compatible, and does not depend on the order of the blanks.

Cells that are not zero connect the tokens x and y that they belong to. Tokens that no path of
such cells connects share neither an f nor a g, so each connected part of this graph is fitted
by itself: joints may give the parts any masses.

Without zeros the fit is the mean of the row, plus that of the column, minus the mean of all
cells: two reads of the tables. With zeros the normal equations of the fit are solved by
conjugate gradients, which hold a few vectors over the tokens.

For more than two blanks the mean of squares runs over all pairs of blanks and all tokens at the
others, each of which is a pair of tables. A joint of all blanks makes it zero. The converse
does not hold: each pair may have a joint where all have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import inf, isfinite, nan, sqrt

import torch
from torch import Tensor

from unmask.joints.rules import (
    Linear,
    PairForm,
    Stack,
    Tile,
    at,
    by_threads,
    contexts,
    tiles,
    triton_serves,
)
from unmask.tables.unary import Tables

FITS = 6
"""Fits of what the fits before left: the second removes the rounding of the first, and rarely
any more are needed.
"""
LEAST_GAIN = (
    0.5  # Another fit follows while the mean square falls below this share of the one before
)
KEPT = (
    1 << 22
)  # Cells of the largest table whose support is kept in memory, in float64, between reads
SOLVED = 1e-10  # A fit ends when the norm of what its equations lack has fallen to this share
ROUNDED = 1e-14
"""A fit ends too when that norm has fallen to this share of the norm of L: what is left is
rounding. The equations are singular, and steps that follow rounding along what they leave free
are so long that all digits of the gap are lost."""


def incompatibility(tables: Tables) -> float:
    """Root mean square, in nats, of what keeps the tables from being those of one joint; zero
    for a single blank.
    """
    return incompatibilities([tables])[0]


def incompatibilities(blocks: Sequence[Tables]) -> list[float]:
    """`incompatibility` of several blocks of one shape."""
    if triton_serves(*blocks):
        mean_squares = _pairs_by_triton(blocks)
    else:
        mean_squares = [nan] * len(blocks)
    values = []
    for tables, mean_square in zip(blocks, mean_squares, strict=True):
        # Not finite where a table has zeros, or where a ratio leaves float32's range
        values.append(sqrt(mean_square if isfinite(mean_square) else _mean_square(tables)))
    return values


def _mean_square(tables: Tables) -> float:
    pairs = list(combinations(range(tables.sites), 2))
    if not pairs:
        return 0.0
    return sum(_of_pair(tables, s, t) for s, t in pairs) / len(pairs)


def _pairs_by_triton(blocks: Sequence[Tables]) -> list[float]:
    """The mean squares of pairs without zeros on a GPU; not finite for the others."""
    from unmask.joints.triton_programs import pair_sums

    def mean(axis: int) -> Tensor:
        """Mean of L along an axis, a row for each pair."""
        of_pairs = []
        for tables in blocks:
            first, second = (q.mean(axis, dtype=torch.float64) for q in tables.log_q)
            of_pairs.append(first - second)
        return torch.stack(of_pairs)

    over_y, over_x = mean(1), mean(0)
    centre = over_y.mean(1, keepdim=True)
    form = PairForm(Linear(1, -1, f=centre - over_y, e=-over_x))
    a, b = (Stack.of([tables.log_q[t] for tables in blocks]) for t in range(2))
    squares = pair_sums(a, b, form, square=True)
    mean_squares: list[float] = (squares.row_mass.sum(1) / a.first.numel()).tolist()
    return mean_squares


def _of_pair(tables: Tables, s: int, t: int) -> float:
    """The mean square of two blanks, over all tokens at the others."""
    log_s, log_t = tables.log_q[s], tables.log_q[t]

    def sums(part: Sequence[Tile]) -> list[Tensor]:
        over = [contexts(tables, axis) for axis in (s, t)]
        for index in part:
            cells = at(log_s, index) - at(log_t, index)
            for axis, total in zip((s, t), over, strict=True):
                at(total, index).add_(cells.sum(axis, keepdim=True, dtype=torch.float64))
        return over

    def squares(part: Sequence[Tile]) -> Tensor:
        total = torch.zeros((), dtype=torch.float64, device=log_s.device)
        for index in part:
            gap = at(log_s, index) - at(log_t, index) - at(first, index) - at(second, index)
            total += gap.square_().sum(dtype=torch.float64)
        return total

    parts = by_threads(log_s, sums)
    over_s, over_t = (torch.stack(same).sum(0) for same in zip(*parts, strict=True))
    if not bool(over_s.isfinite().all() and over_t.isfinite().all()):
        return _Support(tables, s, t).mean_square()
    mean_s, mean_t = over_s / tables.shape[s], over_t / tables.shape[t]
    centre = mean_t.mean(s, keepdim=True)
    first, second = (mean_s - centre).to(log_s.dtype), mean_t.to(log_s.dtype)
    return float(torch.stack(by_threads(log_s, squares)).sum() / log_s.numel())


class _Support:
    """The log-ratios L of two tables that have zeros, over the cells that are not zero, and
    their fit by f(x_s) + g(x_t).

    f has size 1 at axis t, and g at axis s; both may depend on the tokens at the other blanks.
    """

    def __init__(self, tables: Tables, s: int, t: int) -> None:
        self.tables, self.s, self.t = tables, s, t
        self.f, self.g = contexts(tables, t), contexts(tables, s)
        self.kept: dict[int, Tensor] = {}

    def mean_square(self) -> float:
        """The mean over the support of (L - f - g)^2 at the best f and g."""
        if not self._same_zeros():
            return inf
        ones = torch.ones((1,) * self.tables.sites, dtype=torch.float64, device=self.f.device)
        self.count_f, self.count_g = (
            self._sum(self.t, ones).clamp_min(1),
            self._sum(self.s, ones).clamp_min(1),
        )
        cells = float(self.count_f.sum())
        self.rounding = ROUNDED**2 * self._squares_by_pair()
        left = inf
        for _ in range(FITS):
            self._fit()
            before, left = left, self._squares() / cells
            if not left < LEAST_GAIN * before:
                break
        return min(before, left)

    def _same_zeros(self) -> bool:
        log_s, log_t = self.tables.log_q[self.s], self.tables.log_q[self.t]
        return all(
            torch.equal(at(log_s, index) == -inf, at(log_t, index) == -inf)
            for index in tiles(log_s)
        )

    def _inside(self, index: Tile) -> Tensor:
        """1 in the support and 0 elsewhere; kept for small tables."""
        log_s = self.tables.log_q[self.s]
        if log_s.numel() > KEPT:
            return (at(log_s, index) != -inf).double()
        first = index[0].start
        if first not in self.kept:
            self.kept[first] = (at(log_s, index) != -inf).double()
        return self.kept[first]

    def _gap(self, index: Tile) -> Tensor:
        """L - f - g in the support, and 0 elsewhere."""
        log_s, log_t = (at(self.tables.log_q[axis], index).double() for axis in (self.s, self.t))
        return (log_s - log_t - at(self.f, index) - at(self.g, index)).masked_fill_(
            log_s == -inf, 0
        )

    def _sum(self, axis: int, values: Tensor) -> Tensor:
        """The sum of `values` along an axis, over the support."""
        total = contexts(self.tables, axis)
        for index in tiles(self.tables.log_q[0]):
            at(total, index).add_((self._inside(index) * at(values, index)).sum(axis, keepdim=True))
        return total

    def _gaps(self) -> tuple[Tensor, Tensor]:
        """The sums of the gap along axis t, and along axis s."""
        over_t, over_s = contexts(self.tables, self.t), contexts(self.tables, self.s)
        for index in tiles(self.tables.log_q[0]):
            gap = self._gap(index)
            at(over_t, index).add_(gap.sum(self.t, keepdim=True))
            at(over_s, index).add_(gap.sum(self.s, keepdim=True))
        return over_t, over_s

    def _squares(self) -> float:
        return sum(float(self._gap(index).square_().sum()) for index in tiles(self.tables.log_q[0]))

    def _squares_by_pair(self) -> Tensor:
        """The sum of squares of the gap for each choice of tokens at the other blanks."""
        over_t = contexts(self.tables, self.t)
        for index in tiles(self.tables.log_q[0]):
            at(over_t, index).add_(self._gap(index).square_().sum(self.t, keepdim=True))
        return over_t.sum(self.s, keepdim=True)

    def _fit(self) -> None:
        """Add to f and g what fits the gap best.

        With S the support and D the numbers of its cells along each line, the normal equations
        of the fit are

            D_f f + S g = r_f,    S' f + D_g g = r_g,    r: the sums of the gap.

        Without f these are (D_g - S' S / D_f) g = r_g - S' r_f / D_f, solved by conjugate
        gradients with the preconditioner D_g. They are singular, since a constant may move from
        f to g in each connected part; any solution will do.
        """

        def dot(one: Tensor, other: Tensor) -> Tensor:
            return (one * other).sum(
                self.t, keepdim=True
            )  # by itself for each choice of tokens at the other blanks

        right_f, right_g = self._gaps()
        lack = right_g - self._sum(self.s, right_f / self.count_f)
        step = torch.zeros_like(lack)
        direction = lack / self.count_g
        size = dot(lack, direction)
        enough = (SOLVED**2 * size).maximum(self.rounding)
        for _ in range(2 * lack.shape[self.t]):
            going = size > enough
            if not bool(going.any()):
                break
            of_f = self._sum(self.t, direction) / self.count_f
            image = self.count_g * direction - self._sum(self.s, of_f)
            curvature = dot(direction, image)
            going &= curvature > 0  # rounding alone is left in the others
            length = torch.where(going, size / curvature, 0.0)
            step = step + length * direction
            lack = lack - length * image
            scaled = lack / self.count_g
            new_size = torch.where(going, dot(lack, scaled), 0.0)
            direction = scaled + torch.where(going, new_size / size, 0.0) * direction
            size = new_size
        self.g = self.g + step
        self.f = self.f + (right_f - self._sum(self.t, step)) / self.count_f
