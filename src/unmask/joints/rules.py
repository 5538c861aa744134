"""Rules: unnormalised log-probabilities of the cells of a block, and the form that a GPU reads.

The two simplest rules are a sum of factors (`SumRule`) and the mean of joints that are such
sums (`MeanRule`).

On a GPU, one program sums the cells of every rule of a pair that has the form (`PairForm`)

    r[x, y] = log( exp L1 + exp L2 ) - log( exp g[x] + exp h[y] ),
            Li = a_i log A + b_i log B + f_i[x] + e_i[y].

Most rules have neither L2 nor a denominator. If there is an L2, it is over B alone, and L1 is
over A alone. Two kinds of rules have an L2:

- the near-compatible family: L1 = log A + log of the weight of y, L2 = log B + log of the weight
  of x, and a denominator;
- the mean of the two chains: L1 and L2, and no denominator.

A rule that has this form says so in a method `pair_form(tables)`. Any other is read from tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from math import log

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.joints.tiles import Index, sum_at
from unmask.tables.unary import Tables

Rule = Callable[[Index], Tensor]  # Unnormalised log-probabilities of the cells at an index


@dataclass(frozen=True)
class Linear:
    """a log A + b log B + f[x] + e[y] over the cells [x, y] of a pair.

    a, b      -1, 0 or 1
    f, e      vectors over x and over y, or one row of each for each of several pairs; None is zero
    """

    a: int
    b: int
    f: Tensor | None = None
    e: Tensor | None = None

    @staticmethod
    def stacked(parts: Sequence[Linear]) -> Linear:
        """The parts of several pairs, of one a and b, as one with a row for each pair."""
        return Linear(
            a=parts[0].a,
            b=parts[0].b,
            f=_stacked_vectors([part.f for part in parts]),
            e=_stacked_vectors([part.e for part in parts]),
        )


def _stacked_vectors(vectors: Sequence[Tensor | None]) -> Tensor | None:
    """One row for each vector. All are None, or none is."""
    given = [vector for vector in vectors if vector is not None]
    if not given:
        return None
    return torch.stack(given)


@dataclass(frozen=True)
class PairForm:
    """log(exp first + exp second) - log(exp g[x] + exp h[y]), the cells [x, y] of a pair.

    first     over log A alone if there is a `second`
    second    None, or over log B alone
    below     None, or (g, h)
    """

    first: Linear
    second: Linear | None = None
    below: tuple[Tensor, Tensor] | None = None

    @staticmethod
    def stacked(forms: Sequence[PairForm]) -> PairForm:
        """The forms of several pairs, all of one `kind`, as one with a row for each pair."""
        seconds = [form.second for form in forms if form.second is not None]
        belows = [form.below for form in forms if form.below is not None]
        second = None
        if seconds:
            second = Linear.stacked(seconds)
        below = None
        if belows:
            below = (torch.stack([g for g, _ in belows]), torch.stack([h for _, h in belows]))
        return PairForm(
            first=Linear.stacked([form.first for form in forms]),
            second=second,
            below=below,
        )

    @property
    def kind(self) -> tuple[object, ...]:
        """The properties that forms of one launch share: all except the numbers."""
        parts = [self.first]
        if self.second is not None:
            parts.append(self.second)
        of_parts = [(part.a, part.b, part.f is None, part.e is None) for part in parts]
        return (self.below is None, *of_parts)

    def along(
        self, t: int, fixed: Int[Tensor, "pairs 1"], log_a: Tensor, log_b: Tensor
    ) -> Float[Tensor, "pairs n"]:
        """The cells along site t of several pairs, where the other site has the token `fixed`.

        log_a     log A at these cells, shape (pairs, n)
        log_b     log B at these cells, shape (pairs, n)
        """

        def here(vector: Tensor | None, site: int) -> Tensor:
            """A vector over the tokens of `site`, at these cells: shape (pairs, n or 1)."""
            if vector is None:
                return torch.zeros_like(log_a[:, :1])
            if site == t:
                return vector
            return vector.gather(1, fixed)

        def linear(part: Linear) -> Tensor:
            cells = here(part.f, 0) + here(part.e, 1)
            for power, log_q in ((part.a, log_a), (part.b, log_b)):
                if power > 0:
                    cells = cells + log_q
                elif power < 0:
                    cells = cells - log_q
                # A power of 0 adds nothing, also where log_q is -inf.
            return cells

        cells = linear(self.first)
        if self.second is not None:
            cells = torch.logaddexp(cells, linear(self.second))
        if self.below is not None:
            g, h = self.below
            cells = cells - torch.logaddexp(here(g, 0), here(h, 1))
        return cells


def pair_form(tables: Tables, rule: Rule) -> PairForm | None:
    """The form of `rule`, or None if it has none."""
    form_over: Callable[[Tables], PairForm | None] | None = getattr(rule, "pair_form", None)
    if form_over is None:
        return None
    return form_over(tables)


@dataclass(frozen=True, eq=False)
class SumRule:
    """r(x) = sum of factors, each a tensor with size 1 on the axes that it does not depend on."""

    factors: tuple[Tensor, ...]

    def __call__(self, index: Index) -> Tensor:
        """The cells at `index`."""
        return sum_at(self.factors, index)

    def pair_form(self, tables: Tables) -> PairForm | None:
        """The sum in the form that a GPU reads; None if `linear` is None."""
        first = self.linear(tables)
        if first is None:
            return None
        return PairForm(first)

    def linear(self, tables: Tables, constant: float = 0.0) -> Linear | None:
        """The sum plus a constant, as tables and vectors of a pair.

        None if a factor is neither one of the tables nor a vector, or if a table occurs twice.
        """
        log_a, log_b = tables.log_q
        a = b = 0
        f = log_a.new_full((log_a.shape[0],), constant)
        e = log_a.new_zeros(log_a.shape[1])
        for factor in self.factors:
            if factor is log_a:
                a += 1
            elif factor is log_b:
                b += 1
            elif factor.shape[1] == 1:
                f += factor.flatten()
            elif factor.shape[0] == 1:
                e += factor.flatten()
            else:
                return None
        if max(a, b) > 1:
            return None
        return Linear(a=a, b=b, f=f, e=e)


@dataclass(frozen=True, eq=False)
class MeanRule:
    """r(x) = log of the mean of exp(part(x) - log_z) over parts with their normalisers."""

    parts: tuple[SumRule, ...]
    log_z: tuple[float, ...]

    def __call__(self, index: Index) -> Tensor:
        """The cells at `index`."""
        log_probs = [
            part(index) - log_z for part, log_z in zip(self.parts, self.log_z, strict=True)
        ]
        return reduce(torch.logaddexp, log_probs) - log(len(log_probs))

    def pair_form(self, tables: Tables) -> PairForm | None:
        """The mean of two parts in the form that a GPU reads; None for any other mean.

        One part must be over A alone, the other over B alone, beside vectors.
        """
        if len(self.parts) != 2:
            return None
        over_a = over_b = None
        for part, log_z in zip(self.parts, self.log_z, strict=True):
            half = part.linear(tables, -log_z - log(2))
            if half is None:
                return None
            if (half.a, half.b) == (1, 0):
                over_a = half
            elif (half.a, half.b) == (0, 1):
                over_b = half
        if over_a is None or over_b is None:
            return None
        return PairForm(first=over_a, second=over_b)
