"""Proposal distributions of single positions: the model's conditional over the allowed tokens, tempered or cut.

    g(w) proportional to exp(f(w) / tau)   over the allowed tokens, or over its top k, or over its nucleus

The set that top-k and nucleus keep depends on the rest of the text only, so the proposal stays a density that Metropolis-
Hastings can correct; but texts with a token outside every such set can no longer be reached: the chain is reducible.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.errors import UnmaskWarning


class ReducibleChainWarning(UnmaskWarning):
    """The chain cannot reach every text that its target gives probability to."""


@dataclass(frozen=True)
class Proposal:
    """How a position's logits become the distribution that a new token is drawn from."""

    temperature: float = 1.0
    top_k: int | None = None
    nucleus: float | None = None

    def __post_init__(self) -> None:
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

    def least_kept(
        self, logits: Float[Tensor, "m V"], support: Bool[Tensor, "F V"], sites: Int[Tensor, " m"]
    ) -> Float[Tensor, " m"] | None:
        """The smallest logit of a token that is kept where proposals are cut; tokens that tie with it are kept, too."""
        if not self.truncated:
            return None
        allowed = torch.where(support[sites], logits, -torch.inf)
        ordered = allowed.sort(dim=-1, descending=True).values
        count = torch.full_like(sites, min(self.top_k or allowed.shape[1], allowed.shape[1]))
        if self.nucleus is not None and self.nucleus < 1:
            wide = ordered.double() / self.temperature
            first = torch.arange(allowed.shape[1], device=sites.device) < count.unsqueeze(1)
            shares = torch.where(first, wide, -torch.inf).softmax(-1)
            count = torch.minimum(count, ((shares.cumsum(-1) - shares) < self.nucleus).sum(-1))
        return ordered.gather(1, (count - 1).unsqueeze(1)).squeeze(1)

    def log_weights(self, logits: Float[Tensor, "n V"], support: Bool[Tensor, "n V"]) -> Float[Tensor, "n V"]:
        """Normalised log-probabilities in float64, -inf for tokens that are never proposed."""
        rows = torch.arange(len(logits), device=logits.device)
        least = self.least_kept(logits, support, rows)
        kept = support if least is None else support & (logits >= least.unsqueeze(1))
        return torch.where(kept, logits.double() / self.temperature, -torch.inf).log_softmax(-1)
