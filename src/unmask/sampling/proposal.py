"""Proposal distributions of single positions: the model's conditional over the allowed tokens, tempered or cut.

    g(w) proportional to exp(f(w) / tau)   over the allowed tokens, or over its top k, or over its nucleus

The set that top-k and nucleus keep depends on the rest of the text only, so the proposal stays a density that Metropolis-
Hastings can correct; but texts with a token outside every such set can no longer be reached: the chain is reducible.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from unmask.checks import real, whole
from unmask.errors import UnmaskWarning
from unmask.sampling.settings import HOTTEST


class ReducibleChainWarning(UnmaskWarning):
    """The chain cannot reach every text that its target gives probability to."""


@dataclass(frozen=True)
class Proposal:
    """How a position's logits become the distribution that a new token is drawn from."""

    temperature: float = 1.0
    top_k: int | None = None
    nucleus: float | None = None

    def __post_init__(self) -> None:
        real("proposal_temperature", self.temperature, 0, HOTTEST, above=True)
        if self.top_k is not None:
            whole("top_k", self.top_k, 1, 10**9)
        if self.nucleus is not None:
            real("nucleus", self.nucleus, 0, 1, above=True)
        if self.truncated:
            warnings.warn(
                "proposals are cut to their likeliest tokens: texts with any other token are out of reach, so the chain is "
                "reducible and does not sample all of its target; leave out top-k and nucleus to sample it",
                ReducibleChainWarning,
                stacklevel=3,
            )

    @property
    def truncated(self) -> bool:
        """Whether some allowed tokens cannot be proposed."""
        return self.top_k is not None or (self.nucleus is not None and self.nucleus < 1)

    def log_weights(self, logits: Float[Tensor, "n V"], support: Bool[Tensor, "n V"]) -> Float[Tensor, "n V"]:
        """Normalised log-probabilities in float64, -inf for tokens that are never proposed."""
        wide = torch.where(support, logits.double() / self.temperature, -torch.inf)
        if self.top_k is not None and self.top_k < wide.shape[-1]:
            kept = wide.topk(self.top_k, dim=-1)
            wide = torch.full_like(wide, -torch.inf).scatter(-1, kept.indices, kept.values)
        log_weights = wide.log_softmax(-1)
        if self.nucleus is not None and self.nucleus < 1:
            ordered = log_weights.sort(dim=-1, descending=True, stable=True)
            before = ordered.values.exp().cumsum(-1) - ordered.values.exp()
            kept_values = torch.where(before < self.nucleus, ordered.values, -torch.inf)
            log_weights = torch.full_like(wide, -torch.inf).scatter(-1, ordered.indices, kept_values).log_softmax(-1)
        return log_weights
