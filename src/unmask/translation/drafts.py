"""Translations under way: decoded from blanks, moved by a Markov kernel, scored; the machinery is that of `sampling`.

A draft is a text of its source and `length` free positions; its length decides its `Target`, in which the source is given. Drafts
of one length go side by side, whatever their sources; on a CPU, those whose sources have the same room (`PairModel.in_room`). A
draft's random choices depend on the seed and its own number alone.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal
from zlib import crc32

import torch
from jaxtyping import Int
from torch import Tensor

from unmask.options.sampling import EnergyKind
from unmask.runs.progress import Progress
from unmask.sampling.decoders.ancestral import Ancestral
from unmask.sampling.energy import Energy
from unmask.sampling.engine.memory import CPU_BYTES, chain_cost
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import ChainStreams
from unmask.sampling.kernels.kernel import ChainState
from unmask.sampling.run.advance import build, group_run
from unmask.sampling.run.groups import Group, random_texts
from unmask.sampling.run.result import COUNTS
from unmask.sampling.settings import SampleSettings
from unmask.sampling.target import Target
from unmask.translation.pair_model import PairModel

Score = Literal["norm", "raw", "any-order"]
STREAMS = 2**24
"""Streams of random numbers; parallel tempering takes several for each."""
SCORES: tuple[Score, ...] = ("norm", "raw", "any-order")


@dataclass(frozen=True)
class Draft:
    """A translation of `source` (tokens) into `length` tokens: `tokens`, or none yet; and the passes it has taken.

    `log_length`: log-probability of the length, given the source.
    """

    number: int
    source: tuple[int, ...]
    length: int
    log_length: float = 0.0
    tokens: tuple[int, ...] = ()
    passes: int = 0


def stream_number(source: Sequence[int], length: int) -> int:
    """Which stream of random numbers a draft has: by its source and length, so that it is the same in any company."""
    return crc32(array("q", [*source, length]).tobytes()) % STREAMS


class Drafting:
    """Works on drafts with one model and one seed; `moves` counts what kernels did (see `COUNTS`)."""

    def __init__(self, pair: PairModel, seed: int, progress: Progress | None = None) -> None:
        self.pair, self.seed, self.progress = pair, seed, progress
        self.moves = dict.fromkeys(COUNTS, 0)

    def decoded(self, drafts: Sequence[Draft], settings: SampleSettings) -> list[Draft]:
        """The drafts' blanks filled by a decoder."""
        return self._run(drafts, settings, 1, "decoded")

    def moved(self, drafts: Sequence[Draft], settings: SampleSettings) -> list[Draft]:
        """The drafts after `settings.sweeps` sweeps of a Markov kernel from where they are."""
        return self._run(drafts, settings, settings.sweeps, "sampled")

    def at_random(self, drafts: Sequence[Draft]) -> list[Draft]:
        """The drafts with tokens drawn uniformly from the vocabulary."""
        out = list(drafts)
        for places, group, _ in self._groups(drafts, SampleSettings(seed=self.seed)):
            drawn = random_texts(group.target, len(places), ChainStreams(self.seed, group.chains).at(0, 0))
            self._put(out, places, drawn[:, group.target.free_positions], [0] * len(places))
        return out

    def scores(self, drafts: Sequence[Draft], score: Score, orders: int = 1) -> list[float]:
        """Energies (lower is better), or log-probabilities by the mean over `orders` random orders (higher is better)."""
        out = [0.0] * len(drafts)
        kind: EnergyKind = "raw" if score == "raw" else "norm"
        for places, group, passes in self._groups(drafts, SampleSettings(seed=self.seed, energy=kind)):
            values = self._log_prob(group, passes, orders) if score == "any-order" else self._energy(group, passes)
            for place, value in zip(places, values.tolist(), strict=True):
                out[place] = value
        return out

    @staticmethod
    def _energy(group: Group, passes: Passes) -> Tensor:
        assert group.starts is not None
        state = ChainState.at(group.target, group.starts)
        state.complete(group.target, passes)
        return state.energy

    def _log_prob(self, group: Group, passes: Passes, orders: int) -> Tensor:
        assert group.starts is not None
        ancestral, streams = Ancestral(group.target, passes), ChainStreams(self.seed, group.chains)
        rows = torch.arange(len(group.chains), device=group.target.device)
        drawn = [streams.at(0, number + 1).permutation(rows, group.target.sites) for number in range(orders)]
        found = torch.stack([ancestral.log_prob(group.starts, order) for order in drawn])
        return found.logsumexp(0) - torch.tensor(float(orders)).log().to(found)

    def _run(self, drafts: Sequence[Draft], settings: SampleSettings, sweeps: int, what: str) -> list[Draft]:
        out, done = list(drafts), 0
        for places, group, passes in self._groups(drafts, settings):
            narrow = _narrowed(settings, group.target.sites)
            run = group_run(narrow, group, build(narrow, group.target, passes))
            run.begin()
            for _ in range(sweeps):
                run.sweep()
            for name, count in zip(COUNTS, run.counts.sum(1).tolist(), strict=True):
                self.moves[name] += count
            self._put(out, places, run.texts()[:, group.target.free_positions], run.spent.tolist())
            done += len(places)
            if self.progress:
                self.progress(done, len(drafts), what)
        return out

    def _groups(self, drafts: Sequence[Draft], settings: SampleSettings) -> Iterator[tuple[list[int], Group, Passes]]:
        """The drafts of each length and room, by their places in `drafts`, as many at once as fit into memory; and how the model
        is run on them."""
        energy = Energy(settings.energy, settings.temperature)
        alike: dict[tuple[int, int], list[int]] = {}
        for place, draft in enumerate(drafts):
            room = self.pair.in_room(draft.source).layout.source_length
            alike.setdefault((draft.length, room), []).append(place)
        for (length, room), places in sorted(alike.items()):
            source = drafts[places[0]].source
            pair = self.pair.in_room(source)
            target = Target(pair.model, pair.layout.template(source, length), energy, given=range(room))
            size = chain_cost(settings, target, "logits").fitting(CPU_BYTES)
            for first in range(0, len(places), size):
                some = places[first : first + size]
                numbers = [drafts[place].number for place in some]
                yield some, Group(numbers, target, _texts(pair, [drafts[place] for place in some]), numbers), pair.passes

    @staticmethod
    def _put(out: list[Draft], places: Sequence[int], tokens: Int[Tensor, "n F"], passes: Sequence[int]) -> None:
        for place, ids, spent in zip(places, tokens.tolist(), passes, strict=True):
            out[place] = replace(out[place], tokens=tuple(ids), passes=out[place].passes + int(spent))


def _narrowed(settings: SampleSettings, sites: int) -> SampleSettings:
    """The settings for short texts: a block is at most as long as the text, and one site instead of a pair is moved by itself."""
    if settings.entry.decodes or settings.sites_per_step <= sites:
        return settings
    return (
        replace(settings, block_size=sites) if settings.entry.sites is None else replace(settings, kernel=SampleSettings.kernel)
    )


def _texts(pair: PairModel, drafts: Sequence[Draft]) -> Int[Tensor, "n T"]:
    """The drafts as whole texts, blank where they have no tokens yet."""
    layout = pair.layout
    rows = [(*layout.room(d.source), *(d.tokens or [layout.mask] * d.length), layout.end) for d in drafts]
    return torch.tensor(rows, device=pair.model.device)
