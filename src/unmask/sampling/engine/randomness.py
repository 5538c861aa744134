"""Random choices as an argument: a counter-based stream for each chain, sweep and step; and
tokens drawn with them.

A chain's choices depend on the seed, its own number and where it is, and not on which other
chains run beside it, how they are batched, or whether the run was interrupted. The calls of a
step come in an order that does not depend on the chains' values, so that the number of a call
is part of the counter; a call may be for some of the rows only.

Philox 4x32-10 (Salmon et al. 2011) gives random bits as a keyed bijection of a counter, without
a state to carry along:

    key       (seed mod 2^32, chain)
    counter   (place + 2^20 (call mod 2^12),  step + 2^20 (call div 2^12),  sweep,  seed div 2^32)

    chain, sweep, step   whose choice it is, and where in the run
    call, place          which choice of the step, and which of several numbers that one choice
                         needs

No two choices of a run share a counter. The first two words w_0, w_1 of the four that come out
make one uniform number,

    u = (2^26 (w_0 div 2^6) + w_1 div 2^6 + 1/2) / 2^52,    exact in float64, never 0 or 1.

The same integers on every device: plain torch here, one launch (`triton_programs`) on a GPU,
tested equal bit by bit.

One uniform number draws a token from a conditional, by the inverse of the cumulative
distribution (Gumbel's maximum needs a number for every token of the vocabulary: on a CPU that
costs more than everything else that a step does with the logits):

    g(w) = exp(f(w) / tau) / Z over the allowed tokens K
    w    = the first token of K with  sum_{v <= w, v in K} exp(f(v) / tau) > u Z;
         at tau = 0 the likeliest of K

With the token come the numbers that a step needs: log g of it and of the current token, its
logit f(w), and log Z of f over the whole vocabulary and over the allowed tokens, both at tau =
1. Nothing of the size of the logits is written on a GPU (`triton_programs`); here is its plain
twin, in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import torch
from annotated_types import Interval
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.common.checks import whole
from unmask.common.signature import checked
from unmask.runs.devices import resolve_device

ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
WORD = 0xFFFFFFFF
Seed = Annotated[int, Interval(ge=0, lt=2**63)]
Number = Annotated[int, Interval(ge=0, le=WORD)]
PLACES, CALLS = 20, 12
"""Bits of a place, and of the part of the call that shares its word."""
Words = tuple[Int[Tensor, "..."], Int[Tensor, "..."], Int[Tensor, "..."], Int[Tensor, "..."]]
ENTROPY_ROWS = 256
"""Distributions whose entropies are computed at once where outputs are logits: a bound on the
memory.
"""
InCalls = Callable[[Hashable, Callable[..., Any], Sequence[Tensor], Sequence[Tensor]], Any]
"""A function of rows, called for some of them at a time: a name for it, the function, its
arguments with a row for each, and those that all rows share."""


class TokenDraw(NamedTuple):
    """The inputs of a draw: logits of m sites, and the tokens allowed there, the rows `sites`
    of `support`; `tokens`: no draw.
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

    log_density   log g(token);   current_log_density
                  log g(current token), -inf where it is never proposed
    logit         f(token)
    log_all       log sum exp f over the vocabulary;   log_allowed   over the allowed tokens
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
        nowhere = torch.zeros(len(log_weights), dtype=torch.long, device=log_weights.device)
        everything = torch.ones(
            (1, log_weights.shape[1]), dtype=torch.bool, device=log_weights.device
        )
        return cls(log_weights, 1.0, everything, nowhere, nowhere)

    def draw(self, uniform: Float[Tensor, " m"]) -> Drawn:
        """A token from each distribution."""
        return self._drawn(uniform)

    def at(self, tokens: Int[Tensor, " m"]) -> Drawn:
        """The numbers of given tokens."""
        return self._drawn(tokens, draws=False)

    def log_weights(self) -> Float[Tensor, "m V"]:
        """log g of every token, in float64; -inf for those that are not allowed. At temperature
        0 those of temperature 1.
        """
        logits = self.in_calls("head", self.logits_of, (self.outputs,), ()).double() / (
            self.temperature or 1.0
        )
        return torch.where(self.support[self.sites], logits, -torch.inf).log_softmax(-1)

    def entropy(self) -> Float[Tensor, " m"]:
        """Entropy (nats) of the model's own distribution over the allowed tokens, not tempered."""
        logits_of = self.logits_of

        def answer(outputs: Tensor, sites: Tensor, support: Tensor) -> Tensor:
            logits = logits_of(outputs)
            wide = torch.promote_types(logits.dtype, torch.float32)
            q = torch.where(support[sites], logits, -torch.inf).softmax(-1, dtype=wide)
            return torch.special.entr(q).sum(-1).double()

        if self.in_calls is not _at_once:
            numbers: Tensor = self.in_calls(
                "entropy", answer, (self.outputs, self.sites), (self.support,)
            )
            return numbers
        parts = zip(self.outputs.split(ENTROPY_ROWS), self.sites.split(ENTROPY_ROWS), strict=True)
        return torch.cat([answer(outputs, sites, self.support) for outputs, sites in parts])

    def _drawn(self, uniform_or_tokens: Tensor, draws: bool = True) -> Drawn:
        temperature, logits_of = self.temperature, self.logits_of

        def answer(
            outputs: Tensor, sites: Tensor, current: Tensor, values: Tensor, support: Tensor
        ) -> tuple[Tensor, Tensor]:
            logits = logits_of(outputs)
            task = TokenDraw(
                logits,
                support,
                sites,
                current,
                temperature,
                *((values, None) if draws else (None, values)),
            )
            if logits.is_cuda:
                from unmask.sampling.engine.triton_programs import draw_on_gpu

                drawn = draw_on_gpu(task)
            else:
                drawn = plain_draw(task)
            return drawn.tokens, torch.stack(drawn[1:], 1)

        rows = (self.outputs, self.sites, self.current, uniform_or_tokens)
        tokens, numbers = self.in_calls((draws, temperature), answer, rows, (self.support,))
        return Drawn(tokens, *numbers.unbind(1))


