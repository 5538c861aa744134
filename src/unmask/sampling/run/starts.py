"""Where chains start: from blanks that are filled one by one, from random tokens, or from given texts."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.sampling.decoders.ancestral import Ancestral
from unmask.sampling.decoders.decoder import decode
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import ChainStreams, Randomness
from unmask.sampling.kernels.proposal import Proposal
from unmask.sampling.run.groups import Group
from unmask.sampling.settings import SampleSettings
from unmask.sampling.target import Target
from unmask.tables.kept import kept_with_first


def starting_texts(
    settings: SampleSettings, group: Group, passes: Passes, proposal: Proposal
) -> tuple[Int[Tensor, "n T"], Int[Tensor, " n"]]:
    """The texts that a group's chains start from, and the passes they took.

    Blanks are filled one by one in a random order of each chain's own (ancestral sampling): F passes per chain.
    """
    n, target = len(group.chains), group.target
    free_of_charge = torch.zeros(n, dtype=torch.long, device=target.device)
    if group.starts is not None:
        return group.starts, free_of_charge
    rng = ChainStreams(settings.seed, group.chains, target.device).at(0, 0)
    if not settings.random_start:
        state, spent = decode(Ancestral(target, passes, proposal), n, rng)
        return state.ids, spent
    return random_texts(target, n, rng), free_of_charge


def random_texts(target: Target, n: int, rng: Randomness) -> Int[Tensor, "n T"]:
    """n texts whose free tokens are uniform over those allowed."""
    return _drawn_apart(target, n, torch.where(target.support, 0.0, -torch.inf).double(), rng)


def independent_texts(settings: SampleSettings, group: Group) -> Int[Tensor, "n T"]:
    """One text per chain, its tokens drawn independently of each other: the yardstick for repetition (see `verdict`).

    Each site's token comes from the model's conditional with all sites masked: what the model knows of the vocabulary and
    of the held tokens, and nothing of the neighbours. One pass per target.
    """
    rng = ChainStreams(settings.seed, group.chains, group.target.device).at(0, 1)
    return _drawn_apart(group.target, len(group.chains), _blank_conditionals(group.target), rng)


@kept_with_first
def _blank_conditionals(target: Target) -> Float[Tensor, "F V"]:
    logits = target.model.logits(target.template_ids.unsqueeze(0), target.free_positions.unsqueeze(0))[0]
    return Proposal().log_weights(logits, target.support)


def _drawn_apart(target: Target, n: int, log_weights: Float[Tensor, "F V"], rng: Randomness) -> Int[Tensor, "n T"]:
    ids = target.template_ids.repeat(n, 1)
    rows = torch.arange(n, device=target.device)
    for site, position in enumerate(target.free_positions.tolist()):
        ids[:, position] = rng.categorical(rows, log_weights[site].expand(n, -1))
    return ids
