"""The likely tokens of a pair solved exactly, everything else held: what makes hard pairs converge.

Two tokens that nearly determine each other (the halves of a name) exchange almost no probability with the rest, so a sweep
moves their common scale by a sliver of what is missing, and so for any small group. But few tokens hold any mass worth
the name. For the likely ones, rows X and columns Y, the equations of `unmask.joints.solver.pair_sweep` read

    sum_{y in Y} k (A into_v + added_u B scale_v - u B out_v)[x, y] + N[x] - D[x] u[x] = 0,

    N = sum_{y not in Y} k (A into_v + added_u B scale_v),   D = sum_{y not in Y} k B out_v,

and alike for the columns. With N and D held these are |X| + |Y| equations in the logarithms of u on X and v on Y, for
Newton's method. A row meets no other row, so the Jacobian's diagonal blocks are diagonal, and what is factorised is the
Schur complement of the rows, |Y| x |Y|; the factors serve the next steps too, those of the next sweep included, as long
as each divides what is left by ten. Without restarts, and where no token is left out, nothing determines the common scale; then
the mean step of log v is held at zero. N and D are sums of positive terms over strips of the tables (a few hundredths of
their cells), of which a copy is kept: differences of whole sums would lose them to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.joints.solver.members import Members, Site
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
    """Solves the likely tokens' equations of members, again and again as the marginals of the others move."""

    def __init__(self, tables: Tables, members: Members) -> None:
        self.strips, self.members = strips(tables), members
        self.factors: _Factors | None = None
        self.singular = (members.restart == 0) & (self.strips.share == 0)

    def solve(self, points: Float[Tensor, "m n"]) -> Float[Tensor, "m n"]:
        """The marginals (log v, log u) of each member with those of the likely tokens in balance, or nearer to it by NEARER;
        as they came where Newton's method fails.
        """
        s, dtype = self.strips, self.strips.row_a.dtype
        (v, u), c = self.members.at(points, dtype)
        likely_u, likely_v = u.part(s.x), v.part(s.y)
        k = _inverse_sum(likely_u.scale.to(dtype), v.scale.to(dtype))
        rows = _from_others(s.row_a * k, s.row_b * k, likely_u, v)
        k = _inverse_sum(u.scale.to(dtype), likely_v.scale.to(dtype))
        columns = _from_others((s.column_b * k).mT, (s.column_a * k).mT, likely_v, u)
        found = self._newton(likely_u, likely_v, rows, columns)
        where = torch.cat([points.shape[1] - u.near.shape[1] + s.x, s.y])
        return points.index_copy(1, where, torch.where(found.isfinite().all(1, keepdim=True), found + c, points[:, where]))

    def _newton(self, u: Site, v: Site, rows: tuple[Tensor, Tensor], columns: tuple[Tensor, Tensor]) -> Tensor:
        """Log u and log v of the likely tokens, given what flows to them from the rest, N, and to the rest, D."""
        n = u.near.shape[1]
        z = torch.cat([u.near, v.near], 1)
        before = first = [torch.inf] * len(z)
        for number in range(NEWTON_STEPS):
            u, v = u.moved(z[:, :n]), v.moved(z[:, n:])
            k = _inverse_sum(u.scale, v.scale)
            p, q = torch.mul(self.strips.ab, k[:, None]).unbind(1)
            of_u, of_v = _Flows(p, q, k, u, v, *rows), _Flows(q.mT, p.mT, k.mT, v, u, *columns)
            excess = of_u.into / of_u.out - 1, of_v.into / of_v.out - 1
            worst = torch.maximum(excess[0].abs().amax(1), excess[1].abs().amax(1)).tolist()
            first = first if number else worst
            if all(not max(SOLVED, NEARER * f) < w < torch.inf for w, f in zip(worst, first, strict=True)):
                break
            if self.factors is None or any(STALE * b < w < torch.inf for w, b in zip(worst, before, strict=True)):
                self.factors = _factorised(of_u, of_v, self.singular)
            before = worst
            step = self.factors.solve(*excess)
            z = z + step * (LONGEST / step.abs().amax(1, keepdim=True).clamp_min(LONGEST))
        if not all(w < torch.inf for w in worst):
            self.factors = None
        return z


