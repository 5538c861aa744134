"""The parent and its neighbours: effects of single changes, and the epistasis of pairs of changes.

    single effect   e_t(x)    = log q_t(x | w) - log q_t(w_t | w)
    epistasis       E_st(x,y) = log mu(x, y) - log mu(w_s, w_t) - e_s(x) - e_t(y),  if both change; 0 otherwise

mu is the joint of sites s and t that a construction derives, all other tokens as in the parent w.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.cloze import blanked
from unmask.joints.deriving import derive_blocks
from unmask.models.conditional_model import ConditionalModel
from unmask.tables.unary import pass_count, tables_of
from unmask.variants.mutants import TOGETHER, effects_in

Pair = tuple[int, int]


def single_effects(
    model: ConditionalModel, ids: Sequence[int], sites: Sequence[int], allowed: Int[Tensor, " a"], wild: Int[Tensor, " k"]
) -> Float[Tensor, "k a"]:
    """e_t of each site and token of the alphabet; one pass per site. `wild`: the places of the parent's tokens in it."""
    places = torch.tensor(sites, device=model.device)[:, None]
    rows = torch.tensor([ids], device=model.device).repeat(len(sites), 1).scatter_(1, places, model.mask_id)
    log_q = model.logits(rows, places)[:, 0, allowed].double().log_softmax(-1)
    return log_q - log_q.gather(1, wild[:, None])


def pair_epistasis(
    model: ConditionalModel,
    ids: Sequence[int],
    pairs: Sequence[Pair],
    allowed: Int[Tensor, " a"],
    joints: Sequence[str],
) -> Iterator[tuple[Pair, dict[str, Float[Tensor, "a a"]]]]:
    """E_st of each pair of positions, by construction; `passes_per_pair` passes each."""
    letters: list[int] = allowed.tolist()
    for start in range(0, len(pairs), TOGETHER):
        group = pairs[start : start + TOGETHER]
        axes = [[allowed, allowed]] * len(group)
        tables = tables_of(model, [blanked(ids, pair, model.mask_id) for pair in group], axes, torch.float64, supports=axes)
        for pair, derived in zip(group, derive_blocks(tables, joints), strict=True):
            wild = [letters.index(ids[t]) for t in pair]
            found = {}
            for name, joint in zip(joints, derived, strict=True):
                found[name] = effects_in(joint, wild)["epistasis"].clone()
                found[name][wild[0]], found[name][:, wild[1]] = 0.0, 0.0
            yield pair, found


def passes_per_pair(letters: int) -> int:
    """Passes for the tables of one pair."""
    return pass_count([letters, letters])
