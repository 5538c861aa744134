"""Constructions that are one formula over the tables: four of Torroba Hennigen & Kim (2023), and
the chain rule.

    m_t(x_t)              of blank t, the whole block masked
    q_t(x_t | x_{-t})     of blank t, all other blanks of the block filled; logits f_t
    product    mu(x) = prod_t m_t(x_t)                                                  (eq. 1)
    mrf        mu(x) proportional to  prod_t q_t(x_t | x_{-t})                          (eq. 2)
    mrf_logit  mu(x) proportional to  exp sum_t f_t(x_t | x_{-t})                       (eq. 2)
    hcb        mu(x) proportional to  prod_t q_t(x_t | x_{>t}, p_{<t}) / q_t(p_t | x_{>t}, p_{<t})
                                                                       for a pivot p    (eq. 3)
    chain      mu(x) = mean over all k! orders o of
                       prod_t q(x_{o_t} | x_{o_1} .. x_{o_{t-1}}; the other blanks masked)
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import inf, log
from typing import TYPE_CHECKING, Annotated

from unmask.common.border.marks import Written
from unmask.common.errors import InputError
from unmask.common.lazy import torch
from unmask.common.methods.method import method
from unmask.joints.constructions.construction import Construction, Style

if TYPE_CHECKING:
    from torch import Tensor

    from unmask.joints.joint import Joint
    from unmask.tables.unary import Tables


@method
class Product(Construction):
    """The blanks are independent: each has the probability that the model gives it with all
    blanks masked.

        mu(x) = prod_t m_t(x_t)

    This is eq. 1 of Torroba Hennigen & Kim (2023), which fill-mask pipelines give.

    >>> tables = unmask.fill("The [MASK] [MASK] at the casino.", candidates=16).joint.tables
    >>> abs(unmask.derive(tables, unmask.Product()).total_correlation()) < 1e-6
    True
    """

    name = "product"
    label = "MLM (product)"
    place = 1
    style = Style("#000000", "o", "-")
    heading = "prod-\nuct"
    own_unary = False
    keeps_compatible = False  # it has no dependence

    def derive(self, tables: Tables) -> Joint:
        """The independent joint."""
        from unmask.joints.joint import Joint
        from unmask.joints.rules import SumRule
        from unmask.joints.tiles import along

        factors = tuple(along(m, t, tables.sites) for t, m in enumerate(tables.log_masked))
        return Joint(name=self.name, tables=tables, rule=SumRule(factors), known_log_z=0.0)


@method
class MRFLogit(Construction):
    """A random field: the logits of all blanks are summed, then normalised; it counts their
    dependence twice.

        mu(x) proportional to  exp sum_t f_t(x_t | x_{-t})

    This is eq. 2 of Torroba Hennigen & Kim (2023) with logits. Its conditionals differ from q even
    if the q_t are compatible (their appendix B).

    >>> tables = unmask.fill("The [MASK] [MASK] at the casino.", candidates=16).joint.tables
    >>> unmask.derive(tables, unmask.MRFLogit()).name
    'mrf_logit'
    """

    name = "mrf_logit"
    label = "MRF (logit)"
    place = 2
    style = Style("#CC79A7", "v", "--")
    keeps_compatible = False

    def derive(self, tables: Tables) -> Joint:
        """Log potential: the sum of the unary logits, log q_t + logsumexp f_t."""
        from unmask.joints.joint import Joint
        from unmask.joints.rules import SumRule

        return Joint(self.name, tables, SumRule((*tables.log_q, *tables.log_total)))


@method
class MRF(Construction):
    """A random field: the conditionals of all blanks are multiplied, then normalised; it counts
    their dependence twice.

        mu(x) proportional to  prod_t q_t(x_t | x_{-t})

    This is eq. 2 of Torroba Hennigen & Kim (2023). Its conditionals differ from q even if the q_t
    are compatible (their appendix B).

    >>> tables = unmask.fill("The [MASK] [MASK] at the casino.", candidates=16).joint.tables
    >>> unmask.derive(tables, unmask.MRF()).name
    'mrf'
    """

    name = "mrf"
    label = "MRF"
    place = 3
    style = Style("#D55E00", "^", "--")
    keeps_compatible = False

    def derive(self, tables: Tables) -> Joint:
        """Log potential: the sum of the unary log-probabilities over the support."""
        from unmask.joints.joint import Joint
        from unmask.joints.rules import SumRule

        return Joint(self.name, tables, SumRule((*tables.log_q, *tables.log_inside)))


@method
class HCB(Construction):
    """Hammersley-Clifford-Besag: ratios of conditionals along a path from one pivot word; the
    answer depends on the pivot.

        mu(x) proportional to  prod_t  q_t(x_t | x_{>t}, p_{<t}) / q_t(p_t | x_{>t}, p_{<t})

    This is eq. 3 of Torroba Hennigen & Kim (2023), after Besag (1974). If the conditionals are
    compatible it is their joint, whatever the pivot p. If not, it depends on the pivot and on the
    order of the blanks. For a pair it is A[x, y] / A[p, y] * B[p, y], up to a constant.

    Parameters:
        pivot: The pivot's tokens, ids or spelled, one for each blank [default: the mode of the
            product joint, as in the paper].

    >>> tables = unmask.fill("The [MASK] [MASK] at the casino.", candidates=16).joint.tables
    >>> joint = unmask.derive(tables, unmask.HCB(pivot=["man", "is"]))
    >>> [tables.spelled(site, token) for site, token in enumerate(joint.report["pivot"])]
    ['man', 'is']
    """

    name = "hcb"
    label = "HCB"
    place = 4
    style = Style("#E69F00", "s", "--")
    pivot: Annotated[Sequence[int] | Sequence[str] | None, Written(metavar="A,B")] = None

    def derive(self, tables: Tables) -> Joint:
        """The joint for the pivot."""
        from unmask.joints.joint import Joint, refuse_impossible_contexts
        from unmask.joints.rules import SumRule

        refuse_impossible_contexts(tables, self.name)
        places = self._pivot_places(tables)
        factors = []
        for t, log_q in enumerate(tables.log_q):
            behind = log_q
            for s in range(t):
                behind = behind.narrow(s, places[s], 1)
            factors += [behind, -behind.narrow(t, places[t], 1)]
        tokens = [int(c[p]) for c, p in zip(tables.candidates, places, strict=True)]
        # The first factor, q_1(x_1 | x_{>1}), is normalised: the normaliser sums the others.
        _, *others = factors
        every_axis = tuple(range(tables.sites))
        log_z = float(sum(others[1:], others[0]).double().logsumexp(every_axis))
        return Joint(
            name=self.name,
            tables=tables,
            rule=SumRule(tuple(factors)),
            report={"pivot": tokens},
            known_log_z=log_z,
        )

    def _pivot_places(self, tables: Tables) -> list[int]:
        """Where the pivot's tokens are among the candidates of each blank."""
        from unmask.tables.unary import token_ids

        pivot = self.pivot
        if pivot is None:
            return [int(m.argmax()) for m in tables.log_masked]
        if len(pivot) != tables.sites:
            raise InputError(
                f"{list(pivot)} has {len(pivot)} tokens for {tables.sites} blanks",
                argument="pivot",
                use="give one token per blank",
            )
        ids = token_ids(tables, pivot, range(tables.sites))
        places = []
        for token, candidates in zip(ids, tables.candidates, strict=True):
            place = torch.nonzero(candidates == token).flatten()
            if not len(place):
                raise InputError(
                    f"token {token} is not among the candidates",
                    argument="pivot",
                    use="add it to them, or choose another pivot",
                )
            places.append(int(place[0]))
        return places


