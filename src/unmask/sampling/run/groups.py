"""Which chains run side by side, those with one target, as many at once as fit into memory; and where they start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.checks import whole
from unmask.errors import InputError
from unmask.models.masked_lm import MaskedLM
from unmask.models.text.words import alphabet_ids
from unmask.options.sampling import MOST_CHAINS
from unmask.sampling.decoders.ancestral import Ancestral
from unmask.sampling.decoders.decoder import decode
from unmask.sampling.energy import Energy, UserTerm
from unmask.sampling.engine.memory import GIGABYTE, MemoryPlan, available_bytes, chain_cost, plan_memory
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import ChainStreams, Randomness
from unmask.sampling.engine.token_draw import Proposal
from unmask.sampling.settings import Keeps, SampleSettings
from unmask.sampling.target import Target, blank_template
from unmask.tables.kept import kept_with_first

ROW_BYTES = 300
TOKEN_BYTES = 12
"""Bytes of a sample, and of each of its tokens, about."""


@dataclass(frozen=True)
class Group:
    """Chains with one target, run side by side.

    chains   their numbers in the whole run
    starts   the texts they start from, where those were given; a decoder takes only the tokens that it is conditioned on
    alike    all chains of this run with this target
    """

    chains: list[int]
    target: Target
    starts: Int[Tensor, "n T"] | None
    alike: list[int]

    def part(self, first: int, end: int) -> Group:
        """Its chains `first` ... `end` - 1 by themselves."""
        starts = None if self.starts is None else self.starts[first:end]
        return Group(self.chains[first:end], self.target, starts, self.alike)


class Planned(NamedTuple):
    """How the chains are run: what is kept of conditionals, and the number of chains in each group."""

    keeps: Keeps
    sizes: tuple[int, ...]


def groups(
    settings: SampleSettings,
    model: MaskedLM,
    chains_at_once: int | Sequence[int] | None = None,
    user_terms: Sequence[UserTerm] = (),
    memory: int | None = None,
    only: Keeps | None = None,
) -> tuple[list[Group], MemoryPlan]:
    """All chains, by target; at most `chains_at_once` side by side, by default as many as the memory holds.

    With `only`, conditionals are kept in that form, and the model is not run. A list has the number of chains of each group, as
    they were planned elsewhere.
    """
    planned = iter(chains_at_once) if isinstance(chains_at_once, Sequence) else None
    if chains_at_once is not None and planned is None:
        whole("chains_at_once", chains_at_once, 1, MOST_CHAINS)
    energy = Energy(settings.energy, settings.temperature, tuple(user_terms))
    given = [torch.tensor(model.words.encode(text)) for text in settings.init]
    if settings.template is not None:
        templates = [tuple(model.cloze(settings.template).ids)]
    elif given:
        templates = [_blanked(ids, model, text) for ids, text in zip(given, settings.init, strict=True)]
    else:
        templates = [blank_template(model, length) for length in settings.length]
    buckets: dict[tuple[int, ...], list[int]] = {}
    for chain in range(settings.chains):
        buckets.setdefault(templates[chain % len(templates)], []).append(chain)
    _refuse_too_many_samples(settings, max(map(len, templates)))
    targets = [Target(model, template, energy, _allowed(settings, model, template)) for template in buckets]
    plan = plan_memory(settings, targets, model, memory, only)
    found = []
    for target, chains in zip(targets, buckets.values(), strict=True):
        starts = _stacked([given[c % len(given)] for c in chains], target) if given else None
        together = Group(chains, target, starts, chains)
        if isinstance(chains_at_once, int | None):
            size = chains_at_once or chain_cost(settings, target, plan.keeps).fitting(plan.budget)
            refuse_too_many_at_once(settings, target, min(size, len(chains)), plan.keeps)
        first = 0
        while first < len(chains):
            end = first + (size if planned is None else next(planned, len(chains)))
            found.append(together.part(first, end))
            first = end
    return found, plan


def _allowed(settings: SampleSettings, model: MaskedLM, template: Sequence[int]) -> dict[int, list[int]]:
    """The token ids that are allowed at each restricted position: those of the alphabet, and of `allow` there."""
    found: dict[int, list[int]] = {}
    for position, tokens in settings.allow:
        found.setdefault(position, []).extend(alphabet_ids(model.words, tokens, f"allow at position {position}"))
    if settings.alphabet:
        everywhere = alphabet_ids(model.words, settings.alphabet)
        blank = {position: everywhere for position, token in enumerate(template) if token == model.mask_id}
        found = blank | {position: [i for i in ids if i in set(everywhere)] for position, ids in found.items()}
    return found


def _blanked(ids: Int[Tensor, " T"], model: MaskedLM, text: str) -> tuple[int, ...]:
    """The text with every token that is not special blanked out."""
    if model.mask_id in ids.tolist():
        raise InputError(f"the start {text!r} has a blank: give whole texts as starts, and a template for blanks")
    template = blank_template(model, sum(i not in model.special_ids for i in ids.tolist()) or 1)
    if len(template) != len(ids):
        raise InputError(f"the start {text!r} has a special token, or one that the model does not know: reword it")
    return template


def _stacked(ids: Sequence[Int[Tensor, " _"]], target: Target) -> Int[Tensor, "n T"]:
    if any(len(row) != len(target.template) for row in ids):
        raise InputError("a start has another number of tokens than the template: give starts that fit the template")
    starts = torch.stack(list(ids)).to(target.device)
    target.check(starts)
    return starts


def _refuse_too_many_samples(settings: SampleSettings, tokens: int) -> None:
    """Before anything is allocated: the samples are held in memory when the run is done."""
    each = settings.kept * (ROW_BYTES + TOKEN_BYTES * tokens)
    free = available_bytes(torch.device("cpu"))
    if settings.chains * each > free:
        raise InputError(
            f"{settings.chains:,} chains of {settings.kept:,} samples need about {settings.chains * each / GIGABYTE:,.0f} GB, "
            f"and {free / GIGABYTE:.1f} GB are free: give {free // each:,} chains or fewer, or thin more"
        )


def refuse_too_many_at_once(settings: SampleSettings, target: Target, chains: int, keeps: Keeps, begun: bool = False) -> None:
    """Before anything is allocated. Of a run that has `begun`, the number of chains side by side cannot change."""
    cost, free = chain_cost(settings, target, keeps), available_bytes(target.device)
    fewer = f"chains_at_once {cost.fitting(free):,}"
    if cost.of(chains) > free:
        remedy = (
            f"end what holds the memory, or give another --out folder and {fewer}" if begun else f"give {fewer}, or shorter texts"
        )
        raise InputError(
            f"{chains:,} chains at once need about {cost.of(chains) / GIGABYTE:,.0f} GB for their conditionals, and "
            f"{free / GIGABYTE:.1f} GB are free: {remedy}"
        )


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
    """One text per chain, its tokens drawn independently of each other: the yardstick for repetition (see `diagnostics`).

    Each site's token comes from the model's conditional with all sites masked: it depends on the vocabulary and the held tokens,
    and not on the neighbours. One pass per target.
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
