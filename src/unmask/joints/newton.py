"""Newton's method on the likely tokens of pairs, the marginals of all others fixed: it makes hard
pairs converge.

Two tokens that nearly determine each other (the halves of a name) exchange almost no probability
with the rest. So a sweep moves their common scale by a small part of its error only. The same holds
for any small group. But few tokens hold nearly all of the mass (`unmask.joints.strips`). For these,
rows X and columns Y, the equations of `unmask.joints.pair_flows` read, with into, out, scale and
added of `unmask.joints.members.Site`,

    sum_{y in Y} k (A into_v + added_u B scale_v - u B out_v)[x, y] + N[x] - D[x] u[x] = 0,

    N = sum_{y not in Y} k (A into_v + added_u B scale_v),   D = sum_{y not in Y} k B out_v,

and the same for the columns. With N and D fixed these are |X| + |Y| equations in the logarithms of
u on X and v on Y, for Newton's method.

N and D are sums of positive terms over strips of the tables (a few hundredths of their cells), of
which a copy is kept. Differences of whole sums would lose them to rounding.

A row meets no other row, so the Jacobian's two diagonal blocks are diagonal matrices. What is
inverted is the Schur complement of the rows' block, |Y| x |Y|. Its factors serve further steps,
those of the next sweep included, as long as each step divides the imbalance by ten.

Without restarts, and where no token is left out, nothing determines the common scale. Then the mean
step of log v is set to zero.

Members of several pairs, one in each row of a matrix, share every operation, and one transfer from
the device per Newton step. No row's numbers depend on the others. Pairs have different numbers of
likely tokens. An unused place holds a token that meets no other, with N = D = u = 1: it is in
balance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from unmask.joints.members import Members, Site
from unmask.joints.pair_flows import column_flows, row_flows
from unmask.joints.stacks import Stack, triton_serves
from unmask.joints.strips import Strips, strips
from unmask.models.batching import on_device

NEWTON_STEPS = 20  # At most, in one solve
LONGEST = 2.0  # Nats that a Newton step may move a marginal
SOLVED = 1e-11  # A relative imbalance at which a solve ends
NEARER = 1e-2  # A solve ends, too, when the imbalance has become smaller by this factor
STALE = 0.1  # A step that leaves more than this of the imbalance asks for new factors


class _Factors(NamedTuple):
    """Factors of each member's Jacobian J = [[-U, P], [Q, -V]], its rows divided by `out`, to
    solve J s = -excess. U and V are diagonal, so

        s_u = U^-1 excess_u + U^-1 P s_v,    (V - Q U^-1 P) s_v = excess_v + Q U^-1 excess_u .

    own_u          the diagonal of U
    p              U^-1 P
    q              Q
    inverse_schur  the inverse of V - Q U^-1 P
    """

    own_u: Float[Tensor, "m x"]
    p: Float[Tensor, "m x y"]
    q: Float[Tensor, "m y x"]
    inverse_schur: Float[Tensor, "m y y"]

    def solve(
        self, excess_u: Float[Tensor, "m x"], excess_v: Float[Tensor, "m y"]
    ) -> Float[Tensor, "m x_and_y"]:
        """The steps of log u, then those of log v."""
        from_u = (excess_u / self.own_u)[:, :, None]
        right = torch.baddbmm(excess_v[:, :, None], self.q, from_u)
        step_v = self.inverse_schur @ right
        step_u = torch.baddbmm(from_u, self.p, step_v)
        return torch.cat([step_u, step_v], 1)[:, :, 0]

    def select(self, rows: Tensor | slice) -> _Factors:
        """The factors of some members."""
        return _Factors(*(factor[rows] for factor in self))


class _Rest(NamedTuple):
    """For each likely token of one blank, its flows from and to the other blank's tokens that are
    not likely.

    into   N, what flows in
    out    D, what flows out over the likely token's own marginal
    """

    into: Float[Tensor, "m tokens"]
    out: Float[Tensor, "m tokens"]

    def select(self, rows: Tensor | slice) -> _Rest:
        """The same of some members."""
        return _Rest(into=self.into[rows], out=self.out[rows])

    def with_unused_balanced(self, used: Bool[Tensor, "m tokens"]) -> _Rest:
        """The same with both flows of a place that is not used set to one: it is in balance."""
        return _Rest(into=torch.where(used, self.into, 1.0), out=torch.where(used, self.out, 1.0))


@dataclass(frozen=True)
class _Equations:
    """The likely tokens' equations of each member, and where Newton's method starts.

    u, v            the likely tokens of both blanks, at the start
    rest_u, rest_v  their flows from and to all others, which stay as they are
    """

    u: Site
    v: Site
    rest_u: _Rest
    rest_v: _Rest


class LikelyTokens:
    """Solves the likely tokens' equations of members, again and again as the marginals of the
    others move.
    """

    def __init__(self, members: Members) -> None:
        self.strips: Strips = strips(members.blocks)
        self.members: Members = members
        # for all blocks or none: they have one shape
        self.all_likely: bool = self.strips.share(0) == 0
        self.stacks: list[Stack] = self._stacks()
        self.factors: _Factors | None = None  # of all rows, once there was a Newton step
        # the rows whose factors can be used
        self.factorised: list[bool] = [False] * len(members.owner)

    def _stacks(self) -> list[Stack]:
        """The strips of each row's pair, for Triton: rows of A, of B, columns of A, of B."""
        strips_of_pairs = (
            self.strips.row_a,
            self.strips.row_b,
            self.strips.column_a,
            self.strips.column_b,
        )
        stacks = []
        for of_pairs in strips_of_pairs:
            stacks.append(Stack.of(list(of_pairs), self.members.owner))
        return stacks

    def keep(self, chosen: Sequence[int]) -> None:
        """Go on with some of the rows."""
        self.members = self.members.select(chosen)
        self.stacks = self._stacks()
        self.factorised = [self.factorised[row] for row in chosen]
        if self.factors is not None:
            rows = on_device(chosen, self.strips.x.device, torch.long)
            self.factors = self.factors.select(rows)

    def solve(self, points: Float[Tensor, "m n"]) -> Float[Tensor, "m n"]:
        """The marginals (log v, log u) of each member with those of the likely tokens in balance,
        or nearer to it by NEARER; as they came where Newton's method fails.
        """
        dtype = self.strips.row_a.dtype
        (v, u), c = self.members.sites_at(points, dtype)  # marginals over e^c
        x_tokens = u.log_m.shape[1]
        y_tokens = v.log_m.shape[1]
        x = self.strips.x[self.members.owners]
        y = self.strips.y[self.members.owners]
        likely_u = _at_tokens(u, x)
        likely_v = _at_tokens(v, y)
        rest_u, rest_v = self._rests(u, v, likely_u, likely_v)
        equations = _Equations(
            u=likely_u,
            v=likely_v,
            rest_u=rest_u.with_unused_balanced(x < x_tokens),
            rest_v=rest_v.with_unused_balanced(y < y_tokens),
        )
        balanced = self._newton(equations)
        # Where the likely tokens are in `points`. Unused places are written to one past the last
        # column, which is padded on, and then cut off.
        past_the_last = x_tokens + y_tokens
        place_of_x = torch.where(x < x_tokens, y_tokens + x, past_the_last)
        place_of_y = torch.where(y < y_tokens, y, past_the_last)
        places = torch.cat([place_of_x, place_of_y], 1)
        before = functional.pad(points, (0, 1))
        works = balanced.isfinite().all(1, keepdim=True)
        solved = torch.where(works, balanced + c, before.gather(1, places))
        return before.scatter(1, places, solved)[:, :-1]

    def _rests(self, u: Site, v: Site, likely_u: Site, likely_v: Site) -> tuple[_Rest, _Rest]:
        """N and D of the likely tokens of both blanks, in float64."""
        if triton_serves(*self.members.blocks):
            from unmask.joints import triton_programs

            rows_a, rows_b, columns_a, columns_b = self.stacks
            of_x = triton_programs.row_flows(rows_a, rows_b, likely_u, v, logs=False)
            of_y = triton_programs.column_flows(columns_a, columns_b, u, likely_v, logs=False)
            return _Rest(*of_x), _Rest(*of_y)
        strips_of_pairs = self.strips
        rows = []
        columns = []
        for block, of_block in self.members.by_block():
            row_a = strips_of_pairs.row_a[block]
            row_b = strips_of_pairs.row_b[block]
            rows.append(row_flows(row_a, row_b, likely_u.select(of_block), v.select(of_block)))
            column_a = strips_of_pairs.column_a[block]
            column_b = strips_of_pairs.column_b[block]
            columns.append(
                column_flows(column_a, column_b, u.select(of_block), likely_v.select(of_block))
            )
        into_x, out_of_x = torch.cat(rows, 1)
        into_y, out_of_y = torch.cat(columns, 1)
        return _Rest(into=into_x, out=out_of_x), _Rest(into=into_y, out=out_of_y)

    def _newton(self, equations: _Equations) -> Float[Tensor, "m x_and_y"]:
        """Log u and log v of the likely tokens in balance. Where the method fails, some are not
        finite.

        A row leaves when it is solved, or has failed. `live` are the numbers of those that are
        left. A place is an index into `live`, and into tensors with a row for each of these.
        """
        z = torch.cat([equations.u.log_m, equations.v.log_m], 1)
        live = list(range(len(z)))
        before = [torch.inf] * len(z)  # imbalance of each row at its last step
        at_first: list[float] = []  # imbalance of each row at the start
        rows: Tensor | slice = slice(None)  # `live`, as an index; all rows without a copy
        for _ in range(NEWTON_STEPS):
            of_u, of_v = self._flows(equations, z, rows)
            excess_u = of_u.into / of_u.out - 1
            excess_v = of_v.into / of_v.out - 1
            worst = torch.maximum(excess_u.abs().amax(1), excess_v.abs().amax(1)).tolist()
            if not at_first:
                at_first = worst  # all rows are live
            going, stale = self._going_and_stale(live, worst, at_first, before)
            for row, imbalance in zip(live, worst, strict=True):
                before[row] = imbalance
            if not going:
                break
            if stale:
                self._factorise(of_u, of_v, live, stale)
            if len(going) < len(live):
                live = [live[place] for place in going]
                rows = on_device(live, z.device)
                going_places = on_device(going, z.device)
                excess_u = excess_u[going_places]
                excess_v = excess_v[going_places]
            assert self.factors is not None  # no row had any before the first step
            step = self.factors.select(rows).solve(excess_u, excess_v)
            longest = step.abs().amax(1, keepdim=True)
            step = step * (LONGEST / longest.clamp_min(LONGEST))
            if isinstance(rows, slice):
                z = z + step
            else:
                z = z.index_add(0, rows, step)
        return z

    def _going_and_stale(
        self,
        live: Sequence[int],
        imbalances: Sequence[float],
        at_first: Sequence[float],
        before: Sequence[float],
    ) -> tuple[list[int], list[int]]:
        """The places of the live rows that make a step, and of those among them that need new
        factors for it. The factors of a row that has failed are not used again.

        imbalances        of each live row, now
        at_first, before  of all rows, at the start and at the last step
        """
        going = []
        stale = []
        for place, (row, imbalance) in enumerate(zip(live, imbalances, strict=True)):
            has_failed = not imbalance < torch.inf  # also if it is NaN
            if has_failed:
                self.factorised[row] = False
            elif imbalance > max(SOLVED, NEARER * at_first[row]):
                going.append(place)
                if not self.factorised[row] or imbalance > STALE * before[row]:
                    stale.append(place)
        return going, stale

    def _flows(
        self, equations: _Equations, z: Float[Tensor, "m x_and_y"], rows: Tensor | slice
    ) -> tuple[_Flows, _Flows]:
        """The flows of the likely tokens of both blanks at `z`, for some rows."""
        n = equations.u.log_m.shape[1]
        u = equations.u.select(rows).moved(z[rows, :n])
        v = equations.v.select(rows).moved(z[rows, n:])
        k = (u.scale[:, :, None] + v.scale[:, None, :]).reciprocal_()
        owners = self.members.owners[rows]
        ab = self.strips.ab[owners]
        ka, kb = torch.mul(ab, k[:, None]).unbind(1)
        # For v, A and B change places, and so do rows and columns.
        of_u = _Flows.at(ka, kb, k, own=u, other=v, rest=equations.rest_u.select(rows))
        of_v = _Flows.at(kb.mT, ka.mT, k.mT, own=v, other=u, rest=equations.rest_v.select(rows))
        return of_u, of_v

    def _factorise(
        self, of_u: _Flows, of_v: _Flows, live: Sequence[int], stale: Sequence[int]
    ) -> None:
        """New factors of some rows: those at the places `stale` in `live`, and in the flows."""
        device = of_u.into.device
        if len(stale) < len(live):
            places = on_device(stale, device)
            of_u = of_u.select(places)
            of_v = of_v.select(places)
        stale_rows = [live[place] for place in stale]
        rows = on_device(stale_rows, device)
        singular = None
        if self.all_likely:
            singular = self.members.restart[rows] == 0
        new = _factorised(of_u, of_v, singular)
        count = len(self.factorised)
        if len(stale_rows) == count:
            self.factors = new
        else:
            if self.factors is None:
                zeros = [factor.new_zeros((count, *factor.shape[1:])) for factor in new]
                self.factors = _Factors(*zeros)
            for factor, of_rows in zip(self.factors, new, strict=True):
                factor[rows] = of_rows
        for row in stale_rows:
            self.factorised[row] = True


