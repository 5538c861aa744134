"""Tokens that a user names for the blanks, by id: an alphabet, or a set for each blank."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from unmask.common.cloze import Cloze
from unmask.common.errors import InputError
from unmask.tables.conditionals import token_sets


def alphabet_tokens(
    alphabet: Sequence[int], regular: Int[Tensor, " s"], cloze: Cloze
) -> Int[Tensor, " n"]:
    """An alphabet's tokens, each once; raises if one is no regular token, or a gold one is not
    among them.
    """
    known = set(regular.tolist())
    ids = list(dict.fromkeys(int(i) for i in alphabet))
    if not ids:
        raise InputError("the alphabet is empty: name tokens that a text can have")
    for i in ids:
        if i not in known:
            raise InputError(
                f"the alphabet has {i}, which is not a regular token of the model: name tokens"
                " that a text can have"
            )
    for i in cloze.gold or ():
        if i not in ids:
            raise InputError(
                f"the target with token id {i} is not in the alphabet: add it, or choose"
                " another target"
            )
    return torch.tensor(ids, device=regular.device)


def own_sets(
    sets: Sequence[Sequence[int]], regular: Int[Tensor, " s"], sites: int
) -> tuple[Int[Tensor, " _"], ...]:
    """The sets of candidates that a user gives, one per blank; raises if one has a token that is
    not regular.
    """
    known = set(regular.tolist())

    def refuse_special(blank: int, token: int) -> None:
        if token not in known:
            raise InputError(
                f"candidate {token} of blank {blank} is not a regular token of the model: take"
                " it out"
            )

    of_blanks = token_sets("candidate", sets, sites, refuse_special)
    return tuple(tokens.to(regular.device) for tokens in of_blanks)
