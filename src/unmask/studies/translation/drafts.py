"""Translations by a masked model: drafts of given lengths, decoded and moved by the machinery of
`sampling`.

A draft is a text of its source and `length` free positions; its length decides its `Target`, in
which the source is given. Drafts of one length go side by side, whatever their sources; on a CPU,
those whose sources have the same room (`PairModel.in_room`). A draft's random choices depend on the
seed and its own number alone.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from zlib import crc32

import torch
from jaxtyping import Int
from torch import Tensor

from unmask.common.border.calls import trusted
from unmask.common.errors import InputError
from unmask.common.methods.own_code import is_ours
from unmask.sampling.chains.group_run import Group, group_run
from unmask.sampling.chains.snapshot import COUNTS
from unmask.sampling.chains.starts import random_texts
from unmask.sampling.decoders.ancestral import Ancestral
from unmask.sampling.decoders.decoder import Decoder
from unmask.sampling.energies.energy import ModelEnergy
from unmask.sampling.energies.norm import NormEnergy
from unmask.sampling.energies.raw import RawEnergy
from unmask.sampling.energies.with_terms import Energy
from unmask.sampling.engine.memory import CPU_BYTES, chains_that_fit
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import streams_of
from unmask.sampling.kernels.block import Block
from unmask.sampling.kernels.mh import MH
from unmask.sampling.kernels.state import ChainState
from unmask.sampling.methods import SampleMethod
from unmask.sampling.settings import SampleSettings
from unmask.sampling.target import Target, target_of
from unmask.studies.translation.masked_pairs import PairModel
from unmask.studies.translation.recipe import Beam, TranslateSettings

STREAMS = 2**24  # Streams of random numbers


@dataclass(frozen=True)
class Draft:
    """A translation of `source` into `length` tokens.

    source      tokens
    log_length  log-probability of the length, given the source
    tokens      those of the translation, or none yet
    passes      that it has taken
    """

    source: tuple[int, ...]
    length: int
    log_length: float = 0.0
    tokens: tuple[int, ...] = ()
    passes: int = 0

    @property
    def number(self) -> int:
        """Its stream of random numbers: by source and length, so that a draft is the same in any
        company.
        """
        return crc32(array("q", [*self.source, self.length]).tobytes()) % STREAMS


@dataclass(frozen=True)
class _SideBySide:
    """Drafts of one length and room that run at once.

    places   where they are among all drafts
    group    their chains, which start from their tokens, or from blanks where they have none
    passes   how the model is run on them
    """

    places: list[int]
    group: Group
    passes: Passes

    @property
    def target(self) -> Target:
        """What their chains sample from."""
        return self.group.target

    @property
    def starts(self) -> Int[Tensor, "n T"]:
        """Their texts."""
        assert self.group.starts is not None  # drafts always name them
        return self.group.starts


class Drafting:
    """Works on drafts with one model and one seed; `moves` counts what kernels did (see
    `COUNTS`).
    """

    def __init__(self, pair: PairModel, seed: int) -> None:
        self.pair = pair
        self.seed = seed
        self.moves: dict[str, int] = dict.fromkeys(COUNTS, 0)

    def at_random(self, drafts: Sequence[Draft]) -> list[Draft]:
        """The drafts with tokens drawn uniformly from the vocabulary."""
        drawn = list(drafts)
        for batch in self._batches(drafts, MH(), NormEnergy()):
            n = len(batch.places)
            rng = streams_of(self.seed, batch.group.chains, torch.device("cpu")).of(0, 0)
            texts = random_texts(batch.target, n, rng)
            _put(drawn, batch, texts, passes=[0] * n)
        return drawn

    def energies(self, drafts: Sequence[Draft], kind: ModelEnergy) -> list[float]:
        """The energy of each draft; lower is better."""
        energies = [0.0] * len(drafts)
        for batch in self._batches(drafts, MH(), kind):
            state = ChainState.at(batch.target, batch.starts)
            state.complete(batch.target, batch.passes)
            for place, energy in zip(batch.places, state.energy.tolist(), strict=True):
                energies[place] = energy
        return energies

    def log_probs(self, drafts: Sequence[Draft]) -> list[float]:
        """The log-probability of each draft, token by token in a random order; higher is better."""
        log_probs = [0.0] * len(drafts)
        for batch in self._batches(drafts, MH(), NormEnergy()):
            rows = torch.arange(len(batch.places), device=batch.target.device)
            # Step 0 is that of `at_random`
            rng = streams_of(self.seed, batch.group.chains, torch.device("cpu")).of(0, 1)
            order = rng.permutation(rows, batch.target.sites)
            ancestral = Ancestral()
            on_target = ancestral.on(batch.target, batch.passes)
            of_batch = ancestral.log_prob(on_target, batch.starts, order).tolist()
            for place, log_prob in zip(batch.places, of_batch, strict=True):
                log_probs[place] = log_prob
        return log_probs

    def run(
        self,
        drafts: Sequence[Draft],
        kernel: SampleMethod,
        energy: ModelEnergy,
        sweeps: int = 1,
        later: int = 0,
    ) -> list[Draft]:
        """The drafts' blanks filled by a decoder, or the drafts after `sweeps` sweeps of a Markov
        kernel.

        `later` is added to the seed.
        """
        after = list(drafts)
        for batch in self._batches(drafts, kernel, energy):
            settings = SampleSettings(
                kernel=_narrowed(kernel, batch.target.sites),
                energy=energy,
                seed=self.seed + later,
                sweeps=sweeps,
            )
            run = group_run(settings, batch.group, batch.passes)
            run.begin()
            for _ in range(sweeps):
                run.sweep()
            for name, count in zip(COUNTS, run.counts.sum(1).tolist(), strict=True):
                self.moves[name] += count
            _put(after, batch, run.texts(), passes=run.spent.tolist())
        return after

    def _batches(
        self, drafts: Sequence[Draft], kernel: SampleMethod, kind: ModelEnergy
    ) -> Iterator[_SideBySide]:
        """The drafts of each length and room, as many at once as fit into memory."""
        places_of: dict[tuple[int, int], list[int]] = {}
        for place, draft in enumerate(drafts):
            room = self.pair.in_room(draft.source).layout.source_length
            places_of.setdefault((draft.length, room), []).append(place)
        for (length, room), places in sorted(places_of.items()):
            any_source = drafts[places[0]].source
            pair = self.pair.in_room(any_source)
            target = target_of(
                pair.model,
                pair.layout.template(any_source, length),
                trusted(Energy, kind=kind),
                given=range(room),
            )
            at_once = chains_that_fit(kernel, target, "logits", CPU_BYTES)
            for first in range(0, len(places), at_once):
                places_at_once = places[first : first + at_once]
                some = [drafts[place] for place in places_at_once]
                texts = [_text(pair, draft) for draft in some]
                group = Group(
                    chains=[draft.number for draft in some],
                    target=target,
                    starts=torch.tensor(texts, device=target.device),
                )
                yield _SideBySide(places=places_at_once, group=group, passes=pair.passes)


def _text(pair: PairModel, draft: Draft) -> tuple[int, ...]:
    """A draft and its source as one text; blanks if it has no tokens yet."""
    layout = pair.layout
    tokens = draft.tokens or [layout.mask] * draft.length
    return (*layout.room(draft.source), *tokens, layout.end)


def _put(
    drafts: list[Draft], batch: _SideBySide, texts: Int[Tensor, "n T"], passes: Sequence[int]
) -> None:
    """Give the drafts of a batch the tokens of their texts, and add what passes these took."""
    tokens = texts[:, batch.target.free_positions].tolist()
    for place, ids, spent in zip(batch.places, tokens, passes, strict=True):
        draft = drafts[place]
        drafts[place] = replace(draft, tokens=tuple(ids), passes=draft.passes + int(spent))


def _narrowed(kernel: SampleMethod, sites: int) -> SampleMethod:
    """The kernel for short texts: a block is at most as long as the text, and one site instead of
    a pair is moved by itself.
    """
    if isinstance(kernel, Decoder) or kernel.sites_per_step <= sites:
        return kernel
    if isinstance(kernel, Block):
        return replace(kernel, block_size=sites)
    if is_ours(type(kernel)):
        return MH()
    raise InputError(
        f"{kernel.name} redraws {kernel.sites_per_step} tokens in a step, and a translation has"
        f" {sites}",
        argument="kernel",
        use="use another kernel",
    )


def best_drafts(
    drafting: Drafting, settings: TranslateSettings, sources: Sequence[tuple[int, ...]]
) -> list[Draft]:
    """One draft per source: decoded at its likeliest lengths, the best chosen, and moved by the
    kernel if there is one.
    """
    drafts = []
    likely_lengths = drafting.pair.likely_lengths(sources, settings.length_beam)
    for source, lengths in zip(sources, likely_lengths, strict=True):
        drafts += [Draft(source, length, log_length) for length, log_length in lengths]
    if settings.decoder is None:
        drafts = drafting.at_random(drafts)
    else:
        assert not isinstance(settings.decoder, Beam)  # which is of causal models
        # A kernel and the decoder before it draw from streams of different seeds
        later = 0 if settings.kernel is None else 1
        drafts = drafting.run(drafts, settings.decoder, settings.energy, later=later)
    if settings.length_beam > 1:
        drafts = _best(drafting, settings.length_beam, drafts)
    if settings.kernel is None:
        return drafts
    return drafting.run(drafts, settings.kernel, settings.energy, settings.sweeps)


def _best(drafting: Drafting, length_beam: int, drafts: Sequence[Draft]) -> list[Draft]:
    """Of each source's drafts the one with the lowest E_raw(y | s, n) - log p(n | s) per token,
    with the passes of all, and those of their energies: one for each token.

    A source has `length_beam` drafts, and they follow each other.
    """
    costs = []
    for energy, draft in zip(drafting.energies(drafts, RawEnergy()), drafts, strict=True):
        costs.append((energy - draft.log_length) / draft.length)
    best = []
    for first in range(0, len(drafts), length_beam):
        of_source = range(first, first + length_beam)
        cheapest = min(of_source, key=lambda place: costs[place])
        passes = sum(drafts[place].passes + drafts[place].length for place in of_source)
        best.append(replace(drafts[cheapest], passes=passes))
    return best
