"""Tokens drawn from conditionals, with the numbers that a step needs.

One uniform number u draws a token from a conditional, by the inverse of the cumulative
distribution:

    g(w) = exp(f(w) / tau) / Z over the allowed tokens K
    w    = the first token of K with  sum_{v <= w, v in K} exp(f(v) / tau) > u Z;
         at tau = 0 the likeliest of K

Gumbel's maximum would need a number for every token of the vocabulary: on a CPU that costs more
than everything else that a step does with the logits.

With the token come log g of it and of the current token, its logit f(w), and log Z of f over the
whole vocabulary and over the allowed tokens, both at tau = 1. On a GPU nothing of the size of the
logits is written (`triton_programs`); here is its plain twin, in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

ENTROPY_ROWS = 256
"""Distributions whose entropies are computed at once where outputs are logits: a bound on the
memory.
"""
InCalls = Callable[[Hashable, Callable[..., Any], Sequence[Tensor], Sequence[Tensor]], Any]
"""A function of rows, called for some of them at a time: a name for it, the function, its
arguments with a row for each, and those that all rows share."""


class TokenDraw(NamedTuple):
    """The inputs of a draw from m distributions over V tokens.

    logits        f of each distribution
    support       the tokens allowed at each of the F sites
    sites         the site of each distribution
    current       the current tokens
    temperature   tau
    uniform       u of each distribution; None where nothing is drawn
    tokens        given tokens, whose numbers are computed; None where tokens are drawn
    """

    logits: Float[Tensor, "m V"]
    support: Bool[Tensor, "F V"]
    sites: Int[Tensor, " m"]
    current: Int[Tensor, " m"]
    temperature: float
    uniform: Float[Tensor, " m"] | None
    tokens: Int[Tensor, " m"] | None = None


class Drawn(NamedTuple):
    """A token of each row and its numbers, in float64.

    log_density           log g(token)
    current_log_density   log g(current token), -inf where it is never proposed
    logit                 f(token)
    log_all               log sum exp f over the vocabulary
    log_allowed           log sum exp f over the allowed tokens
    """

    tokens: Int[Tensor, " m"]
    log_density: Float[Tensor, " m"]
    current_log_density: Float[Tensor, " m"]
    logit: Float[Tensor, " m"]
    log_all: Float[Tensor, " m"]
    log_allowed: Float[Tensor, " m"]


def _identity(logits: Float[Tensor, "m V"]) -> Float[Tensor, "m V"]:
    return logits


def _at_once(
    name: Hashable, function: Callable[..., Any], rows: Sequence[Tensor], shared: Sequence[Tensor]
) -> Any:
    """A function of all rows in one call."""
    return function(*rows, *shared)


@dataclass(frozen=True)
class Categoricals:
    """m categorical distributions over the vocabulary, a site each, from the network's outputs
    there.

    outputs      logits (W = V), or hidden states (W = d), of which `logits_of` makes logits
    temperature  of the drawn tokens; 0 takes the likeliest
    support      the tokens allowed at every site of the target, a row each
    sites        the site of each distribution
    current      the current tokens
    in_calls     how functions of `outputs` are called: tokens are drawn within the call that
                 makes the logits, so that memory holds the logits of one call only
    """

    outputs: Float[Tensor, "m W"]
    temperature: float
    support: Bool[Tensor, "F V"]
    sites: Int[Tensor, " m"]
    current: Int[Tensor, " m"]
    logits_of: Callable[[Tensor], Tensor] = _identity
    in_calls: InCalls = _at_once

    @classmethod
    def weights(cls, log_weights: Float[Tensor, "m V"]) -> Categoricals:
        """Any weights over any things."""
        rows, things = log_weights.shape
        device = log_weights.device
        zeros = torch.zeros(rows, dtype=torch.long, device=device)
        return cls(
            outputs=log_weights,
            temperature=1.0,
            support=torch.ones((1, things), dtype=torch.bool, device=device),
            sites=zeros,  # one site, where everything is allowed
            current=zeros,  # nothing in particular: its density is not used
        )

    def draw(self, uniform: Float[Tensor, " m"]) -> Drawn:
        """A token from each distribution."""
        return self._drawn(uniform, draws=True)

    def at(self, tokens: Int[Tensor, " m"]) -> Drawn:
        """The numbers of given tokens."""
        return self._drawn(tokens, draws=False)

    def log_weights(self) -> Float[Tensor, "m V"]:
        """log g of every token, in float64; -inf for those that are not allowed. At temperature
        0 those of temperature 1.
        """
        logits = self.in_calls("head", self.logits_of, (self.outputs,), ())
        tempered = logits.double() / (self.temperature or 1.0)
        return torch.where(self.support[self.sites], tempered, -torch.inf).log_softmax(-1)

    def entropy(self) -> Float[Tensor, " m"]:
        """Entropy (nats) of the model's own distribution over the allowed tokens, not tempered."""
        logits_of = self.logits_of

        def entropy_of(outputs: Tensor, sites: Tensor, support: Tensor) -> Tensor:
            logits = logits_of(outputs)
            wide = torch.promote_types(logits.dtype, torch.float32)
            q = torch.where(support[sites], logits, -torch.inf).softmax(-1, dtype=wide)
            return torch.special.entr(q).sum(-1).double()

        if self.in_calls is not _at_once:  # calls have few rows
            entropies: Tensor = self.in_calls(
                "entropy", entropy_of, (self.outputs, self.sites), (self.support,)
            )
            return entropies
        outputs = self.outputs.split(ENTROPY_ROWS)
        sites = self.sites.split(ENTROPY_ROWS)
        parts = zip(outputs, sites, strict=True)
        return torch.cat([entropy_of(*part, self.support) for part in parts])

    def _drawn(self, values: Tensor, draws: bool) -> Drawn:
        """Tokens drawn by the uniform numbers `values`, or the given tokens `values`."""
        logits_of = self.logits_of
        temperature = self.temperature

        def draw(
            outputs: Tensor, sites: Tensor, current: Tensor, values: Tensor, support: Tensor
        ) -> tuple[Tensor, Tensor]:
            """Tokens, and their five numbers as columns."""
            task = TokenDraw(
                logits=logits_of(outputs),
                support=support,
                sites=sites,
                current=current,
                temperature=temperature,
                uniform=values if draws else None,
                tokens=None if draws else values,
            )
            if task.logits.is_cuda:
                from unmask.sampling.engine.triton_programs import draw_on_gpu

                drawn = draw_on_gpu(task)
            else:
                drawn = plain_draw(task)
            return drawn.tokens, torch.stack(drawn[1:], 1)

        rows = (self.outputs, self.sites, self.current, values)
        name = (draws, temperature)
        tokens, numbers = self.in_calls(name, draw, rows, (self.support,))
        return Drawn(tokens, *numbers.unbind(1))