def plain_draw(task: TokenDraw) -> Drawn:
    """The drawn tokens, or the given ones, and their numbers."""
    logits, support, sites, current, temperature, uniform, tokens = task
    wide, heat = logits.double(), temperature or 1.0
    allowed = torch.where(support[sites], wide, -torch.inf)
    top = allowed.amax(-1, keepdim=True)
    weights = ((allowed - top) / heat).exp()
    summed = weights.cumsum(-1)
    total = summed[:, -1:].contiguous()
    if tokens is None and temperature == 0:
        tokens = allowed.argmax(-1)
    elif tokens is None:
        assert uniform is not None
        past = torch.searchsorted(summed, uniform.unsqueeze(1) * total, right=True)
        last = torch.searchsorted(summed, total)
        tokens = torch.minimum(past, last).squeeze(1).clamp(max=wide.shape[1] - 1)
    where = torch.stack([tokens, current], 1)
    log_density = (allowed.gather(1, where) - top) / heat - total.log()
    log_allowed = allowed.logsumexp(-1) if heat != 1 else (total.log() + top).squeeze(1)
    logit = wide.gather(1, tokens.unsqueeze(1)).squeeze(1)
    return Drawn(
        tokens, log_density[:, 0], log_density[:, 1], logit, wide.logsumexp(-1), log_allowed
    )


