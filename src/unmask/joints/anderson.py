"""Anderson's method for the fixed point of a map z -> G(z), without safeguards.

Let f = G(z) - z. The method remembers the last m changes of z and of f, dz_i and df_i. The
combination of the df_i that is nearest to f tells which combination of past moves would have
cancelled f, and the next point is

    z_next = G(z) - sum_i c_i (dz_i + df_i),        c = argmin | f - sum_i c_i df_i | .

The caller gives the weights w of the length |v|^2 = sum_x w[x] v[x]^2.

    1  `Changes.add` remembers the changes that lead to z and f.
    2  `Changes.inner_products` multiplies all df_i, dz_i and f with each other.
    3  `Products.combination` solves the normal equations for c, on a CPU.
    4  `Changes.next_point` is z_next. Its distance from G(z) is limited to LONGEST.

Each row of a matrix is an iteration of its own. The rows share every operation, and no row's
numbers depend on the others.

When a step is not trusted, and when an iteration ends, is said in `unmask.joints.fixed_point`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

MEMORY = 12  # Changes that are kept: the largest m
LONGEST = 3.0
"""The largest difference of a coordinate of z_next from that of G(z), in nats. Two tokens that
hardly ever meet others need several such steps.
"""
RIDGE = 1e-10
"""Added to the diagonal of the normal equations, which is 1, or 0 where a slot is not filled. A 0
could not be factorised.
"""
SHORTEST = 1e-150
"""A change of f is divided by this if its own length is less, such as 0 in a slot not filled.
Products are divided by two lengths, whose product of 1e-300 float64 can still represent.
"""


class Changes:
    """The last MEMORY changes of z and of f = G(z) - z, oldest first.

    A slot holds zeros where a row has no change: its first point has none before it, and `clear`
    forgets those before it.
    """

    dz: Float[Tensor, "rows slots n"]
    df: Float[Tensor, "rows slots n"]
    z: Float[Tensor, "rows n"]  # the last point
    f: Float[Tensor, "rows n"]  # G(z) - z there
    starts: Bool[Tensor, " rows"]  # whether the next point has none before it

    def __init__(self, start: Float[Tensor, "rows n"]) -> None:
        rows, n = start.shape
        self.dz = start.new_zeros((rows, 0, n))
        self.df = start.new_zeros((rows, 0, n))
        self.z = start
        self.f = torch.zeros_like(start)  # never used: all rows start
        self.starts = torch.ones(rows, dtype=torch.bool, device=start.device)

    def add(self, z: Float[Tensor, "rows n"], g: Float[Tensor, "rows n"]) -> None:
        """Remember how the point z, with G(z) = g, differs from the last point."""
        f = g - z
        self.dz = self._with_newest(self.dz, z - self.z)
        self.df = self._with_newest(self.df, f - self.f)
        self.z = z
        self.f = f
        self.starts = torch.zeros_like(self.starts)

    def _with_newest(
        self, changes: Float[Tensor, "rows slots n"], newest: Float[Tensor, "rows n"]
    ) -> Float[Tensor, "rows slots_after n"]:
        """The changes and one more. The oldest leaves if all slots are filled."""
        if changes.shape[1] == MEMORY:
            changes = changes[:, 1:]
        newest = torch.where(self.starts[:, None], 0.0, newest)
        return torch.cat([changes, newest[:, None]], dim=1)

    def clear(self, places: Int[Tensor, " cleared"]) -> None:
        """Forget the changes of the rows at these places."""
        self.dz[places] = 0.0
        self.df[places] = 0.0
        self.starts[places] = True

    def keep(self, places: Int[Tensor, " kept"]) -> None:
        """Drop all rows but those at these places."""
        self.dz = self.dz[places]
        self.df = self.df[places]
        self.z = self.z[places]
        self.f = self.f[places]
        self.starts = self.starts[places]

    def inner_products(self, log_weight: Float[Tensor, "rows n"]) -> Float[Tensor, "rows w w"]:
        """Weighted inner products of the w = 2 m + 1 vectors df_1 .. df_m, dz_1 .. dz_m, f, in
        this order.
        """
        vectors = torch.cat([self.df, self.dz, self.f[:, None]], dim=1)
        root_of_weight = (0.5 * log_weight).exp()
        weighted = vectors * root_of_weight[:, None]
        return weighted @ weighted.mT

    def next_point(
        self, g: Float[Tensor, "rows n"], combination: Float[Tensor, "rows slots"]
    ) -> Float[Tensor, "rows n"]:
        """z_next = G(z) - sum_i c_i (dz_i + df_i), with the sum limited to LONGEST."""
        c = combination.to(g.device, non_blocking=True)
        beyond_g = (c[:, None] @ (self.dz + self.df)).squeeze(1)
        return g - _limited(beyond_g)


def _limited(vectors: Float[Tensor, "rows n"]) -> Float[Tensor, "rows n"]:
    """Each row scaled down so that its largest coordinate is LONGEST, if it is larger."""
    largest = vectors.abs().amax(dim=1, keepdim=True)
    scale = LONGEST / largest.clamp_min(LONGEST)  # 1 if the largest is at most LONGEST
    return vectors * scale


@dataclass(frozen=True)
class Products:
    """The inner products of the normal equations, on a CPU.

    In the last three, each df_i and each dz_i is divided by the length of df_i.

    length_of_f    NaN where f has NaN
    length_of_df   at least SHORTEST
    df_df          products of the df_i, with RIDGE added to the diagonal
    dz_dz          products of the dz_i
    df_f           products of the df_i with f
    """

    length_of_f: list[float]
    length_of_df: Float[Tensor, "rows slots"]
    df_df: Float[Tensor, "rows slots slots"]
    dz_dz: Float[Tensor, "rows slots slots"]
    df_f: Float[Tensor, "rows slots"]

    @classmethod
    def of(cls, inner: Float[Tensor, "rows w w"]) -> Products:
        """Of what `Changes.inner_products` gives."""
        width = inner.shape[1]
        slots = (width - 1) // 2
        df = slice(0, slots)
        dz = slice(slots, 2 * slots)
        f = 2 * slots

        length_of_f: list[float] = inner[:, f, f].sqrt().tolist()  # with NaN, before it is replaced
        inner = _finite(inner)
        squares_of_df = inner.diagonal(dim1=1, dim2=2)[:, df]
        length_of_df = squares_of_df.sqrt().clamp_min(SHORTEST)
        two_lengths = length_of_df[:, :, None] * length_of_df[:, None, :]
        ridge = RIDGE * torch.eye(slots, dtype=inner.dtype)
        return cls(
            length_of_f=length_of_f,
            length_of_df=length_of_df,
            df_df=inner[:, df, df] / two_lengths + ridge,
            dz_dz=inner[:, dz, dz] / two_lengths,
            df_f=inner[:, df, f] / length_of_df,
        )

    def combination(self) -> Float[Tensor, "rows slots"]:
        """c = argmin | f - sum_i c_i df_i |."""
        of_unit_df = torch.linalg.solve(self.df_df, self.df_f)
        return of_unit_df / self.length_of_df


def _finite(inner: Float[Tensor, "rows w w"]) -> Float[Tensor, "rows w w"]:
    """The matrices, with the identity in place of one that is not finite: one row with NaN would
    make torch's factorisations fail for all.
    """
    finite = inner.isfinite().all(dim=2).all(dim=1)
    identity = torch.eye(inner.shape[1], dtype=inner.dtype)
    return torch.where(finite[:, None, None], inner, identity)