def _inverse_sum(u: Tensor, v: Tensor) -> Tensor:
    return (u[:, :, None] + v[:, None, :]).reciprocal_()


def _from_others(p: Tensor, q: Tensor, own: Site, other: Site) -> tuple[Tensor, Tensor]:
    """N and D of the likely tokens of one blank, in float64; p and q are its own table and the other, times k."""
    incoming = _times(p, other.into.to(p.dtype)).double()
    if not own.restarts:
        return incoming, q.sum(2, dtype=torch.float64)
    back = own.added * _times(q, other.scale.to(p.dtype)).double()
    return incoming + back, _times(q, other.out.to(p.dtype)).double()


class _Flows:
    """What flows into and out of every likely token of one blank, and the derivatives by the logarithms of both marginals.

    For u (and alike for v), with p = k A and q = k B,

        in = p into_v + added_u q scale_v,        out = u q out_v,

    and with the elasticity e = d log scale / d log m = beta (1 - kappa scale) of either scale

        - d (in - out) / d log u  =  k scale_u e_u in + (1 - k scale_u e_u) out
          d (in - out) / d log v  =  p alpha kept_v scale_v + e_v k ( scale_u in + q scale_v (1 - kappa scale_u) u ) :

    all terms are positive, as in a matrix of rates.
    """

    def __init__(self, p: Tensor, q: Tensor, k: Tensor, own: Site, other: Site, others: Tensor, to_others: Tensor) -> None:
        self.p, self.q, self.k, self.own, self.other = p, q, k, own, other
        self.marginal = own.near.exp()
        self.end = to_others * self.marginal
        self.into = _times(p, other.into) + others
        self.out = (_times(q, other.out) if own.restarts else q.sum(2)) * self.marginal + self.end
        if own.restarts:
            self.into += own.added * _times(q, other.scale)

    def derivatives(self) -> tuple[Tensor, Tensor]:
        """Minus that by the logarithm of each token's own marginal, and that by each marginal of the other blank."""
        own, other = self.own, self.other
        own_scale, other_scale = own.scale[:, :, None], other.scale[:, None, :]
        cells_in = self.p * other.into[:, None, :]
        if own.restarts:
            cells_in += self.q * own.added[:, :, None] * other_scale
        back = self.q * self.marginal[:, :, None]
        cells_out = back * other.out[:, None, :]
        share = self.k * (own.scale * own.elasticity)[:, :, None]
        by_own = (cells_out + share * (cells_in - cells_out)).sum(2) + self.end
        through = own_scale * cells_in + (1 - own.kappa * own.scale)[:, :, None] * other_scale * back
        direct = self.p * (other.alpha * other.kept * other.scale)[:, None, :]
        return by_own, direct + other.elasticity[:, None, :] * self.k * through


def _times(cells: Tensor, vector: Tensor) -> Tensor:
    """cells @ vector for each member, in the order in which the cells lie in memory."""
    if cells.is_contiguous():
        return (cells @ vector[:, :, None])[:, :, 0]
    return (vector[:, None, :] @ cells.mT)[:, 0]


def _factorised(of_u: _Flows, of_v: _Flows, singular: Tensor) -> _Factors:
    """`singular`: where nothing determines the common scale, the mean step of log v is held at zero."""
    (own_u, p), (own_v, q) = of_u.derivatives(), of_v.derivatives()
    p, q = p / own_u[:, :, None], q / of_v.out[:, :, None]
    own_u, own_v = own_u / of_u.out, own_v / of_v.out
    schur = torch.diag_embed(own_v) - q @ p + singular[:, :, None] / own_v.shape[1]
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
