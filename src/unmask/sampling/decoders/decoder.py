"""Decoders: texts that begin all blank and are filled in a few steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.checks import real, whole
from unmask.options.sampling import HOTTEST
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import Randomness
from unmask.sampling.kernels.kernel import refuse_nan
from unmask.sampling.kernels.proposal import Proposal
from unmask.sampling.target import Target


@dataclass
class DecodeState:
    """n texts being decoded, on the model's device; steps change it in place.

    ids          token ids, the mask token where blank
    order        the sites in the order in which they are filled, where the decoder has one
    confidence   probability of each site's token when it was chosen
    log_prob     log-probability of the text so far, where the decoder has one
    settled      texts that no further step would change, where the decoder knows
    steps        steps done
    """

    ids: Int[Tensor, "n T"]
    order: Int[Tensor, "n F"]
    confidence: Float[Tensor, "n F"]
    log_prob: Float[Tensor, " n"]
    settled: Bool[Tensor, " n"]
    steps: int = 0

    @classmethod
    def blank(cls, target: Target, n: int) -> DecodeState:
        """n texts with all free positions masked."""
        wide = torch.empty(0, dtype=torch.float64, device=target.device)
        return cls(
            ids=target.template_ids.repeat(n, 1),
            order=torch.arange(target.sites, device=target.device).repeat(n, 1),
            confidence=wide.new_zeros((n, target.sites)),
            log_prob=wide.new_zeros(n),
            settled=wide.new_zeros(n, dtype=torch.bool),
        )

    @property
    def rows(self) -> Int[Tensor, " n"]:
        """0 ... n - 1, on the state's device."""
        return torch.arange(len(self.ids), device=self.ids.device)

    def mask(self, target: Target, where: Bool[Tensor, "n F"]) -> None:
        """Make some sites blank again."""
        values = self.ids[:, target.free_positions]
        self.ids[:, target.free_positions] = torch.where(where, target.model.mask_id, values)


class DecodeInfo(NamedTuple):
    """Which sites a step filled, and the passes it took for each text."""

    filled: Bool[Tensor, "n F"]
    passes: Int[Tensor, " n"]


@dataclass(frozen=True)
class Decoder(ABC):
    """A rule that fills the blanks of a target."""

    target: Target
    passes: Passes

    @property
    def exact(self) -> bool:
        """Whether `log_prob` is the probability with which the text is drawn, given the order."""
        return False

    @property
    @abstractmethod
    def steps(self) -> int:
        """Steps to a whole text."""

    def init(self, n: int, rng: Randomness) -> DecodeState:
        """n blank texts."""
        return DecodeState.blank(self.target, n)

    @abstractmethod
    def step(self, state: DecodeState, rng: Randomness) -> DecodeInfo:
        """Fill some blanks in place."""

    def blank(self, state: DecodeState) -> Bool[Tensor, "n F"]:
        """Which sites are blank."""
        return state.ids[:, self.target.free_positions] == self.target.model.mask_id


@dataclass(frozen=True)
class ParallelDecoder(Decoder):
    """A decoder that predicts many sites from one pass, in a given number of steps.

    `decoding_temperature` 0 takes the likeliest token, otherwise tokens are drawn at that temperature.
    """

    decoding_steps: int = 10
    decoding_temperature: float = 0.0

    def __post_init__(self) -> None:
        whole("decoding_steps", self.decoding_steps, 1, 10**6)
        real("decoding_temperature", self.decoding_temperature, 0, HOTTEST)

    @property
    def steps(self) -> int:
        """`decoding_steps`."""
        return self.decoding_steps

    def predict(self, state: DecodeState, texts: Int[Tensor, " m"], sites: Int[Tensor, "m c"], rng: Randomness) -> None:
        """Predict the sites `sites` of the texts `texts` from one pass over each; writes ids and confidence.

        As states, those of all sites are computed, so that the calls of all steps have one shape and are recorded once.
        """
        target, site, row = self.target, sites.flatten(), texts.repeat_interleave(sites.shape[1])
        ids = state.ids[texts]
        if self.passes.as_states(ids):
            everywhere = self.passes.conditionals(ids, target.free_positions.expand(len(ids), -1))
            kept = everywhere.gather(1, sites.unsqueeze(-1).expand(-1, -1, everywhere.shape[-1])).flatten(0, 1)
        else:
            kept = self.passes.conditionals(ids, target.free_positions[sites]).flatten(0, 1)
        greedy, tempered = self.decoding_temperature == 0, Proposal(self.decoding_temperature or 1.0)
        conditionals = self.passes.proposals(kept, target, tempered, site, torch.zeros_like(site), greedy)
        drawn = rng.tokens(row, conditionals, site)
        state.ids[row, target.free_positions[site]] = drawn.tokens
        state.confidence[row, site] = (drawn.logit - drawn.log_allowed).exp()


def decode(
    decoder: Decoder, n: int, rng: Randomness, texts: Int[Tensor, "n T"] | None = None
) -> tuple[DecodeState, Int[Tensor, " n"]]:
    """n whole texts, and the passes each took; `texts` bring the tokens that the target's texts are conditioned on."""
    state = decoder.init(n, rng)
    if texts is not None:
        state.ids[:, decoder.target.given] = texts[:, decoder.target.given]
    passes = torch.zeros_like(state.rows)
    for _ in range(decoder.steps):
        passes += decoder.step(state, rng).passes
    refuse_nan(state.confidence)
    return state, passes


def highest(values: Float[Tensor, "n F"], count: int) -> Bool[Tensor, "n F"]:
    """Marks the `count` highest values of each row; earlier sites first among equals."""
    ranks = values.argsort(dim=1, descending=True, stable=True).argsort(dim=1)
    return ranks < count
