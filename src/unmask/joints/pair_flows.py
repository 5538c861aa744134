"""The flows of pairs, for several members of the family in one read of the tables.

A pair has the tables A = q_0 and B = q_1 over (x, y), and the marginals u[x] = m_1 and v[y] = m_0.
With the terms of `unmask.joints.members.Site`,

    scale = 1 / I,        into = W / I,        out = 1 + kappa / I,

the balance of flows (`unmask.joints.sweeps`) reads

    u[x] <- sum_y k (A into_v + added_u B scale_v) / sum_y k B out_v,
            k[x, y] = 1 / (scale_u[x] + scale_v[y]),

and v the same, with A and B exchanged, x and y, and u and v. Here tiles are summed, on any device.
On a GPU `unmask.joints.triton_programs` does the same for several pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.joints.members import Site
from unmask.joints.tiles import Tile, by_threads


def row_flows(a: Tensor, b: Tensor, u: Site, v: Site) -> Float[Tensor, "2 m n"]:
    """The two sums over y for every x, in float64, for each member; the tables hold
    probabilities.
    """

    def sums(part: Sequence[Tile]) -> Float[Tensor, "3 m x"]:
        flows = PairFlows(a, u, v, part)
        sums_of_tiles = []
        for index in part:
            rows = index[0]
            sums_of_tiles.append(flows.of_rows(a[index], b[index], rows))
        return torch.cat(sums_of_tiles, 2)

    into, out, back = torch.cat(by_threads(a, sums), 2)
    return torch.stack([into + u.added * back, out])


def column_flows(a: Tensor, b: Tensor, u: Site, v: Site) -> Float[Tensor, "2 m n"]:
    """The two sums over x for every y, in float64, for each member."""

    def sums(part: Sequence[Tile]) -> Float[Tensor, "3 m y"]:
        flows = PairFlows(a, u, v, part)
        total = torch.zeros(())  # takes the shape and the float64 of the first tile's sums
        for index in part:
            u_of_rows = u.over(itemgetter((slice(None), index[0])))  # [:, rows]
            sums_of_tile = flows.of_columns(a[index], b[index], u_of_rows)
            total = total + sums_of_tile.double()
        return total

    into, out, back = torch.stack(by_threads(a, sums)).sum(0)
    return torch.stack([into + v.added * back, out])


class _Terms(NamedTuple):
    """The terms of the blank that is summed over, for each member, in the tables' dtype."""

    into: tuple[Tensor, ...]
    out: tuple[Tensor, ...]
    scale: tuple[Tensor, ...]


class PairFlows:
    """Three sums over a tile for each member, from which the marginal of one blank follows: into,
    out and back in

        u = (into + added_u back) / out,    into = sum_y k A into_v,    out = sum_y k B out_v,
                back = sum_y k B scale_v ,

    and the same for v with A and B exchanged. Without restarts back is not needed, and is zero.
    """

    def __init__(self, table: Tensor, u: Site, v: Site, part: Sequence[Tile]) -> None:
        """Allocates work space for the largest of the tiles `part`, the first.

        The terms of v are computed once, for `of_rows`; `of_columns` gets its u at each call.
        """
        rows = part[0][0]
        shape = (rows.stop - rows.start, table.shape[1])
        members = len(u.log_m)
        self.inverse_k: Tensor = table.new_empty(shape)
        self.work: Tensor = table.new_empty(shape)
        self.row_sums: Tensor = table.new_zeros((3, members, shape[0]))
        self.column_sums: Tensor = table.new_zeros((3, members, shape[1]))
        # Of each member: with alpha = 1, scale does not depend on the marginal, and k is the same
        # in all cells
        self.constant: list[bool] = (u.alpha == 1).flatten().tolist()
        self.restarts: list[bool] = (u.kappa > 0).flatten().tolist()
        self.scale_u: Tensor = u.scale.to(table.dtype)
        self.scale_v: Tensor = v.scale.to(table.dtype)
        self.terms_of_v: _Terms = self._terms(v)

    def _terms(self, site: Site) -> _Terms:
        dtype = self.work.dtype
        return _Terms(
            into=site.into.to(dtype).unbind(),
            out=site.out.to(dtype).unbind(),
            scale=site.scale.to(dtype).unbind(),
        )

    def of_rows(self, a: Tensor, b: Tensor, rows: slice) -> Float[Tensor, "3 m x"]:
        """The sums over y, in float64, for some rows."""
        sums = self.row_sums[:, :, : len(a)]
        scale_u = self.scale_u[:, rows]
        self._write(sums, p=a, q=b, scale_u=scale_u, summed=self.terms_of_v, over_x=False)
        return sums.to(torch.float64, copy=True)  # the next rows are summed in the same memory

    def of_columns(self, a: Tensor, b: Tensor, u: Site) -> Float[Tensor, "3 m y"]:
        """The sums over the x of `u`, in the tables' dtype. The next call overwrites them."""
        scale_u = u.scale.to(self.work.dtype)
        terms_of_u = self._terms(u)
        self._write(self.column_sums, p=b, q=a, scale_u=scale_u, summed=terms_of_u, over_x=True)
        return self.column_sums

    def _write(
        self, sums: Tensor, p: Tensor, q: Tensor, scale_u: Tensor, summed: _Terms, over_x: bool
    ) -> None:
        """Write sum k p into, sum k q out and sum k q scale of each member to `sums`, with the
        terms of the blank that is summed over, `summed`.
        """
        inverse_k = self.inverse_k[: len(p)]
        work = self.work[: len(p)]  # holds k p, and then k q
        of_members = zip(summed.into, summed.out, summed.scale, strict=True)
        for i, (into, out, scale) in enumerate(of_members):
            constant = self.constant[i]
            if constant:
                kp = p  # the sums are divided by 1 / k below
            else:
                torch.add(scale_u[i, :, None], self.scale_v[i], out=inverse_k)
                kp = torch.div(p, inverse_k, out=work)
            _sum(kp, into, over_x, out=sums[0, i])
            kq = q if constant else torch.div(q, inverse_k, out=work)
            _sum(kq, out, over_x, out=sums[1, i])
            if self.restarts[i]:
                _sum(kq, scale, over_x, out=sums[2, i])
            if constant:
                sums[:, i] /= scale_u[i, 0] + self.scale_v[i, 0]


def _sum(cells: Tensor, vector: Tensor, over_x: bool, out: Tensor) -> None:
    """Sum the cells times a vector over x or over y."""
    torch.mv(cells.T if over_x else cells, vector, out=out)