@method
class Chain(Construction):
    """The chain rule: blanks are filled one after the other, averaged over all orders.

        p_o(x) = prod_t q(x_{o_t} | x_{o_1} .. x_{o_{t-1}}; the other blanks masked)
        mu(x)  = mean over all k! orders o of p_o(x)

    Any-order decoders sample mu. For a pair the two orders are m_a[x] B[x, y] and m_b[y] A[x, y].

    q runs over the support of the tables, the regular tokens or an alphabet, at every step. Over
    candidate sets, which are a part of it, the joint is mu given that the blanks lie in them: so a
    grid and a search (`unmask.joints.chain_search`) have one law.

    >>> tables = unmask.fill("The [MASK] [MASK] at the casino.", candidates=16).joint.tables
    >>> unmask.derive(tables, unmask.Chain()).name
    'chain'
    """

    name = "chain"
    label = "chain"
    place = 9
    style = Style("#7F7F7F", "*", ":")
    searched = True

    def derive(self, tables: Tables) -> Joint:
        """The mean over all orders, as a sum over the last blank t that an order fills:
        sum_t c_t(x_{-t}) q_t(x_t | x_{-t}).
        """
        from unmask.joints.joint import Joint
        from unmask.joints.rules import MeanRule, SumRule

        k = tables.sites
        dtype = tables.log_q[0].dtype
        contexts = _contexts(tables)
        parts = []
        for context, log_q in zip(contexts, tables.log_q, strict=True):
            parts.append(SumRule((context.to(dtype), log_q)))
        log_sum = _log_sum(contexts)
        if log_sum == -inf:
            raise InputError(
                f"{self.name} has no joint over these tables: the model rules out every filling by"
                " candidates; give others"
            )
        log_z_of_part = log_sum - log(k)  # MeanRule divides by the number of its parts
        rule = MeanRule(tuple(parts), (log_z_of_part,) * k)
        return Joint(name=self.name, tables=tables, rule=rule, known_log_z=0.0)


