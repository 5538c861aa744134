"""Random choices as an argument: a counter-based stream for each chain, sweep and step.

A chain's choices depend on the seed, its own number and where it is, and not on which other chains run beside it, how they
are batched, or whether the run was interrupted. The calls of a step come in an order that does not depend on the chains'
values, so that the number of a call is part of the counter; a call may be for some of the rows only.

Philox 4x32-10 (Salmon et al. 2011) gives random bits as a keyed bijection of a counter, without a state to carry along:

    key       (seed mod 2^32, chain)
    counter   (place + 2^20 (call mod 2^12),  step + 2^20 (call div 2^12),  sweep,  seed div 2^32)

    chain, sweep, step   whose choice it is, and where in the run
    call, place          which choice of the step, and which of several numbers that one choice needs

No two choices of a run share a counter. The first two words w_0, w_1 of the four that come out make one uniform number,

    u = (2^26 (w_0 div 2^6) + w_1 div 2^6 + 1/2) / 2^52,    exact in float64, never 0 or 1.

The same integers on every device: plain torch here, one launch (`triton_programs`) on a GPU, tested equal bit by bit.

One uniform number draws a token, by the inverse of the cumulative distribution (see `token_draw`). Gumbel's maximum needs a
number for every token of the vocabulary: on a CPU that costs more than everything else that a step does with the logits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.sampling.engine.token_draw import Conditionals, Drawn

ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
WORD = 0xFFFFFFFF
PLACES, CALLS = 20, 12
"""Bits of a place, and of the part of the call that shares its word."""
Words = tuple[Int[Tensor, "..."], Int[Tensor, "..."], Int[Tensor, "..."], Int[Tensor, "..."]]


def philox(counter: Words, key: tuple[Tensor, Tensor]) -> Words:
    """Four random words for each counter; words are int64 numbers below 2^32."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        first, second = c0 * MULTIPLIERS[0], c2 * MULTIPLIERS[1]
        c0, c1, c2, c3 = (second >> 32 & WORD) ^ c1 ^ k0, second & WORD, (first >> 32 & WORD) ^ c3 ^ k1, first & WORD
        k0, k1 = k0 + WEYL[0] & WORD, k1 + WEYL[1] & WORD
    return c0, c1, c2, c3


def uniform(
    seed: int, chains: Int[Tensor, " m"], sweep: int, step: int, call: int, places: Int[Tensor, "#m p"]
) -> Float[Tensor, "m p"]:
    """A uniform number on (0, 1) for each chain and place, in float64."""
    words = counter_words(seed, sweep, step, call)
    if chains.is_cuda:
        from unmask.sampling.engine.triton_programs import uniform_on_gpu

        return uniform_on_gpu(words, chains, places)
    return plain_uniform(words, chains, places)


def counter_words(seed: int, sweep: int, step: int, call: int) -> tuple[int, int, int, int, int]:
    """The words that all chains and places share: the key's first word, and the counter at place 0."""
    low, high = call & (1 << CALLS) - 1, call >> CALLS
    return seed & WORD, low << PLACES, step + (high << PLACES), sweep, seed >> 32


def plain_uniform(
    words: tuple[int, int, int, int, int], chains: Int[Tensor, " m"], places: Int[Tensor, "#m p"]
) -> Float[Tensor, "m p"]:
    """`uniform` by plain integer arithmetic, on any device."""
    key, *counter = words
    first = places + counter[0]
    rest = (torch.full_like(first, word) for word in counter[1:])
    w0, w1, _, _ = philox((first, *rest), (torch.full_like(first, key), chains.unsqueeze(1)))  # type: ignore[arg-type]
    return ((w0 >> 6 << 26 | w1 >> 6).double() + 0.5) * 2.0**-52


@runtime_checkable
class Randomness(Protocol):
    """Random choices of a kernel. `rows` are the rows of the state that a choice is for; each has its own stream.

    Answers are on the device of `rows`.
    """

    def tokens(self, rows: Int[Tensor, " m"], conditionals: Conditionals, places: Int[Tensor, " m"] | None = None) -> Drawn:
        """A token from each of the conditionals; `places` distinguish several of one row."""
        ...

    def categorical(self, rows: Int[Tensor, " m"], log_weights: Float[Tensor, "m V"]) -> Int[Tensor, " m"]:
        """One index for each row, with probability proportional to exp(log_weights)."""
        ...

    def log_uniform(self, rows: Int[Tensor, " m"], places: Int[Tensor, " m"] | None = None) -> Float[Tensor, " m"]:
        """log u, u uniform on (0, 1), for each row; `places` distinguish several of one row."""
        ...

    def permutation(self, rows: Int[Tensor, " m"], n: int) -> Int[Tensor, "m n"]:
        """A uniformly random order of n things for each row."""
        ...

    def integers(self, rows: Int[Tensor, " m"], n: int) -> Int[Tensor, " m"]:
        """A uniformly random number below n for each row."""
        ...


class StepStreams:
    """The streams of the chains `chains` at one place of the run; satisfies `Randomness`."""

    def __init__(self, seed: int, chains: Int[Tensor, " r"], sweep: int, step: int) -> None:
        self.seed, self.chains, self.sweep, self.step = seed, chains, sweep, step
        self.calls = 0

    def uniform(self, rows: Int[Tensor, " m"], places: Int[Tensor, "#m p"]) -> Float[Tensor, "m p"]:
        """A number on (0, 1) for each row and place; the next call of the step."""
        self.calls += 1
        chains = self.chains.to(rows.device)[rows]
        return uniform(self.seed, chains, self.sweep, self.step, self.calls - 1, places)

    def tokens(self, rows: Int[Tensor, " m"], conditionals: Conditionals, places: Int[Tensor, " m"] | None = None) -> Drawn:
        return conditionals.draw(self._one(rows, places))

    def categorical(self, rows: Int[Tensor, " m"], log_weights: Float[Tensor, "m V"]) -> Int[Tensor, " m"]:
        return Conditionals.weights(log_weights).draw(self._one(rows)).tokens

    def log_uniform(self, rows: Int[Tensor, " m"], places: Int[Tensor, " m"] | None = None) -> Float[Tensor, " m"]:
        return self._one(rows, places).log()

    def permutation(self, rows: Int[Tensor, " m"], n: int) -> Int[Tensor, "m n"]:
        return self.uniform(rows, torch.arange(n, device=rows.device).unsqueeze(0)).argsort(dim=1, stable=True)

    def integers(self, rows: Int[Tensor, " m"], n: int) -> Int[Tensor, " m"]:
        return (self._one(rows) * n).long()

    def _one(self, rows: Int[Tensor, " m"], places: Int[Tensor, " m"] | None = None) -> Float[Tensor, " m"]:
        where = torch.zeros((1, 1), dtype=torch.long, device=rows.device) if places is None else places.unsqueeze(1)
        return self.uniform(rows, where).squeeze(1)


class ChainStreams:
    """The streams of the chains `chains` (their numbers in the whole run) under one seed."""

    def __init__(self, seed: int, chains: Sequence[int], device: torch.device | str = "cpu") -> None:
        self.seed, self.chains = seed, torch.tensor(list(chains), dtype=torch.long, device=device)

    def at(self, sweep: int, step: int) -> StepStreams:
        """Fresh streams for one step of one sweep; the same whenever they are asked for."""
        return StepStreams(self.seed, self.chains, sweep, step)
