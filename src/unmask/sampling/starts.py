"""Where chains start: from blanks, from random tokens, or from given texts; and which chains can run side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from unmask.errors import InputError
from unmask.models.masked_lm import MaskedLM
from unmask.sampling.decoders.ancestral import Ancestral
from unmask.sampling.decoders.decoder import decode
from unmask.sampling.energy import Energy, UserTerm
from unmask.sampling.passes import Passes
from unmask.sampling.proposal import Proposal
from unmask.sampling.randomness import ChainStreams
from unmask.sampling.settings import SampleSettings
from unmask.sampling.target import Target, blank_template

TABLE_BYTES = 2**30
"""What the tables of the chains of one group may take."""


class Group(NamedTuple):
    """Chains with one target, run side by side; `starts` where they were given; `alike`: all chains with that target."""

    chains: list[int]
    target: Target
    starts: Int[Tensor, "n T"] | None
    alike: list[int]


def groups(
    settings: SampleSettings, model: MaskedLM, together: int | None = None, user_terms: tuple[UserTerm, ...] = ()
) -> list[Group]:
    """All chains, bucketed by length, at most `together` side by side (by default as many as TABLE_BYTES hold)."""
    if together is not None and together < 1:
        raise InputError(f"{together} chains side by side: give at least 1")
    energy = Energy(settings.energy, settings.temperature, user_terms)
    held = tuple(model.cloze(settings.template).ids) if settings.template is not None else None
    allowed = allowed_ids(settings, model)
    given = [torch.tensor(model.words.encode(text)) for text in settings.texts] if settings.start == "texts" else []
    buckets: dict[tuple[int, ...], list[int]] = {}
    for chain in range(settings.chains):
        if held is not None:
            template = held
        elif given:
            template = _blanked(given[chain % len(given)], model, settings.texts[chain % len(given)])
        else:
            template = blank_template(model, settings.lengths[chain % len(settings.lengths)])
        buckets.setdefault(template, []).append(chain)
    found = []
    for template, chains in buckets.items():
        target = Target(model, template, energy, allowed)
        size = together or _fitting(settings, target)
        for first in range(0, len(chains), size):
            part = chains[first : first + size]
            starts = _stacked([given[c % len(given)] for c in part], target, settings) if given else None
            found.append(Group(part, target, starts, chains))
    return found


def starting_texts(
    settings: SampleSettings, group: Group, passes: Passes, proposal: Proposal
) -> tuple[Int[Tensor, "n T"], Int[Tensor, " n"]]:
    """The texts that a group's chains start from, and the passes they took.

    Blanks are filled one by one in a random order of each chain's own (ancestral sampling): F passes a chain.
    """
    n, target = len(group.chains), group.target
    if group.starts is not None:
        return group.starts, torch.zeros(n, dtype=torch.long)
    rng = ChainStreams(settings.seed, group.chains).at(0, 0)
    if settings.start == "mask":
        state, spent = decode(Ancestral(target, passes, proposal), n, rng)
        return state.ids, spent
    ids = torch.tensor(target.template).repeat(n, 1)
    for site, position in enumerate(target.free_positions.tolist()):
        weights = torch.where(target.support[site], 0.0, -torch.inf).double()
        ids[:, position] = rng.categorical(torch.arange(n), weights.expand(n, -1))
    return ids, torch.zeros(n, dtype=torch.long)


def allowed_ids(settings: SampleSettings, model: MaskedLM) -> dict[int, list[int]]:
    """Allowed tokens as ids; a word that is not one token of the model's is refused."""
    found: dict[int, list[int]] = {}
    for position, tokens in settings.allowed:
        found[position] = []
        for token in tokens:
            ids = [i for i in model.words.encode(token) if i not in model.special_ids]
            if len(ids) != 1:
                raise InputError(
                    f"allowed token {token!r} at position {position} is {len(ids)} tokens of the model: allow single tokens"
                )
            found[position] += ids
    return found


def _blanked(ids: Int[Tensor, " T"], model: MaskedLM, text: str) -> tuple[int, ...]:
    """The text with every token that is not special blanked out."""
    if model.mask_id in ids.tolist():
        raise InputError(f"the start {text!r} has a blank: give whole texts as starts, and a template for blanks")
    template = blank_template(model, sum(i not in model.special_ids for i in ids.tolist()) or 1)
    if len(template) != len(ids):
        raise InputError(f"the start {text!r} has a special token, or one that the model does not know: reword it")
    return template


def _stacked(ids: Sequence[Int[Tensor, " T"]], target: Target, settings: SampleSettings) -> Int[Tensor, "n T"]:
    if any(len(row) != len(target.template) for row in ids):
        raise InputError("a start has another number of tokens than the template: give starts that fit the template")
    starts = torch.stack(list(ids))
    target.check(starts)
    return starts


def _fitting(settings: SampleSettings, target: Target) -> int:
    replicas = len(settings.ladder) if settings.kernel == "tempering" else 1
    return max(1, TABLE_BYTES // (2 * 4 * replicas * target.sites * target.model.vocab_size))