def chain_weights(tables: Tables) -> tuple[Tensor, ...]:
    """log c_t over the contexts of each blank t, in float64: the mean over orders is
    sum_t c_t(x_{-t}) q_t(x_t | x_{-t}).
    """
    contexts = _contexts(tables)
    log_z = _log_sum(contexts)
    return tuple(context - log_z for context in contexts)


def _contexts(tables: Tables) -> list[Tensor]:
    """log of k c_t of each blank t, before it is normalised.

        G(empty) = 1,   G(S) = 1/|S| sum_{i in S} G(S - i) q(x_i | x_{S - i})
        k c_t    = G(all blanks but t) * the mass that q_t puts on its candidates

    S is a set of revealed blanks (`unmask.tables.lattice`), and the mean over orders is G(all).
    """
    from unmask.joints.tiles import along

    k = tables.sites
    masked = []  # log q(x_t | nothing revealed)
    for t, (log_m, inside) in enumerate(
        zip(tables.log_masked, tables.log_masked_inside, strict=True)
    ):
        masked.append(along(log_m + inside, t, k))
    nothing = tables.log_q[0].new_zeros([1] * k, dtype=torch.float64)
    log_g: dict[tuple[int, ...], Tensor] = {(): nothing}
    for size in range(1, k):
        for revealed in combinations(range(k), size):
            terms = []
            for t in revealed:
                before = tuple(s for s in revealed if s != t)
                log_q = tables.log_between[before, t] if before else masked[t]
                terms.append(log_g[before] + log_q)
            together = torch.stack(torch.broadcast_tensors(*terms))
            log_g[revealed] = together.logsumexp(0) - log(size)
    contexts = []
    for t, log_inside in enumerate(tables.log_inside):
        others = tuple(s for s in range(k) if s != t)
        contexts.append(log_g[others] + log_inside)
    return contexts


def _log_sum(contexts: list[Tensor]) -> float:
    """log of the sum of all weights: tables are normalised, so it is that of the sum over all
    cells.
    """
    return float(torch.cat([context.double().flatten() for context in contexts]).logsumexp(0))
