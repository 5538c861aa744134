"""The cells of the near-compatible family, given the marginals of a member, and one plain step of
eq. 5 (the equations are in `unmask.joints.constructions.arnold_gokhale`):

    mu = ( sum_t W_t q_t ) / ( sum_t I_t )
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from unmask.joints.constructions.arnold_gokhale import Member
from unmask.joints.members import Marginals, Members, flat
from unmask.joints.rules import Linear, PairForm
from unmask.joints.tiles import Index, at, contexts, sum_at, tiles
from unmask.tables.unary import Tables


@dataclass(frozen=True, eq=False)
class FamilyRule:
    """The unnormalised log cells, log( sum_t W_t q_t / sum_t I_t ).

    log_q         the tables
    c             the logarithm that all marginals are divided by (see `unmask.joints.members`)
    log_weight    log W_t of each blank t, with the marginals over e^c
    log_inverse   log I_t, the same
    """

    log_q: tuple[Tensor, ...]
    c: float
    log_weight: list[Tensor]
    log_inverse: list[Tensor]

    @staticmethod
    def at(tables: Tables, log_mu: Marginals, member: Member) -> FamilyRule:
        """The rule of one member at its marginals."""
        (rule,) = FamilyRule.of_rows(Members.of([tables], [member]), [log_mu])
        return rule

    @staticmethod
    def of_rows(members: Members, marginals: Sequence[Marginals]) -> list[FamilyRule]:
        """The rules of several members, one per row, at their marginals; all computed together."""
        dtype = members.blocks[0].log_q[0].dtype
        points = []
        for log_mu in marginals:
            points.append(flat(tuple(m.double() for m in log_mu)))
        sites, c = members.sites_at(torch.stack(points), dtype)
        log_weights = [site.log_weight.to(dtype) for site in sites]
        log_inverses = [site.log_inverse.to(dtype) for site in sites]
        rules = []
        rows = zip(members.owner, c.flatten().tolist(), marginals, strict=True)
        for row, (owner, centre, log_mu) in enumerate(rows):
            rule = FamilyRule(
                log_q=members.blocks[owner].log_q,
                c=centre,
                log_weight=_shaped_row(log_weights, row, log_mu),
                log_inverse=_shaped_row(log_inverses, row, log_mu),
            )
            rules.append(rule)
        return rules

    @cached_property
    def weight(self) -> list[Tensor]:
        """W_t."""
        return [m.exp() for m in self.log_weight]

    @cached_property
    def inverse(self) -> list[Tensor]:
        """I_t."""
        return [m.exp() for m in self.log_inverse]

    def __call__(self, index: Index) -> Tensor:
        """The cells at `index`. The largest term is taken out of the sum before exponentials."""
        terms = []  # log W_t q_t
        for log_q, log_weight in zip(self.log_q, self.log_weight, strict=True):
            terms.append(at(log_q, index) + at(log_weight, index))
        highest = terms[0]
        for term in terms[1:]:
            highest = torch.maximum(highest, term)
        # Where all terms are -inf, their difference would be NaN.
        highest.clamp_(min=torch.finfo(highest.dtype).min)
        above = (terms[0] - highest).exp_()
        for term in terms[1:]:
            above += term.sub_(highest).exp_()
        below = sum_at(self.inverse, index)
        return above.div_(below).log_().add_(highest).add_(self.c)

    def probabilities(self, index: Index, q: Sequence[Tensor]) -> Tensor:
        """The exponentials of the cells at `index`, over e^c, from those of the tables."""
        weight = [at(w, index) for w in self.weight]
        above = q[0] * weight[0]
        for of_site, w in zip(q[1:], weight[1:], strict=True):
            above.addcmul_(of_site, w)
        return above.div_(sum_at(self.inverse, index))

    def pair_form(self, tables: Tables) -> PairForm:
        """The rule in the form that one GPU program sums."""
        weight_of_y, weight_of_x = self.log_weight  # that of blank 0 lies over the contexts y
        inverse_of_y, inverse_of_x = self.log_inverse
        return PairForm(
            first=Linear(a=1, b=0, e=weight_of_y.flatten() + self.c),
            second=Linear(a=0, b=1, f=weight_of_x.flatten() + self.c),
            below=(inverse_of_x.flatten(), inverse_of_y.flatten()),
        )


def _shaped_row(of_sites: Sequence[Tensor], row: int, log_mu: Marginals) -> list[Tensor]:
    """One member's row of each blank's tensor, in the shape of the blank's contexts."""
    return [of_site[row].reshape(m.shape) for of_site, m in zip(of_sites, log_mu, strict=True)]


def plain_step(tables: Tables, log_mu: Marginals, member: Member) -> Marginals:
    """One step of eq. 5: the marginals of the rule at `log_mu`, normalised. It reads the tables
    once.
    """
    rule = FamilyRule.at(tables, log_mu, member)
    sums = [contexts(tables, t) for t in range(tables.sites)]
    for index in tiles(tables.log_q[0]):
        q = [at(log_q, index).exp() for log_q in tables.log_q]
        cells = rule.probabilities(index, q)
        for t, total in enumerate(sums):
            at(total, index).add_(cells.sum(t, keepdim=True))
    log_sum = sums[0].sum().log()
    return tuple(total.log() - log_sum for total in sums)
