"""The likely tokens of a pair solved exactly, everything else held: what makes hard pairs converge.

Two tokens that nearly determine each other (the halves of a name) exchange almost no probability with the rest, so a sweep
moves their common scale by a sliver of what is missing, and so for any small group. But few tokens hold any mass worth
the name. For the likely ones, rows X and columns Y, the equations of `unmask.joints.solver.flow_sweep` read

    sum_{y in Y} k (A v - B u)[x, y] + N[x] - D[x] u[x] = 0,     N = sum_{y not in Y} A v k,   D = sum_{y not in Y} B k,

and alike for the columns. With N and D held these are |X| + |Y| equations in the logarithms of u on X and v on Y, for
Newton's method. A row meets no other row, so the Jacobian's diagonal blocks are diagonal, and what is factorised is the
Schur complement of the rows, |Y| x |Y|; the factors serve the next steps too, those of the next sweep included, as long
as each divides what is left by ten. Where no token is left out nothing determines the common scale; then the mean step of
log v is held at zero. N and D are sums of positive terms over strips of the tables (a few hundredths of
their cells), of which a copy is kept: differences of whole sums would lose them to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.joints.solver.marginals import centred_rows
from unmask.joints.tiles import tile_size, tiles
from unmask.joints.triton.pair_form import table_form, triton_serves
from unmask.tables.kept import kept_with_first
from unmask.tables.unary import Tables

LIKELY = 128
"""Tokens of a blank that each of the three measures chooses; a vocabulary up to three times as large is taken whole."""
NEWTON_STEPS = 20
LONGEST = 2.0
"""Of a Newton step, in nats."""
SOLVED, NEARER = 1e-11, 1e-2
"""A solve ends at the first of these relative imbalances, or where it has become so much smaller."""
STALE = 0.1
"""A step that leaves more than this of the imbalance asks for new factors."""


@dataclass(frozen=True)
class Strips:
    """The tokens of both blanks that may come to hold mass, and their rows and columns of the tables as probabilities.

    ab      the cells of both tables where a likely x meets a likely y
    row_*   the rows of x without those cells; column_* the columns of y
    share   cells of the strips over cells of a table, what one `solve` adds to a read of the tables
    """

    x: Tensor
    y: Tensor
    ab: Tensor
    row_a: Tensor
    row_b: Tensor
    column_a: Tensor
    column_b: Tensor

    @property
    def share(self) -> float:
        n, m = self.column_a.shape[0], self.row_a.shape[1]
        return (self.row_a.numel() + self.column_a.numel() - 2 * len(self.x) * len(self.y)) / (n * m)


@kept_with_first
def strips(tables: Tables) -> Strips:
    """Chosen are the tokens that are likeliest with the whole block masked, those with the largest mean conditionals over
    all contexts, and those with the largest sum_y A[x, y] B[x, y]: a pair that is closed on itself may end up likely from
    however small a start.
    """
    log_a, log_b = tables.log_q
    (mean_x, closed_x), (mean_y, closed_y) = _survey(tables)
    x = _largest([tables.log_masked[0], mean_x, closed_x])
    y = _largest([tables.log_masked[1], mean_y, closed_y])
    ab = torch.stack([t[x][:, y].double().exp() for t in (log_a, log_b)])
    rows = (t[x].exp().index_fill_(1, y, 0) for t in (log_a, log_b))
    columns = (t[:, y].exp().index_fill_(0, x, 0) for t in (log_a, log_b))
    return Strips(x, y, ab, *rows, *columns)


@dataclass(frozen=True)
class _Factors:
    """Of each member's Jacobian J = [[-diag, P], [Q, -diag]], its rows over `out`: what solving J s = -excess takes.

    schur: LU factors and pivots of each; a batched call would go to a routine for tiny matrices on a GPU
    """

    own_u: Float[Tensor, "m x"]
    p: Float[Tensor, "m x y"]
    q: Float[Tensor, "m y x"]
    schur: Sequence[tuple[Tensor, Tensor]]

    def solve(self, excess_u: Tensor, excess_v: Tensor) -> Tensor:
        from_u = excess_u / self.own_u
        right = torch.baddbmm(excess_v[:, :, None], self.q, from_u[:, :, None])
        step_v = torch.stack([torch.linalg.lu_solve(*factors, side) for factors, side in zip(self.schur, right, strict=True)])
        return torch.cat([torch.baddbmm(from_u[:, :, None], self.p, step_v), step_v], 1)[:, :, 0]


class LikelyTokens:
    """Solves the likely tokens' equations of members `alpha`, again and again as the marginals of the others move."""

    def __init__(self, tables: Tables, alpha: Float[Tensor, "m 1"]) -> None:
        self.strips, self.alpha = strips(tables), alpha
        self.sizes = [tables.shape[1], tables.shape[0]]
        self.factors: _Factors | None = None

    def solve(self, points: Float[Tensor, "m n"]) -> Float[Tensor, "m n"]:
        """The marginals (log v, log u) of each member with those of the likely tokens in balance, or nearer to it by NEARER;
        as they came where Newton's method fails.
        """
        s, dtype = self.strips, self.strips.row_a.dtype
        near, c = centred_rows(points, dtype)
        powers = torch.cat([near, (1 - self.alpha) * near], 0).exp().to(dtype)
        (v, u), (v_beta, u_beta) = (part.split(self.sizes, 1) for part in powers.chunk(2))
        k = (u_beta[:, s.x, None] + v_beta[:, None, :]).reciprocal_()
        rows = (s.row_a * k @ v[:, :, None])[:, :, 0].double(), (s.row_b * k).sum(2, dtype=torch.float64)
        k = (u_beta[:, :, None] + v_beta[:, None, s.y]).reciprocal_()
        columns = (u[:, None, :] @ (s.column_b * k))[:, 0].double(), (s.column_a * k).sum(1, dtype=torch.float64)
        where = torch.cat([self.sizes[0] + s.x, s.y])
        found = self._newton(near[:, where], torch.cat([rows[0], columns[0]], 1), torch.cat([rows[1], columns[1]], 1))
        return points.index_copy(1, where, torch.where(found.isfinite().all(1, keepdim=True), found + c, points[:, where]))

    def _newton(self, z: Float[Tensor, "m xy"], others: Float[Tensor, "m xy"], to_others: Float[Tensor, "m xy"]) -> Tensor:
        """`z`: log u and log v of the likely tokens. `others`: what flows to them from the rest, N; `to_others`: D."""
        s, beta, n = self.strips, 1 - self.alpha, len(self.strips.x)
        before = first = [torch.inf] * len(z)
        for number in range(NEWTON_STEPS):
            marginal, power = torch.cat([z, beta * z], 0).exp().chunk(2)
            u, v, u_beta, v_beta = marginal[:, :n, None], marginal[:, None, n:], power[:, :n, None], power[:, None, n:]
            k = (u_beta + v_beta).reciprocal_()
            p, q = torch.mul(s.ab, k[:, None]).unbind(1)
            end = to_others * marginal
            out = torch.cat([q.sum(2) * u[:, :, 0], p.sum(1) * v[:, 0]], 1) + end
            into = torch.cat([(p @ v.mT)[:, :, 0], (u.mT @ q)[:, 0]], 1)
            excess = (into + others) / out - 1
            worst = excess.abs().amax(1).tolist()
            first = first if number else worst
            if all(not max(SOLVED, NEARER * f) < w < torch.inf for w, f in zip(worst, first, strict=True)):
                break
            if self.factors is None or any(STALE * b < w < torch.inf for w, b in zip(worst, before, strict=True)):
                p, q, sizes = p * v, q * u, [n, len(s.y)]
                own_u, own_v = beta[:, :, None] * u_beta * k, beta[:, :, None] * v_beta * k
                by_u, by_v = p * own_u + q * (1 - own_u), p * (1 - own_v) + q * own_v
                self.factors = _factorised(by_u, by_v, end.split(sizes, 1), out.split(sizes, 1), closed=s.share == 0)
            before = worst
            step = self.factors.solve(excess[:, :n], excess[:, n:])
            z = z + step * (LONGEST / step.abs().amax(1, keepdim=True).clamp_min(LONGEST))
        if not all(w < torch.inf for w in worst):
            self.factors = None
        return z