def _at_tokens(site: Site, tokens: Int[Tensor, "m places"]) -> Site:
    """The site of these tokens. One past the last has the marginal 1, to which nothing is added."""
    return site.over(lambda values: functional.pad(values, (0, 1)).gather(1, tokens))


@dataclass(frozen=True)
class _Flows:
    """Flows into and out of every likely token of one blank, and the derivatives by the logarithms
    of both marginals.

    For u (for v, A and B change places), with p = k A and q = k B, a cell adds

        in = p into_v + added_u q scale_v,        out = u q out_v .

    With the elasticity e = d log scale / d log m = beta (1 - kappa scale) of either scale its
    derivatives are

        - d (in - out) / d log u  =  k scale_u e_u in + (1 - k scale_u e_u) out
          d (in - out) / d log v  =  p alpha own_weight_v scale_v
                                     + e_v k ( scale_u in + q scale_v (1 - kappa scale_u) u ) :

    all terms are positive, as in a matrix of rates. The first is summed over v; to it N adds
    nothing, and D adds what flows out to the tokens that are not likely.

    own, other  the blank itself, and the one that is summed over
    marginal    u
    into, out   in and out, those from and to the tokens that are not likely included
    out_to_rest the part of `out` that goes to the tokens that are not likely
    """

    p: Float[Tensor, "m own other"]
    q: Float[Tensor, "m own other"]
    k: Float[Tensor, "m own other"]
    own: Site
    other: Site
    marginal: Float[Tensor, "m own"]
    into: Float[Tensor, "m own"]
    out: Float[Tensor, "m own"]
    out_to_rest: Float[Tensor, "m own"]

    @staticmethod
    def at(p: Tensor, q: Tensor, k: Tensor, own: Site, other: Site, rest: _Rest) -> _Flows:
        """The flows at the marginals of both blanks."""
        marginal = own.log_m.exp()
        out_to_rest = rest.out * marginal
        into = _times(p, other.into) + rest.into
        if own.restarts:
            into += own.added * _times(q, other.scale)
            out = _times(q, other.out) * marginal + out_to_rest
        else:  # out_v is one
            out = q.sum(2) * marginal + out_to_rest
        return _Flows(
            p=p,
            q=q,
            k=k,
            own=own,
            other=other,
            marginal=marginal,
            into=into,
            out=out,
            out_to_rest=out_to_rest,
        )

    def select(self, rows: Tensor) -> _Flows:
        """The flows of some rows."""
        return _Flows(
            p=self.p[rows],
            q=self.q[rows],
            k=self.k[rows],
            own=self.own.select(rows),
            other=self.other.select(rows),
            marginal=self.marginal[rows],
            into=self.into[rows],
            out=self.out[rows],
            out_to_rest=self.out_to_rest[rows],
        )

    def derivatives(self) -> tuple[Float[Tensor, "m own"], Float[Tensor, "m own other"]]:
        """Minus that by the logarithm of each token's own marginal, and that by each marginal of
        the other blank.
        """
        own = self.own
        other = self.other
        own_scale = own.scale[:, :, None]
        other_scale = other.scale[:, None, :]
        cells_in = self.p * other.into[:, None, :]
        if own.restarts:
            cells_in += self.q * own.added[:, :, None] * other_scale
        back = self.q * self.marginal[:, :, None]
        cells_out = back * other.out[:, None, :]
        share = self.k * (own.scale * own.elasticity)[:, :, None]
        by_own = (cells_out + share * (cells_in - cells_out)).sum(2) + self.out_to_rest
        kept = (1 - own.kappa * own.scale)[:, :, None]
        through_k = own_scale * cells_in + kept * other_scale * back
        direct = self.p * (other.alpha * other.own_weight * other.scale)[:, None, :]
        by_other = direct + other.elasticity[:, None, :] * self.k * through_k
        return by_own, by_other