def philox(counter: Words, key: tuple[Tensor, Tensor]) -> Words:
    """Four random words for each counter; words are int64 numbers below 2^32."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        first, second = c0 * MULTIPLIERS[0], c2 * MULTIPLIERS[1]
        c0, c1, c2, c3 = (
            (second >> 32 & WORD) ^ c1 ^ k0,
            second & WORD,
            (first >> 32 & WORD) ^ c3 ^ k1,
            first & WORD,
        )
        k0, k1 = k0 + WEYL[0] & WORD, k1 + WEYL[1] & WORD
    return c0, c1, c2, c3


def counter_words(seed: int, sweep: int, step: int, call: int) -> tuple[int, int, int, int, int]:
    """The words that all chains and places share: the key's first word, and the counter at
    place 0.
    """
    low, high = call & (1 << CALLS) - 1, call >> CALLS
    return seed & WORD, low << PLACES, step + (high << PLACES), sweep, seed >> 32


def plain_uniform(
    words: tuple[int, int, int, int, int], chains: Int[Tensor, " m"], places: Int[Tensor, "#m p"]
) -> Float[Tensor, "m p"]:
    """A uniform number on (0, 1) for each chain and place, by plain integer arithmetic, on any
    device.
    """
    key, *counter = words
    first = places + counter[0]
    rest = (torch.full_like(first, word) for word in counter[1:])
    w0, w1, _, _ = philox((first, *rest), (torch.full_like(first, key), chains.unsqueeze(1)))  # type: ignore[arg-type]
    return ((w0 >> 6 << 26 | w1 >> 6).double() + 0.5) * 2.0**-52


class Randomness:
    """Random choices of a kernel at one place of the run, from the streams of the chains `chains`.

    `rows` are the rows of the state that a choice is for; each has its own stream. Answers are
    on the device of `rows`.
    """

    def __init__(self, seed: int, chains: Int[Tensor, " r"], sweep: int, step: int) -> None:
        self.seed, self.chains, self.sweep, self.step = seed, chains, sweep, step
        self.calls = 0

    def uniform(self, rows: Int[Tensor, " m"], places: Int[Tensor, "#m p"]) -> Float[Tensor, "m p"]:
        """A number on (0, 1) for each row and place, in float64; the next call of the step."""
        words, chains = (
            counter_words(self.seed, self.sweep, self.step, self.calls),
            self.chains.to(rows.device)[rows],
        )
        self.calls += 1
        if chains.is_cuda:
            from unmask.sampling.engine.triton_programs import uniform_on_gpu

            return uniform_on_gpu(words, chains, places)
        return plain_uniform(words, chains, places)

    def tokens(
        self,
        rows: Int[Tensor, " m"],
        distributions: Categoricals,
        places: Int[Tensor, " m"] | None = None,
    ) -> Drawn:
        """A token from each distribution; `places` distinguish several of one row."""
        return distributions.draw(self._one(rows, places))

    def categorical(
        self, rows: Int[Tensor, " m"], log_weights: Float[Tensor, "m V"]
    ) -> Int[Tensor, " m"]:
        """One index for each row, with probability proportional to exp(log_weights)."""
        return Categoricals.weights(log_weights).draw(self._one(rows)).tokens

    def log_uniform(self, rows: Int[Tensor, " m"]) -> Float[Tensor, " m"]:
        """log u, u uniform on (0, 1), for each row."""
        return self._one(rows).log()

    def permutation(self, rows: Int[Tensor, " m"], n: int) -> Int[Tensor, "m n"]:
        """A uniformly random order of n things for each row."""
        return self.uniform(rows, torch.arange(n, device=rows.device).unsqueeze(0)).argsort(
            dim=1, stable=True
        )

    def integers(self, rows: Int[Tensor, " m"], n: int) -> Int[Tensor, " m"]:
        """A uniformly random number below n for each row."""
        return (self._one(rows) * n).long()

    def _one(
        self, rows: Int[Tensor, " m"], places: Int[Tensor, " m"] | None = None
    ) -> Float[Tensor, " m"]:
        where = (
            torch.zeros((1, 1), dtype=torch.long, device=rows.device)
            if places is None
            else places.unsqueeze(1)
        )
        return self.uniform(rows, where).squeeze(1)


class ChainStreams:
    """Streams of random numbers, one for each chain, under one seed.

    seed     below 2^63; all other numbers are below 2^32
    chains   the numbers of the chains in the whole run: a chain's stream depends on its own
             number alone
    device   where the numbers are made; by default the CPU

    >>> streams = unmask.ChainStreams(seed=0, chains=range(4))
    >>> streams.at(sweep=1, step=0).permutation(torch.arange(4), 3).shape
    torch.Size([4, 3])
    """

    @checked
    def __init__(
        self, seed: Seed, chains: Sequence[Number], device: torch.device | str = "cpu"
    ) -> None:
        self.seed, self.chains = (
            seed,
            torch.tensor(list(chains), dtype=torch.long, device=resolve_device(device)),
        )

    def at(self, sweep: int, step: int) -> Randomness:
        """The random numbers of one step of one sweep; the same at every call."""
        return Randomness(
            self.seed, self.chains, whole("sweep", sweep, 0, WORD), whole("step", step, 0, WORD)
        )
