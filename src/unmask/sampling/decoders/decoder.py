"""What the decoders share: texts that begin all blank and are filled in a few steps."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.sampling.randomness import Randomness
from unmask.sampling.target import Target


class DecodeState(NamedTuple):
    """n texts being decoded.

    ids          token ids, the mask token where blank
    order        the sites in the order in which they are filled, where the decoder has one
    confidence   probability of each site's token when it was chosen
    log_prob     log-probability of the text so far, where the decoder has one
    steps        steps done
    """

    ids: Int[Tensor, "n T"]
    order: Int[Tensor, "n F"]
    confidence: Float[Tensor, "n F"]
    log_prob: Float[Tensor, " n"]
    steps: int


class DecodeInfo(NamedTuple):
    """Which sites a step filled, and the passes it took for each text."""

    filled: Bool[Tensor, "n F"]
    passes: Int[Tensor, " n"]


class Decoder(Protocol):
    """Fills blanks; `exact` says whether `log_prob` is the probability with which it draws the text, given the order."""

    @property
    def target(self) -> Target:
        """The blanks and what may stand in them."""
        ...

    @property
    def exact(self) -> bool:
        """Whether `log_prob` is known."""
        ...

    @property
    def steps(self) -> int:
        """Steps to a whole text."""
        ...

    def init(self, n: int, rng: Randomness) -> DecodeState:
        """n blank texts."""
        ...

    def step(self, state: DecodeState, rng: Randomness) -> tuple[DecodeState, DecodeInfo]:
        """Fill some blanks."""
        ...


def blank_state(target: Target, n: int) -> DecodeState:
    """All free positions masked."""
    return DecodeState(
        ids=torch.tensor(target.template).repeat(n, 1),
        order=torch.arange(target.sites).repeat(n, 1),
        confidence=torch.zeros((n, target.sites), dtype=torch.float64),
        log_prob=torch.zeros(n, dtype=torch.float64),
        steps=0,
    )


def decode(decoder: Decoder, n: int, rng: Randomness) -> tuple[DecodeState, Int[Tensor, " n"]]:
    """n whole texts, and the passes each took."""
    state, passes = decoder.init(n, rng), torch.zeros(n, dtype=torch.long)
    for _ in range(decoder.steps):
        state, info = decoder.step(state, rng)
        passes += info.passes
    return state, passes


def highest(values: Float[Tensor, "n F"], count: int) -> Bool[Tensor, "n F"]:
    """Where the `count` highest values of each row stand; earlier sites first among equals."""
    ranks = values.argsort(dim=1, descending=True, stable=True).argsort(dim=1)
    return ranks < count
