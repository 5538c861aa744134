"""Constructions that are one formula over the tables (Torroba Hennigen & Kim 2023, eqs. 1 to
3), and the chain rule.

Product (eq. 1), which fill-mask pipelines give: mu(x) = prod_t m_t(x_t), the model's marginals
with the whole block masked.

Markov random field (eq. 2), fully connected; its conditionals differ from q even if the q_t are
compatible (their appendix B):

    mrf        mu(x) proportional to  prod_t q_t(x_t | x_{S\\t})
    mrf_logit  mu(x) proportional to  exp sum_t f_t(x_t | x_{S\\t})

Hammersley-Clifford-Besag (eq. 3; Besag 1974), for a pivot p:

    mu(x) proportional to  prod_t  q_t(x_t | x_{>t}, p_{<t}) / q_t(p_t | x_{>t}, p_{<t})

If the conditionals are compatible it returns their joint whatever the pivot; if not, the answer
depends on the pivot and on the
order of the positions. For a pair:  A[x,y] / A[p,y] * B[p,y], up to a constant. The first
                                     factor, q_1(x_1 | x_{>1}), is
normalised, so the normaliser is the sum of the others.

Chain: the chain rule through the model's partly masked conditionals, averaged over orders,
which any-order decoders sample:

    p_o(x) = prod_t q(x_{o_t} | x_{o_1} .. x_{o_{t-1}}; the other positions masked),
            mu(x) = mean over all k! orders of p_o(x)

For a pair these are two orders, m_a[x] B[x,y] and m_b[y] A[x,y]; one of them needs V + 1
passes. The mean comes from a recursion over the sets S of positions that are revealed
(`unmask.tables.lattice`),

    G(empty) = 1,   G(S) = 1/|S| sum_{i in S} G(S - i) q(x_i | x_{S - i}),   mu = G(all),

whose last step is a sum of tables times weights of their contexts, mu = sum_t c_t(x_{-t})
q_t(x_t | x_{-t}).

q runs over the support of the tables: the regular tokens, or an alphabet, at every step. Over
candidate sets, which are a part of it, the joint is mu given that the blanks lie in them. So a
grid and a search (`unmask.joints.chain_search`) have one law.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import inf, log

import torch
from torch import Tensor

from unmask.common.errors import InputError
from unmask.joints.joint import Joint, refuse_impossible_contexts
from unmask.joints.rules import MeanRule, SumRule
from unmask.joints.tiles import along
from unmask.tables.unary import Tables, token_ids


def product(tables: Tables) -> Joint:
    """The independent joint."""
    factors = tuple(along(m, t, tables.sites) for t, m in enumerate(tables.log_masked))
    return Joint("product", tables, SumRule(factors), known_log_z=0.0)


def mrf(tables: Tables) -> Joint:
    """Log potential: the sum of the unary log-probabilities."""
    return Joint("mrf", tables, SumRule((*tables.log_q, *tables.log_inside)))


def mrf_logit(tables: Tables) -> Joint:
    """Log potential: the sum of the unary logits."""
    return Joint("mrf_logit", tables, SumRule((*tables.log_q, *tables.log_total)))


def hcb(tables: Tables, pivot: Sequence[int] | Sequence[str] | None = None) -> Joint:
    """The joint for a pivot: tokens, ids or spelled, one per position.

    By default the pivot is the mode of the product joint, as in the paper.
    """
    refuse_impossible_contexts(tables, "hcb")
    places = _pivot_places(tables, pivot)
    factors = []
    for t, log_q in enumerate(tables.log_q):
        behind = log_q
        for s in range(t):
            behind = behind.narrow(s, places[s], 1)
        factors += [behind, -behind.narrow(t, places[t], 1)]
    tokens = [int(c[p]) for c, p in zip(tables.candidates, places, strict=True)]
    _, *others = factors
    log_z = float(sum(others[1:], others[0]).double().logsumexp(tuple(range(tables.sites))))
    return Joint("hcb", tables, SumRule(tuple(factors)), {"pivot": tokens}, log_z)


def _pivot_places(tables: Tables, pivot: Sequence[int] | Sequence[str] | None) -> list[int]:
    if pivot is None:
        return [int(m.argmax()) for m in tables.log_masked]
    if len(pivot) != tables.sites:
        raise InputError(
            f"{list(pivot)} has {len(pivot)} tokens for {tables.sites} blanks",
            argument="pivot",
            use="give one token per blank",
        )
    places = []
    for token, candidates in zip(
        token_ids(tables, pivot, range(tables.sites)), tables.candidates, strict=True
    ):
        place = torch.nonzero(candidates == token).flatten()
        if not len(place):
            raise InputError(
                f"token {token} is not among the candidates",
                argument="pivot",
                use="add it to them, or choose another pivot",
            )
        places.append(int(place[0]))
    return places


def chain(tables: Tables) -> Joint:
    """The mean over all orders."""
    k, dtype = tables.sites, tables.log_q[0].dtype
    contexts = _contexts(tables)
    parts = tuple(
        SumRule((context.to(dtype), log_q))
        for context, log_q in zip(contexts, tables.log_q, strict=True)
    )
    log_sum = _log_sum(contexts)
    if log_sum == -inf:
        raise InputError(
            "chain has no joint over these tables: the model rules out every filling by candidates;"
            " give others"
        )
    return Joint("chain", tables, MeanRule(parts, (log_sum - log(k),) * k), known_log_z=0.0)


def chain_weights(tables: Tables) -> tuple[Tensor, ...]:
    """log c_t over the contexts of each site t, in float64, where the mean over orders is sum_t
    c_t(x_{-t}) q_t(x_t | x_{-t}).
    """
    contexts = _contexts(tables)
    log_z = _log_sum(contexts)
    return tuple(context - log_z for context in contexts)


def _contexts(tables: Tables) -> list[Tensor]:
    """log of k c_t before it is normalised: G of all positions but t, times the mass that q_t
    puts on its candidates.
    """
    k = tables.sites
    masked = [
        along(m + inside, t, k)
        for t, (m, inside) in enumerate(
            zip(tables.log_masked, tables.log_masked_inside, strict=True)
        )
    ]
    log_g: dict[tuple[int, ...], Tensor] = {
        (): tables.log_q[0].new_zeros([1] * k, dtype=torch.float64)
    }
    for size in range(1, k):
        for revealed in combinations(range(k), size):
            before = [(tuple(s for s in revealed if s != t), t) for t in revealed]
            terms = [
                log_g[known] + (tables.log_between[known, t] if known else masked[t])
                for known, t in before
            ]
            log_g[revealed] = torch.stack(torch.broadcast_tensors(*terms)).logsumexp(0) - log(size)
    return [
        log_g[tuple(s for s in range(k) if s != t)] + inside
        for t, inside in enumerate(tables.log_inside)
    ]


def _log_sum(contexts: list[Tensor]) -> float:
    """log of the sum of all weights: tables are normalised, so it is that of the sum over all
    cells.
    """
    return float(torch.cat([context.double().flatten() for context in contexts]).logsumexp(0))
