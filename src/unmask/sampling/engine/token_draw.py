"""A token from a conditional, by one uniform number: the inverse of the cumulative distribution.

    g(w) = exp(f(w) / tau) / Z over the kept tokens K: those allowed, of which `Proposal` may cut all but the likeliest
    w    = the first token of K with  sum_{v <= w, v in K} exp(f(v) / tau) > u Z

With the token come the numbers that a step needs: log g of it and of the current token, its logit f(w), and log Z of f
over the whole vocabulary and over the allowed tokens, both at tau = 1. Nothing of the size of the logits is written on a
GPU (`triton_programs`); here is its plain twin, in float64.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.errors import UnmaskWarning

CERTAIN_ROWS = 256
"""Conditionals whose entropies are computed at once where logits are kept, so that little besides them is held."""
InCalls = Callable[[Hashable, Callable[..., Any], Sequence[Tensor], Sequence[Tensor]], Any]
"""A function of rows, called for some of them at a time: a name for it, the function, its arguments with a row for each, and
those that all rows share."""


class ReducibleChainWarning(UnmaskWarning):
    """The chain cannot reach every text that its target gives probability to."""


@dataclass(frozen=True)
class Proposal:
    """The distribution that a new token is drawn from: the model's conditional over the allowed tokens, tempered or cut.

    The set that top-k keeps depends on the rest of the text only, so the proposal stays a density that Metropolis-
    Hastings can correct; but texts with a token outside every such set can no longer be reached: the chain is reducible.
    """

    temperature: float = 1.0
    top_k: int | None = None

    def __post_init__(self) -> None:
        if self.top_k is not None:
            warnings.warn(
                "proposals are cut to their likeliest tokens: texts with any other token are out of reach, so the chain is "
                "reducible and does not sample all of its target; leave out top_k to sample it",
                ReducibleChainWarning,
                stacklevel=3,
            )

    def least_kept(
        self, logits: Float[Tensor, "m V"], support: Bool[Tensor, "F V"], sites: Int[Tensor, " m"]
    ) -> Float[Tensor, " m"] | None:
        """The smallest logit of a token that is kept where proposals are cut; tokens that tie with it are kept, too."""
        if self.top_k is None:
            return None
        allowed = torch.where(support[sites], logits, -torch.inf)
        return allowed.topk(min(self.top_k, allowed.shape[1]), -1).values[:, -1]

    def log_weights(self, logits: Float[Tensor, "n V"], support: Bool[Tensor, "n V"]) -> Float[Tensor, "n V"]:
        """Normalised log-probabilities in float64, -inf for tokens that are never proposed."""
        rows = torch.arange(len(logits), device=logits.device)
        least = self.least_kept(logits, support, rows)
        kept = support if least is None else support & (logits >= least.unsqueeze(1))
        return torch.where(kept, logits.double() / self.temperature, -torch.inf).log_softmax(-1)


class Asked(NamedTuple):
    """What to draw from: logits of m sites, of which `sites` have these rows of `support`; or `tokens` to give the numbers of.

    least   the smallest logit that is kept, where proposals are cut;   greedy   take the likeliest allowed token
    """

    logits: Float[Tensor, "m V"]
    support: Bool[Tensor, "F V"]
    sites: Int[Tensor, " m"]
    current: Int[Tensor, " m"]
    temperature: float
    least: Float[Tensor, " m"] | None
    uniform: Float[Tensor, " m"] | None
    tokens: Int[Tensor, " m"] | None = None
    greedy: bool = False


class Drawn(NamedTuple):
    """A token of each row and its numbers, in float64.

    log_density   log g(token);   current_log_density   log g(current token), -inf where it is never proposed
    logit         f(token)
    log_all       log sum exp f over the vocabulary;   log_allowed   over the allowed tokens
    """

    tokens: Int[Tensor, " m"]
    log_density: Float[Tensor, " m"]
    current_log_density: Float[Tensor, " m"]
    logit: Float[Tensor, " m"]
    log_all: Float[Tensor, " m"]
    log_allowed: Float[Tensor, " m"]


def _as_it_is(kept: Float[Tensor, "m W"]) -> Float[Tensor, "m W"]:
    return kept


def _at_once(name: Hashable, function: Callable[..., Any], rows: Sequence[Tensor], shared: Sequence[Tensor]) -> Any:
    return function(*rows, *shared)


@dataclass(frozen=True)
class Conditionals:
    """The conditionals of m sites, in the form in which they are kept: logits, or what `logits_of` makes logits of.

    support    of every site of the target, a row each;   sites   which of them each conditional is of
    current    the current tokens
    greedy     take the likeliest allowed token instead of drawing
    in_calls   how functions of `kept` are called: tokens are drawn within the call that makes the logits, so that no more of them
               are held than one call makes
    """

    kept: Float[Tensor, "m W"]
    proposal: Proposal
    support: Bool[Tensor, "F V"]
    sites: Int[Tensor, " m"]
    current: Int[Tensor, " m"]
    greedy: bool = False
    logits_of: Callable[[Tensor], Tensor] = _as_it_is
    in_calls: InCalls = _at_once

    @classmethod
    def weights(cls, log_weights: Float[Tensor, "m V"]) -> Conditionals:
        """Any weights over any things."""
        nowhere = torch.zeros(len(log_weights), dtype=torch.long, device=log_weights.device)
        everything = torch.ones((1, log_weights.shape[1]), dtype=torch.bool, device=log_weights.device)
        return cls(log_weights, Proposal(), everything, nowhere, nowhere)

    def draw(self, uniform: Float[Tensor, " m"]) -> Drawn:
        """A token of each conditional."""
        return self._asked("draw", uniform)

    def at(self, tokens: Int[Tensor, " m"]) -> Drawn:
        """The numbers of given tokens."""
        return self._asked("at", tokens)

    def log_weights(self) -> Float[Tensor, "m V"]:
        """log g of every token."""
        logits = self.in_calls("head", self.logits_of, (self.kept,), ())
        return self.proposal.log_weights(logits, self.support[self.sites])

    def certainty(self) -> Float[Tensor, "2 m"]:
        """Entropy (nats) and largest probability of the model's own distribution over the allowed tokens, not tempered or cut."""
        logits_of = self.logits_of

        def answer(kept: Tensor, sites: Tensor, support: Tensor) -> Tensor:
            logits = logits_of(kept)
            wide = torch.promote_types(logits.dtype, torch.float32)
            q = torch.where(support[sites], logits, -torch.inf).softmax(-1, dtype=wide)
            return torch.stack([torch.special.entr(q).sum(-1), q.amax(-1)], 1).double()

        if self.in_calls is not _at_once:
            found: Tensor = self.in_calls("certainty", answer, (self.kept, self.sites), (self.support,))
            return found.T
        parts = zip(self.kept.split(CERTAIN_ROWS), self.sites.split(CERTAIN_ROWS), strict=True)
        return torch.cat([answer(kept, sites, self.support) for kept, sites in parts]).T

    def _asked(self, what: Literal["draw", "at"], uniform_or_tokens: Tensor) -> Drawn:
        proposal, greedy, logits_of = self.proposal, self.greedy, self.logits_of

        def answer(kept: Tensor, sites: Tensor, current: Tensor, given: Tensor, support: Tensor) -> tuple[Tensor, Tensor]:
            logits = logits_of(kept)
            least = proposal.least_kept(logits, support, sites)
            uniform, tokens = (given, None) if what == "draw" else (None, given)
            asked = Asked(logits, support, sites, current, proposal.temperature, least, uniform, tokens, greedy)
            if logits.is_cuda:
                from unmask.sampling.engine.triton_programs import draw_on_gpu

                found = draw_on_gpu(asked)
            else:
                found = plain_draw(asked)
            return found.tokens, torch.stack(found[1:], 1)

        rows = (self.kept, self.sites, self.current, uniform_or_tokens)
        tokens, numbers = self.in_calls((what, proposal, greedy), answer, rows, (self.support,))
        return Drawn(tokens, *numbers.unbind(1))


