"""Incompatibility: how far the conditionals of a block are from those of any joint, in nats.

It is a property of the tables alone.

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
conjugate gradients (`_FitWithZeros`), which hold a few vectors over the tokens.

For more than two blanks, each pair of blanks is a pair of tables for each choice of tokens at the
others. The mean of squares runs over all of them. A joint of all blanks makes it zero. The
converse does not hold: each pair may have a joint where all have none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import inf, isfinite, nan, sqrt

import torch
from torch import Tensor

from unmask.joints.rules import Linear, PairForm
from unmask.joints.stacks import Stack, triton_serves
from unmask.joints.tiles import Tile, at, by_threads, contexts, tiles
from unmask.tables.unary import Tables

MOST_FITS = 6
"""Each fit is of what the fits before left. The second removes the rounding of the first, and
rarely any more are needed.
"""
LEAST_GAIN = 0.5
"""Another fit follows while the mean square falls below this share of the one before."""
KEPT_CELLS = 1 << 22
"""Cells of the largest table whose support is kept in memory, in float64, between reads."""
SOLVED = 1e-10
"""A fit ends when the norm of what its equations lack has fallen to this share."""
ROUNDED = 1e-14
"""A fit ends too when that norm has fallen to this share of the norm of L: what is left is
rounding. The equations are singular, and steps that follow rounding along what they leave free
are so long that all digits of the residual are lost.
"""


def incompatibility(tables: Tables) -> float:
    """Root mean square, in nats, of what keeps the tables from being those of one joint.

    It is zero for a single blank.
    """
    return incompatibilities([tables])[0]


def incompatibilities(blocks: Sequence[Tables]) -> list[float]:
    """`incompatibility` of several blocks of one shape."""
    if triton_serves(*blocks):
        mean_squares = _mean_squares_by_triton(blocks)
    else:
        mean_squares = [nan] * len(blocks)  # to be computed from tiles
    values = []
    for tables, mean_square in zip(blocks, mean_squares, strict=True):
        if not isfinite(mean_square):
            mean_square = _mean_square(tables)
        values.append(sqrt(mean_square))
    return values


def _mean_squares_by_triton(blocks: Sequence[Tables]) -> list[float]:
    """The mean square of each pair on a GPU.

    It is not finite where a table has zeros, or where a ratio leaves float32's range.
    """
    from unmask.joints.triton_programs import pair_sums, table_sums

    n, m = blocks[0].shape
    sums = table_sums(blocks)  # the solver, or the metrics, have read them already
    over_y = torch.stack([rows.log_ratio for rows, _ in sums]) / m  # the means of L, a row per pair
    over_x = torch.stack([columns.log_ratio for _, columns in sums]) / n
    centre = over_y.mean(1, keepdim=True)
    residual = PairForm(Linear(a=1, b=-1, f=centre - over_y, e=-over_x))
    a = Stack.of([tables.log_q[0] for tables in blocks])
    b = Stack.of([tables.log_q[1] for tables in blocks])
    squares = pair_sums(a, b, residual, square=True)
    mean_squares: list[float] = (squares.row_mass.sum(1) / (n * m)).tolist()
    return mean_squares


def _mean_square(tables: Tables) -> float:
    """The mean over all pairs of blanks; 0 for a single blank."""
    pairs = list(combinations(range(tables.sites), 2))
    if not pairs:
        return 0.0
    return sum(_mean_square_of_pair(tables, s, t) for s, t in pairs) / len(pairs)


def _mean_square_of_pair(tables: Tables, s: int, t: int) -> float:
    """The mean square of blanks s and t, over all tokens at the others."""
    log_s = tables.log_q[s]
    log_t = tables.log_q[t]

    def sums_of(part: Sequence[Tile]) -> tuple[Tensor, Tensor]:
        """The sums of L over s, and over t."""
        over_s = contexts(tables, s)
        over_t = contexts(tables, t)
        for index in part:
            log_ratio = at(log_s, index) - at(log_t, index)
            at(over_s, index).add_(log_ratio.sum(s, keepdim=True, dtype=torch.float64))
            at(over_t, index).add_(log_ratio.sum(t, keepdim=True, dtype=torch.float64))
        return over_s, over_t

    parts = by_threads(log_s, sums_of)
    sum_over_s = torch.stack([over_s for over_s, _ in parts]).sum(0)
    sum_over_t = torch.stack([over_t for _, over_t in parts]).sum(0)
    if not bool(sum_over_s.isfinite().all() and sum_over_t.isfinite().all()):
        return _mean_square_with_zeros(tables, s, t)

    mean_over_s = sum_over_s / tables.shape[s]
    mean_over_t = sum_over_t / tables.shape[t]
    centre = mean_over_t.mean(s, keepdim=True)
    g = (mean_over_s - centre).to(log_s.dtype)
    f = mean_over_t.to(log_s.dtype)

    def squares_of(part: Sequence[Tile]) -> Tensor:
        """The sum of (L - f - g)^2."""
        total = torch.zeros((), dtype=torch.float64, device=log_s.device)
        for index in part:
            residual = at(log_s, index) - at(log_t, index) - at(g, index) - at(f, index)
            total += residual.square_().sum(dtype=torch.float64)
        return total

    squares = torch.stack(by_threads(log_s, squares_of)).sum()
    return float(squares / log_s.numel())


def _mean_square_with_zeros(tables: Tables, s: int, t: int) -> float:
    """The mean square over the cells that are not zero; infinite if one table alone has a zero."""
    log_s = tables.log_q[s]
    log_t = tables.log_q[t]
    for index in tiles(log_s):
        if not torch.equal(at(log_s, index) == -inf, at(log_t, index) == -inf):
            return inf
    return _FitWithZeros(tables, s, t).least_mean_square()


class _FitWithZeros:
    """The fit of L = log q_s - log q_t by f(x_s) + g(x_t) over the support.

    The support are the cells that are not zero, in both tables. f has size 1 at axis t, and g at
    axis s. Both may depend on the tokens at the other blanks.

    count_f, count_g   how many cells of the support each number of f, and of g, belongs to; 1 for
                       a number that belongs to none
    cells              how many cells the support has
    rounding           what is left is rounding if its squared norm, weighed by 1 / count_g, is
                       below this: one number for each choice of tokens at the other blanks
    """

    def __init__(self, tables: Tables, s: int, t: int) -> None:
        self.tables = tables
        self.s = s
        self.t = t
        self.f = contexts(tables, t)
        self.g = contexts(tables, s)
        self._kept_support: dict[int, Tensor] = {}
        ones = torch.ones((1,) * tables.sites, dtype=torch.float64, device=self.f.device)
        count_f = self._sum(t, ones)
        self.cells = max(1.0, float(count_f.sum()))  # without a cell, squares sum to 0
        # At least 1, since sums are divided by the counts.
        self.count_f = count_f.clamp_min(1)
        self.count_g = self._sum(s, ones).clamp_min(1)
        self.rounding = ROUNDED**2 * self._squares_by_pair()

    def least_mean_square(self) -> float:
        """The mean over the support of (L - f - g)^2 at the best f and g."""
        least = inf
        for _ in range(MOST_FITS):
            self._fit_residual()
            mean_square = self._squares() / self.cells
            gains = mean_square < LEAST_GAIN * least
            least = min(least, mean_square)
            if not gains:
                break
        return least

    def _tiles(self) -> Iterator[Tile]:
        return tiles(self.tables.log_q[0])  # every log_q has the shape of the block

    def _support(self, index: Tile) -> Tensor:
        """1 in the support and 0 elsewhere; kept for small tables."""
        log_s = self.tables.log_q[self.s]
        if log_s.numel() > KEPT_CELLS:
            return (at(log_s, index) != -inf).double()
        first_row = index[0].start
        if first_row not in self._kept_support:
            self._kept_support[first_row] = (at(log_s, index) != -inf).double()
        return self._kept_support[first_row]

    def _residual(self, index: Tile) -> Tensor:
        """L - f - g in the support, and 0 elsewhere."""
        log_s = at(self.tables.log_q[self.s], index).double()
        log_t = at(self.tables.log_q[self.t], index).double()
        residual = log_s - log_t - at(self.f, index) - at(self.g, index)
        return residual.masked_fill_(log_s == -inf, 0)

    def _sum(self, axis: int, values: Tensor) -> Tensor:
        """The sum of `values` along an axis, over the support."""
        total = contexts(self.tables, axis)
        for index in self._tiles():
            inside = self._support(index) * at(values, index)
            at(total, index).add_(inside.sum(axis, keepdim=True))
        return total

    def _residual_sums(self) -> tuple[Tensor, Tensor]:
        """The sums of the residual along axis t, and along axis s."""
        over_t = contexts(self.tables, self.t)
        over_s = contexts(self.tables, self.s)
        for index in self._tiles():
            residual = self._residual(index)
            at(over_t, index).add_(residual.sum(self.t, keepdim=True))
            at(over_s, index).add_(residual.sum(self.s, keepdim=True))
        return over_t, over_s

    def _squares(self) -> float:
        """The sum of squares of the residual."""
        return sum(float(self._residual(index).square_().sum()) for index in self._tiles())

    def _squares_by_pair(self) -> Tensor:
        """The sum of squares of the residual for each choice of tokens at the other blanks."""
        over_t = contexts(self.tables, self.t)
        for index in self._tiles():
            squares = self._residual(index).square_()
            at(over_t, index).add_(squares.sum(self.t, keepdim=True))
        return over_t.sum(self.s, keepdim=True)

    def _dot(self, one: Tensor, other: Tensor) -> Tensor:
        """The inner product of two vectors over x_t, for each choice of tokens at the others."""
        return (one * other).sum(self.t, keepdim=True)

    def _fit_residual(self) -> None:
        """Add to f and g what fits the residual best.

        With S the support and D the numbers of its cells along each line, the normal equations
        of the fit are

            D_f f + S g = r_f,    S' f + D_g g = r_g,    r: the sums of the residual.

        Without f these are (D_g - S' S / D_f) g = r_g - S' r_f / D_f, solved by conjugate
        gradients with the preconditioner D_g. They are singular, since a constant may move from
        f to g in each connected part; any solution will do.

        All choices of tokens at the other blanks are solved side by side, each for itself.
        """
        right_f, right_g = self._residual_sums()
        lack = right_g - self._sum(self.s, right_f / self.count_f)  # at g = 0
        g = torch.zeros_like(lack)
        direction = lack / self.count_g
        size = self._dot(lack, direction)  # the squared norm of the lack, weighed by 1 / D_g
        enough = (SOLVED**2 * size).maximum(self.rounding)
        most_steps = 2 * lack.shape[self.t]  # twice what exact arithmetic needs
        for _ in range(most_steps):
            going = size > enough
            if not bool(going.any()):
                break
            of_f = self._sum(self.t, direction) / self.count_f
            image = self.count_g * direction - self._sum(self.s, of_f)
            curvature = self._dot(direction, image)
            going &= curvature > 0  # rounding alone is left in the others
            length = torch.where(going, size / curvature, 0.0)
            g = g + length * direction
            lack = lack - length * image
            scaled = lack / self.count_g
            new_size = torch.where(going, self._dot(lack, scaled), 0.0)
            direction = scaled + torch.where(going, new_size / size, 0.0) * direction
            size = new_size
        self.g = self.g + g
        self.f = self.f + (right_f - self._sum(self.t, g)) / self.count_f
