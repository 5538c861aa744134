"""Where chains start: at texts of the user, at ancestral samples, or at random tokens."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from unmask.common.border.calls import trusted
from unmask.common.errors import InputError
from unmask.models.masked_lm import MaskedLM
from unmask.sampling.decoders.ancestral import Ancestral
from unmask.sampling.decoders.decoder import decode
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import Randomness, streams_of
from unmask.sampling.kernels.kernel import Kernel
from unmask.sampling.on_target import DecoderOnTarget
from unmask.sampling.settings import SampleSettings
from unmask.sampling.target import Target, blank_template


def template_of_start(ids: Int[Tensor, " T"], model: MaskedLM, text: str) -> tuple[int, ...]:
    """The template of a start: every token of it that is not special is blank.

    ids    the token ids of the start
    text   the start as the user wrote it, for messages
    """
    tokens = ids.tolist()
    if model.mask_id in tokens:
        raise InputError(
            f"the start {text!r} has a blank: give whole texts as starts, and a template for blanks"
        )
    free_tokens = sum(token not in model.special_ids for token in tokens)
    template = blank_template(model, max(1, free_tokens))  # an empty text is refused below
    if len(template) != len(tokens):
        raise InputError(
            f"the start {text!r} has a special token, or one that the model does not know:"
            " reword it"
        )
    return template


def stacked_starts(starts: Sequence[Int[Tensor, " _"]], target: Target) -> Int[Tensor, "n T"]:
    """The starts of n chains as one tensor on the target's device; raises for one that is not a
    text of the target.
    """
    if any(len(ids) != len(target.template) for ids in starts):
        raise InputError(
            "a start has another number of tokens than the template: give starts that fit the"
            " template"
        )
    stacked = torch.stack(list(starts)).to(target.device)
    target.check(stacked)
    return stacked


def drawn_starts(
    settings: SampleSettings, chains: Sequence[int], target: Target, passes: Passes
) -> tuple[Int[Tensor, "n T"], Int[Tensor, " n"]]:
    """Texts for `chains` to start from, and the passes that each took.

    Blanks are filled one by one, in a random order of each chain's own (ancestral sampling): a
    pass for each of the F blanks. With `start` "random" tokens are uniform, and take no pass.
    """
    n = len(chains)
    rng = streams_of(settings.seed, chains, target.device).of(sweep=0, step=0)
    if settings.start == "random":
        no_passes = torch.zeros(n, dtype=torch.long, device=target.device)
        return random_texts(target, n, rng), no_passes
    assert isinstance(settings.kernel, Kernel)  # a decoder starts from blanks
    ancestral = trusted(Ancestral, temperature=settings.kernel.proposal_temperature)
    # Not `ancestral.on`, which refuses terms of the user: a start may be any text.
    state, spent = decode(DecoderOnTarget(ancestral, target, passes), n, rng)
    return state.ids, spent


def random_texts(target: Target, n: int, rng: Randomness) -> Int[Tensor, "n T"]:
    """n texts whose free tokens are uniform over those allowed."""
    ids = target.template_ids.repeat(n, 1)
    log_weights = torch.where(target.support, 0.0, -torch.inf).double()
    rows = torch.arange(n, device=target.device)
    for site, position in enumerate(target.free_positions.tolist()):
        ids[:, position] = rng.categorical(rows, log_weights[site].expand(n, -1))
    return ids