def _factorised(by_u: Tensor, by_v: Tensor, ends: Sequence[Tensor], out: Sequence[Tensor], closed: bool) -> _Factors:
    """`by_u`, `by_v`: derivatives of the flows by log u and log v; `ends`: those of the flows to the others, if any."""
    own_u, own_v = (by_u.sum(2) + ends[0]) / out[0], (by_v.sum(1) + ends[1]) / out[1]
    p, q = by_v / (out[0] * own_u)[:, :, None], by_u.transpose(1, 2) / out[1][:, :, None]
    schur = torch.diag_embed(own_v) - q @ p
    if closed:
        schur += 1 / schur.shape[-1]
    return _Factors(own_u, p, q, [torch.linalg.lu_factor_ex(matrix)[:2] for matrix in schur])


def _survey(tables: Tables) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """For each x sum_y A and sum_y A B, for each y sum_x B and sum_x A B; one read of the tables (on a GPU three)."""
    log_a, log_b = tables.log_q
    if triton_serves(tables):
        from unmask.joints.triton.pair_sums import pair_sums

        of_a, of_b, of_both = (pair_sums(log_a, log_b, table_form(tables, *powers)) for powers in ((1, 0), (0, 1), (1, 1)))
        return (of_a.row_mass, of_both.row_mass), (of_b.column_mass, of_both.column_mass)
    sums, both_sums = [], []
    columns, both_columns = (torch.zeros(log_a.shape[1], dtype=torch.float64, device=log_a.device) for _ in range(2))
    for index in tiles(tables.shape, tile_size(tables)):
        a, b = log_a[index].exp(), log_b[index].exp()
        sums.append(a.sum(1))
        columns += b.sum(0)
        both = a.mul_(b)
        both_sums.append(both.sum(1))
        both_columns += both.sum(0)
    return (torch.cat(sums), torch.cat(both_sums)), (columns, both_columns)


def _largest(measures: list[Tensor]) -> Tensor:
    size = len(measures[0])
    if size <= len(measures) * LIKELY:
        return torch.arange(size, device=measures[0].device)
    chosen: Tensor = torch.cat([measure.topk(LIKELY).indices for measure in measures]).unique()
    return chosen