def plain_draw(asked: Asked) -> Drawn:
    """The drawn tokens, or the given ones, and their numbers."""
    logits, support, sites, current, temperature, least, uniform, tokens, greedy = asked
    wide = logits.double()
    allowed = torch.where(support[sites], wide, -torch.inf)
    top = allowed.amax(-1, keepdim=True)
    kept = allowed if least is None else torch.where(logits >= least.unsqueeze(1), allowed, -torch.inf)
    weights = ((kept - top) / temperature).exp()
    summed = weights.cumsum(-1)
    total = summed[:, -1:].contiguous()
    if tokens is None and greedy:
        tokens = allowed.argmax(-1)
    elif tokens is None:
        assert uniform is not None
        past = torch.searchsorted(summed, uniform.unsqueeze(1) * total, right=True)
        last = torch.searchsorted(summed, total)
        tokens = torch.minimum(past, last).squeeze(1).clamp(max=wide.shape[1] - 1)
    where = torch.stack([tokens, current], 1)
    log_density = (kept.gather(1, where) - top) / temperature - total.log()
    log_allowed = allowed.logsumexp(-1) if temperature != 1 or least is not None else (total.log() + top).squeeze(1)
    logit = wide.gather(1, tokens.unsqueeze(1)).squeeze(1)
    return Drawn(tokens, log_density[:, 0], log_density[:, 1], logit, wide.logsumexp(-1), log_allowed)
