"""The Hammersley-Clifford-Besag construction (Torroba Hennigen & Kim 2023, eq. 3; Besag 1974).

    mu(x) proportional to  prod_t  q_t(x_t | x_{>t}, p_{<t}) / q_t(p_t | x_{>t}, p_{<t})

for a pivot p. If the conditionals are compatible it returns their joint whatever the pivot; if not, the answer depends
on the pivot and on the order of the positions. For a pair:  A[x,y] / A[p,y] * B[p,y], up to a constant. The first
factor, q_1(x_1 | x_{>1}), is normalised, so the normaliser is the sum of the others.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from unmask.errors import InputError
from unmask.joints.joint import Joint
from unmask.joints.rules import SumRule
from unmask.tables.unary import Tables


def hcb(tables: Tables, pivot: Sequence[int] | None = None) -> Joint:
    """`pivot`: token ids, one per position; by default the mode of the product joint, as in the paper."""
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


def _pivot_places(tables: Tables, pivot: Sequence[int] | None) -> list[int]:
    if pivot is None:
        return [int(m.argmax()) for m in tables.log_masked]
    if len(pivot) != tables.sites:
        raise InputError(f"pivot {list(pivot)} has {len(pivot)} tokens for {tables.sites} blanks: give one token per blank")
    places = []
    for token, candidates in zip(pivot, tables.candidates, strict=True):
        found = torch.nonzero(candidates == token).flatten()
        if not len(found):
            raise InputError(f"pivot token {token} is not among the candidates: add it to them, or choose another pivot")
        places.append(int(found[0]))
    return places
