"""The likely tokens of a pair solved exactly, everything else held: what makes hard pairs converge.

Two tokens that nearly determine each other (the halves of a name) exchange almost no probability with the rest, so a sweep
moves their common scale by a sliver of what is missing, and so for any small group. But few tokens hold any mass worth
the name. For the likely ones, rows X and columns Y, the equations of `unmask.joints.balance` read

    sum_{y in Y} k (A v - B u)[x, y] + N[x] - D[x] u[x] = 0,     N = sum_{y not in Y} A v k,   D = sum_{y not in Y} B k,

and alike for the columns. With N and D held these are |X| + |Y| equations in the logarithms of u on X and v on Y, which
Newton's method solves in a few steps of dense linear algebra. N and D are sums of positive terms over strips of the
tables (a few hundredths of their cells), of which a copy is kept: differences of whole sums would lose them to rounding.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unmask.conditionals import Tables
from unmask.joints.family import Marginals, centred, tile_size
from unmask.joints.joint import tiles

LIKELY = 128
"""Tokens of a blank that each of the three measures chooses; a vocabulary up to three times as large is taken whole."""
NEWTON_STEPS = 12
LONGEST = 2.0
"""Of a Newton step, in nats."""
SOLVED = 1e-12
RIDGE = 1e-12
"""Against the one direction that nothing determines when no token is left out: the common scale."""


class LikelyTokens:
    """The tokens of both blanks that may come to hold mass, and their strips of the tables.

    Chosen are those with the largest marginals at the start, with the largest mean conditionals over all contexts, and with
    the largest max_y A[x, y] B[x, y]: a pair that is closed on itself may end up likely from however small a start.
    share: cells of the strips over cells of a table, what one `solve` adds to a read of the tables
    """

    def __init__(self, tables: Tables, log_mu: Marginals, alpha: float) -> None:
        self.alpha = alpha
        log_a, log_b = tables.log_q
        (mean_x, closed_x), (mean_y, closed_y) = _survey(tables)
        self.x = _largest([log_mu[1].flatten(), mean_x, closed_x])
        self.y = _largest([log_mu[0].flatten(), mean_y, closed_y])
        self.a, self.b = (t[self.x][:, self.y].double().exp() for t in (log_a, log_b))
        self.row_a, self.row_b = (t[self.x].exp().index_fill_(1, self.y, 0) for t in (log_a, log_b))
        self.column_a, self.column_b = (t[:, self.y].exp().index_fill_(0, self.x, 0) for t in (log_a, log_b))
        inside = len(self.x) * len(self.y)
        self.share = (self.row_a.numel() + self.column_a.numel() - 2 * inside) / log_a.numel()

    def solve(self, log_mu: Marginals) -> Marginals:
        """The marginals with those of the likely tokens in balance; as they came where Newton's method fails."""
        dtype = self.row_a.dtype
        (log_v, log_u), c = centred(log_mu, dtype)
        log_v, log_u = log_v.flatten(), log_u.flatten()
        beta = 1 - self.alpha
        u, v, u_beta, v_beta = (t.exp().to(dtype) for t in (log_u, log_v, beta * log_u, beta * log_v))
        k = (u_beta[self.x, None] + v_beta[None, :]).reciprocal_()
        rows = (self.row_a * k).mv(v).double(), (self.row_b * k).sum(1, dtype=torch.float64)
        k = (u_beta[:, None] + v_beta[None, self.y]).reciprocal_()
        columns = (self.column_b * k).T.mv(u).double(), (self.column_a * k).sum(0, dtype=torch.float64)
        solved = self._newton(log_u[self.x], log_v[self.y], rows, columns)
        if solved is None:
            return log_mu
        return (
            log_mu[0].flatten().index_copy(0, self.y, solved[1] + c)[None, :],
            log_mu[1].flatten().index_copy(0, self.x, solved[0] + c)[:, None],
        )

    def _newton(
        self, log_u: Tensor, log_v: Tensor, rows: tuple[Tensor, Tensor], columns: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor] | None:
        beta, n = 1 - self.alpha, len(log_u)
        for _ in range(NEWTON_STEPS):
            u_beta, v_beta = (beta * log_u).exp()[:, None], (beta * log_v).exp()[None, :]
            k = 1 / (u_beta + v_beta)
            p, q = self.a * log_v.exp() * k, self.b * log_u.exp()[:, None] * k
            out = torch.cat([q.sum(1) + rows[1] * log_u.exp(), p.sum(0) + columns[1] * log_v.exp()])
            excess = (torch.cat([p.sum(1) + rows[0], q.sum(0) + columns[0]]) - out) / out
            if float(excess.abs().amax()) < SOLVED:
                break
            by_u, by_v = (
                p * (beta * u_beta * k) + q * (1 - beta * u_beta * k),
                p * (1 - beta * v_beta * k) + q * beta * v_beta * k,
            )
            jacobian = torch.zeros((len(out), len(out)), dtype=out.dtype, device=out.device)
            jacobian[:n, n:], jacobian[n:, :n] = by_v, by_u.T
            own = torch.cat([by_u.sum(1) + rows[1] * log_u.exp(), by_v.sum(0) + columns[1] * log_v.exp()])
            jacobian -= torch.diag(own + RIDGE * out)
            step, failed = torch.linalg.solve_ex(jacobian / out[:, None], -excess)
            if int(failed) or not bool(torch.isfinite(step).all()):
                return None
            step *= LONGEST / step.abs().amax().clamp_min(LONGEST)
            log_u, log_v = log_u + step[:n], log_v + step[n:]
        return log_u, log_v


def _survey(tables: Tables) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """For each x sum_y A and max_y log(A B), for each y sum_x B and max_x log(A B); one read of the tables."""
    log_a, log_b = tables.log_q
    sums, most = [], []
    columns = torch.zeros(log_a.shape[1], dtype=torch.float64, device=log_a.device)
    most_columns = torch.full_like(log_a[0], -torch.inf)
    for index in tiles(tables.shape, tile_size(tables)):
        a, b = log_a[index], log_b[index]
        sums.append(a.exp().sum(1))
        columns += b.exp().sum(0)
        both = a + b
        most.append(both.amax(1))
        most_columns = torch.maximum(most_columns, both.amax(0))
    return (torch.cat(sums), torch.cat(most)), (columns, most_columns)


def _largest(measures: list[Tensor]) -> Tensor:
    size = len(measures[0])
    if size <= len(measures) * LIKELY:
        return torch.arange(size, device=measures[0].device)
    chosen: Tensor = torch.cat([measure.topk(LIKELY).indices for measure in measures]).unique()
    return chosen
