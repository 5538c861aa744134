"""Decoders: texts that begin all blank and are filled in a few steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import Randomness
from unmask.sampling.engine.token_draw import Conditionals, Drawn, Proposal
from unmask.sampling.kernels.kernel import refuse_nan
from unmask.sampling.registry import InSteps, Method
from unmask.sampling.target import Target


@dataclass
class DecodeState:
    """n texts being decoded, on the model's device; steps change it in place.

    ids          token ids, the mask token where blank
    order        the sites in the order in which they are filled, where the decoder has one
    confidence   the model's probability of each site's token when it was chosen, over the allowed tokens
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

    def write(self, target: Target, rows: Int[Tensor, " m"], sites: Int[Tensor, " m"], drawn: Drawn) -> None:
        """Fill one site of each of the texts `rows`."""
        self.ids[rows, target.free_positions[sites]] = drawn.tokens
        self.confidence[rows, sites] = (drawn.logit - drawn.log_allowed).exp()


@dataclass(frozen=True)
class Decoder(ABC):
    """A rule that fills the blanks of a target; see `unmask.sampling.registry` for its options."""

    target: Target
    passes: Passes
    options: Any = Method()

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
    def step(self, state: DecodeState, rng: Randomness) -> tuple[DecodeState, Int[Tensor, " n"]]:
        """Fill some blanks of the state, in place; the state, and the passes that it took for each text."""

    def blank(self, state: DecodeState) -> Bool[Tensor, "n F"]:
        """Which sites are blank."""
        return state.ids[:, self.target.free_positions] == self.target.model.mask_id


@dataclass(frozen=True)
class StepwiseDecoder(Decoder):
    """A decoder that predicts many sites from one pass."""

    options: Any = InSteps()

    def conditionals(self, kept: Float[Tensor, "m W"], sites: Int[Tensor, " m"]) -> Conditionals:
        """Conditionals of the sites `sites` at the decoding temperature, made of `kept`."""
        temperature = self.options.decoding_temperature
        greedy, tempered = temperature == 0, Proposal(temperature or 1.0)
        return self.passes.proposals(kept, self.target, tempered, sites, torch.zeros_like(sites), greedy)


def decode(
    decoder: Decoder, n: int, rng: Randomness, texts: Int[Tensor, "n T"] | None = None
) -> tuple[DecodeState, Int[Tensor, " n"]]:
    """n whole texts, and the passes each took; `texts` bring the tokens that the target's texts are conditioned on."""
    for state, passes in decoding(decoder, n, rng, texts):  # noqa: B007
        pass
    return state, passes


def decoding(
    decoder: Decoder, n: int, rng: Randomness, texts: Int[Tensor, "n T"] | None = None
) -> Iterator[tuple[DecodeState, Int[Tensor, " n"]]]:
    """The state of `decode` at its beginning and after each step, the same object, and the passes so far."""
    state = decoder.init(n, rng)
    if texts is not None:
        state.ids[:, decoder.target.given] = texts[:, decoder.target.given]
    passes = torch.zeros_like(state.rows)
    yield state, passes
    for _ in range(decoder.steps):
        state, spent = decoder.step(state, rng)
        passes += spent
        yield state, passes
    refuse_nan(state.confidence)


def lowest(values: Float[Tensor, "#n F"], among: Bool[Tensor, "n F"], count: Int[Tensor, "n 1"] | int) -> Bool[Tensor, "n F"]:
    """Marks the `count` sites of lowest value `among` those of each row; earlier sites first among equals."""
    ranks = torch.where(among, values, torch.inf).argsort(dim=1, stable=True).argsort(dim=1)
    return among & (ranks < count)
