"""The support of q: the tokens that a text can have, over which the model's conditionals are renormalised.

A model gives some of its probability to special tokens ([CLS], [PAD], [MASK], [UNK], ...) and to columns that no token uses. None
can be in a filled text. Every law of this project that sums to 1 therefore has

    q(v | context) = exp f(v) / sum of exp f(w) over w in the support,

at each step of it: over the regular tokens, or over an alphabet where one is given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask import checks
from unmask.errors import InputError
from unmask.models.conditional_model import ConditionalModel


def regular_tokens(model: ConditionalModel) -> Int[Tensor, " s"]:
    """Ids of the tokens that a text can have: all except the special ones."""
    keep = torch.ones(model.vocab_size, dtype=torch.bool)
    keep[[i for i in model.special_ids if i < model.vocab_size]] = False
    return keep.nonzero().flatten().to(model.device)


def outside(model: ConditionalModel, support: Int[Tensor, " s"]) -> Int[Tensor, " r"]:
    """Ids of the model's output columns that are not in the support."""
    left = torch.ones(model.vocab_size, dtype=torch.bool, device=model.device)
    left[support.to(model.device)] = False
    return left.nonzero().flatten()


def token_sets(
    what: str, given: Sequence[Tensor | Sequence[int]], sites: int, check: Callable[[int, int], object]
) -> list[Int[Tensor, " n"]]:
    """The sets of tokens of a user, one per blank, each token once; `check` raises if blank b, from 1 on, cannot have token i."""
    if len(given) != sites:
        raise InputError(f"{len(given)} {what} sets for {sites} blanks: give one set per blank")
    found = []
    for blank, tokens in enumerate(given, 1):
        name = f"the {what}s of blank {blank}"
        ids = checks.wholes(name, tokens)
        for token in ids:
            check(blank, token)
        if not ids or len(set(ids)) < len(ids):
            raise InputError(f"{name} are empty or name a token twice: name each token once")
        found.append(torch.tensor(ids))
    return found


def lost_nats(logits: Float[Tensor, "*n V"], outside: Int[Tensor, " r"], log_total: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
    """-log of the share of the model's probability that the support holds; `log_total`: logsumexp of all logits.

    -log(1 - s), s the share of the columns `outside`, which are few as a rule. Where s is above a half, 1 - s would lose
    digits, and the support is summed instead.
    """
    log_share = logits[..., outside].logsumexp(-1) - log_total
    nats = -torch.log1p(-log_share.exp())
    heavy = log_share > -log(2)
    if bool(heavy.any()):
        nats[heavy] = log_total[heavy] - logits[heavy].index_fill(-1, outside, -torch.inf).logsumexp(-1)
    return nats