def plain_draw(task: TokenDraw) -> Drawn:
    """The drawn tokens, or the given ones, and their numbers."""
    f = task.logits.double()
    tau = task.temperature or 1.0  # at 0 tokens are not drawn, and numbers are those of 1
    allowed = torch.where(task.support[task.sites], f, -torch.inf)
    top = allowed.amax(-1, keepdim=True)
    weights = ((allowed - top) / tau).exp()
    cumulative = weights.cumsum(-1)
    z = cumulative[:, -1:].contiguous()
    if task.tokens is not None:
        tokens = task.tokens
    elif task.temperature == 0:
        tokens = allowed.argmax(-1)
    else:
        assert task.uniform is not None
        tokens = _token_at(task.uniform.unsqueeze(1) * z, cumulative, z)
    pair = torch.stack([tokens, task.current], 1)
    log_density = (allowed.gather(1, pair) - top) / tau - z.log()
    if tau == 1:
        log_allowed = (z.log() + top).squeeze(1)
    else:
        log_allowed = allowed.logsumexp(-1)
    return Drawn(
        tokens=tokens,
        log_density=log_density[:, 0],
        current_log_density=log_density[:, 1],
        logit=f.gather(1, tokens.unsqueeze(1)).squeeze(1),
        log_all=f.logsumexp(-1),
        log_allowed=log_allowed,
    )


def _token_at(
    mass: Float[Tensor, "m 1"], cumulative: Float[Tensor, "m V"], z: Float[Tensor, "m 1"]
) -> Int[Tensor, " m"]:
    """The first token at which the cumulative sum exceeds `mass`.

    If `mass` is rounded up to Z, none does: then it is the last token with a weight. Rows of NaN
    have the last token of the vocabulary.
    """
    first_beyond = torch.searchsorted(cumulative, mass, right=True)
    last_with_weight = torch.searchsorted(cumulative, z)
    last = cumulative.shape[1] - 1
    return torch.minimum(first_beyond, last_with_weight).squeeze(1).clamp(max=last)
