"""The likely tokens of a pair solved exactly, everything else held: what makes hard pairs converge.

Two tokens that nearly determine each other (the halves of a name) exchange almost no probability with the rest, so a sweep
moves their common scale by a sliver of what is missing, and so for any small group. But few tokens hold any mass worth
the name. For the likely ones, rows X and columns Y, the equations of `unmask.joints.balance` read

    sum_{y in Y} k (A v - B u)[x, y] + N[x] - D[x] u[x] = 0,     N = sum_{y not in Y} A v k,   D = sum_{y not in Y} B k,

and alike for the columns. With N and D held these are |X| + |Y| equations in the logarithms of u on X and v on Y, for
Newton's method. A row meets no other row, so the Jacobian's diagonal blocks are diagonal, and what is factorised is the
Schur complement of the rows, |Y| x |Y|; the factors serve the next steps too, those of the next sweep included, as long
as each divides what is left by ten. Where no token is left out nothing determines the common scale; then the mean step of
log v is held at zero. N and D are sums of positive terms over strips of the tables (a few hundredths of
their cells), of which a copy is kept: differences of whole sums would lose them to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.conditionals import Tables
from unmask.joints.family import Marginals, centred, tile_size
from unmask.joints.joint import tiles
from unmask.joints.kept import kept_with_tables
from unmask.joints.pair_form import kernels_serve, table_form

LIKELY = 128
"""Tokens of a blank that each of the three measures chooses; a vocabulary up to three times as large is taken whole."""
NEWTON_STEPS = 20
LONGEST = 2.0
"""Of a Newton step, in nats."""
SOLVED = 1e-11
"""The relative imbalance at which a solve ends."""
STALE = 0.1
"""A step that leaves more than this of the imbalance asks for new factors."""


@dataclass(frozen=True)
class Strips:
    """The tokens of both blanks that may come to hold mass, and their rows and columns of the tables as probabilities.

    a, b    the cells where a likely x meets a likely y
    row_*   the rows of x without those cells; column_* the columns of y
    share   cells of the strips over cells of a table, what one `solve` adds to a read of the tables
    """

    x: Tensor
    y: Tensor
    a: Tensor
    b: Tensor
    row_a: Tensor
    row_b: Tensor
    column_a: Tensor
    column_b: Tensor

    @property
    def share(self) -> float:
        n, m = self.column_a.shape[0], self.row_a.shape[1]
        return (self.row_a.numel() + self.column_a.numel() - 2 * len(self.x) * len(self.y)) / (n * m)


@kept_with_tables
def strips(tables: Tables) -> Strips:
    """Chosen are the tokens that are likeliest with the whole block masked, those with the largest mean conditionals over
    all contexts, and those with the largest sum_y A[x, y] B[x, y]: a pair that is closed on itself may end up likely from
    however small a start.
    """
    log_a, log_b = tables.log_q
    (mean_x, closed_x), (mean_y, closed_y) = _survey(tables)
    x = _largest([tables.log_masked[0], mean_x, closed_x])
    y = _largest([tables.log_masked[1], mean_y, closed_y])
    a, b = (t[x][:, y].double().exp() for t in (log_a, log_b))
    rows = (t[x].exp().index_fill_(1, y, 0) for t in (log_a, log_b))
    columns = (t[:, y].exp().index_fill_(0, x, 0) for t in (log_a, log_b))
    return Strips(x, y, a, b, *rows, *columns)


@dataclass(frozen=True)
class _Factors:
    """Of the Jacobian J = [[-diag, P], [Q, -diag]], its rows over `out`: what solving J s = -excess takes."""

    own_u: Tensor
    p: Tensor
    q: Tensor
    schur: Tensor
    pivots: Tensor

    def solve(self, excess_u: Tensor, excess_v: Tensor) -> tuple[Tensor, Tensor]:
        from_u = excess_u / self.own_u
        step_v = torch.linalg.lu_solve(self.schur, self.pivots, (excess_v + self.q @ from_u)[:, None])[:, 0]
        return from_u + self.p @ step_v, step_v


class LikelyTokens:
    """Solves the likely tokens' equations of the member `alpha`, again and again as the marginals of the others move."""

    def __init__(self, tables: Tables, alpha: float) -> None:
        self.strips, self.alpha = strips(tables), alpha
        self.factors: _Factors | None = None

    def solve(self, log_mu: Marginals) -> Marginals:
        """The marginals with those of the likely tokens in balance; as they came where Newton's method fails."""
        s, dtype = self.strips, self.strips.row_a.dtype
        (log_v, log_u), c = centred(log_mu, dtype)
        log_v, log_u = log_v.flatten(), log_u.flatten()
        beta = 1 - self.alpha
        u, v, u_beta, v_beta = (t.exp().to(dtype) for t in (log_u, log_v, beta * log_u, beta * log_v))
        k = (u_beta[s.x, None] + v_beta[None, :]).reciprocal_()
        rows = (s.row_a * k).mv(v).double(), (s.row_b * k).sum(1, dtype=torch.float64)
        k = (u_beta[:, None] + v_beta[None, s.y]).reciprocal_()
        columns = (s.column_b * k).T.mv(u).double(), (s.column_a * k).sum(0, dtype=torch.float64)
        solved = self._newton(log_u[s.x], log_v[s.y], rows, columns)
        if solved is None:
            self.factors = None
            return log_mu
        return (
            log_mu[0].flatten().index_copy(0, s.y, solved[1] + c)[None, :],
            log_mu[1].flatten().index_copy(0, s.x, solved[0] + c)[:, None],
        )

    def _newton(
        self, log_u: Tensor, log_v: Tensor, rows: tuple[Tensor, Tensor], columns: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor] | None:
        s, beta, before = self.strips, 1 - self.alpha, torch.inf
        for _ in range(NEWTON_STEPS):
            u_beta, v_beta = (beta * log_u).exp()[:, None], (beta * log_v).exp()[None, :]
            k = 1 / (u_beta + v_beta)
            u, v = log_u.exp(), log_v.exp()
            p, q = s.a * v * k, s.b * u[:, None] * k
            out_u, out_v = q.sum(1) + rows[1] * u, p.sum(0) + columns[1] * v
            excess_u, excess_v = (p.sum(1) + rows[0]) / out_u - 1, (q.sum(0) + columns[0]) / out_v - 1
            worst = float(torch.maximum(excess_u.abs().amax(), excess_v.abs().amax()))
            if worst < SOLVED:
                return log_u, log_v
            if not worst < torch.inf:
                return None
            if self.factors is None or worst > STALE * before:
                own_u, own_v = beta * u_beta * k, beta * v_beta * k
                by_u, by_v = p * own_u + q * (1 - own_u), p * (1 - own_v) + q * own_v
                ends = rows[1] * u, columns[1] * v
                self.factors = _factorised(by_u, by_v, ends, (out_u, out_v), closed=s.share == 0)
            before = worst
            step_u, step_v = self.factors.solve(excess_u, excess_v)
            longest = torch.maximum(step_u.abs().amax(), step_v.abs().amax())
            scale = LONGEST / longest.clamp_min(LONGEST)
            log_u, log_v = log_u + scale * step_u, log_v + scale * step_v
        return log_u, log_v


def _factorised(by_u: Tensor, by_v: Tensor, ends: tuple[Tensor, Tensor], out: tuple[Tensor, Tensor], closed: bool) -> _Factors:
    """`by_u`, `by_v`: derivatives of the flows by log u and log v; `ends`: those of the flows to the others, if any."""
    own_u, own_v = (by_u.sum(1) + ends[0]) / out[0], (by_v.sum(0) + ends[1]) / out[1]
    p, q = by_v / (out[0] * own_u)[:, None], by_u.T / out[1][:, None]
    schur = torch.diag(own_v) - q @ p
    if closed:
        schur += 1 / len(schur)
    lu, pivots, _ = torch.linalg.lu_factor_ex(schur)
    return _Factors(own_u, p, q, lu, pivots)


def _survey(tables: Tables) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """For each x sum_y A and sum_y A B, for each y sum_x B and sum_x A B; one read of the tables (on a GPU three)."""
    log_a, log_b = tables.log_q
    if kernels_serve(tables):
        from unmask.joints.pair_sums import pair_sums

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