def _times(
    cells: Float[Tensor, "m own other"], vector: Float[Tensor, "m other"]
) -> Float[Tensor, "m own"]:
    """cells @ vector for each member, in the order in which the cells lie in memory."""
    if cells.is_contiguous():
        return (cells @ vector[:, :, None])[:, :, 0]
    return (vector[:, None, :] @ cells.mT)[:, 0]


def _factorised(of_u: _Flows, of_v: _Flows, singular: Bool[Tensor, "m 1"] | None) -> _Factors:
    """Factors of the Jacobian.

    singular   whether nothing fixes the common scale of a member; None if some tokens are not
               likely, which fix it

    In balance, the Schur complement of a singular member has a constant step of log v in its null
    space. A constant added to all its cells sets the mean of the step to zero.
    """
    own_u, by_v = of_u.derivatives()
    own_v, by_u = of_v.derivatives()
    p = by_v / own_u[:, :, None]
    q = by_u / of_v.out[:, :, None]
    own_u = own_u / of_u.out
    own_v = own_v / of_v.out
    schur = torch.diag_embed(own_v) - q @ p
    if singular is not None:
        schur += singular[:, :, None] / own_v.shape[1]
    return _Factors(own_u=own_u, p=p, q=q, inverse_schur=inverses(schur))


def inverses(matrices: Float[Tensor, "rows n n"]) -> Float[Tensor, "rows n n"]:
    """Inverses, one by one on a CPU: with several threads torch 2.13 loses the pivots of a batch
    of large matrices.
    """
    if matrices.is_cuda:
        return torch.linalg.inv_ex(matrices)[0]
    return torch.stack([torch.linalg.inv_ex(matrix)[0] for matrix in matrices])
