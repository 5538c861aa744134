"""Random choices as an argument: a counter-based stream for each chain, sweep and step.

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

No two choices of a run share a counter, as long as places and steps are below 2^20. The first two
words w_0, w_1 of the four that come out make one uniform number,

    u = (2^26 (w_0 div 2^6) + w_1 div 2^6 + 1/2) / 2^52,    exact in float64, never 0 or 1.

The same integers on every device: plain torch here, one launch (`triton_programs`) on a GPU,
tested equal bit by bit. `token_draw` has what one uniform number draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import torch
from annotated_types import Interval
from jaxtyping import Float, Int
from torch import Tensor

from unmask.common.border.calls import checked
from unmask.runs.devices import resolve_device
from unmask.sampling.engine.token_draw import Categoricals, Drawn

# Philox: the rounds, multipliers and additions to the key are those of the paper.
ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)  # Added to the key after each round
WORD = 0xFFFFFFFF  # The largest word, and the mask of the low 32 bits
PLACE_BITS = 20  # Low bits of the first word, which hold the place
CALL_BITS = 12  # The bits above them, which hold the low part of the call
Seed = Annotated[int, Interval(ge=0, lt=2**63)]
Number = Annotated[int, Interval(ge=0, le=WORD)]
Words = tuple[Int[Tensor, "..."], Int[Tensor, "..."], Int[Tensor, "..."], Int[Tensor, "..."]]


def philox(counter: Words, key: tuple[Tensor, Tensor]) -> Words:
    """Four random words for each counter; words are int64 numbers below 2^32."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        # Products may wrap around to negative numbers. Their 64 bits are right, and the mask
        # drops the copies of the sign that a shift brings in.
        product0 = c0 * MULTIPLIERS[0]
        product2 = c2 * MULTIPLIERS[1]
        c0 = ((product2 >> 32) & WORD) ^ c1 ^ k0
        c1 = product2 & WORD
        c2 = ((product0 >> 32) & WORD) ^ c3 ^ k1
        c3 = product0 & WORD
        k0 = (k0 + WEYL[0]) & WORD
        k1 = (k1 + WEYL[1]) & WORD
    return c0, c1, c2, c3


def counter_words(seed: int, sweep: int, step: int, call: int) -> tuple[int, int, int, int, int]:
    """The words that all chains and places share: the key's first word, and the counter at
    place 0.
    """
    call_low = call & ((1 << CALL_BITS) - 1)
    call_high = call >> CALL_BITS
    return (
        seed & WORD,
        call_low << PLACE_BITS,
        step + (call_high << PLACE_BITS),
        sweep,
        seed >> 32,
    )


def plain_uniform(
    words: tuple[int, int, int, int, int], chains: Int[Tensor, " m"], places: Int[Tensor, "#m p"]
) -> Float[Tensor, "m p"]:
    """A uniform number on (0, 1) for each chain and place, by plain integer arithmetic, on any
    device; `words` are those of `counter_words`.
    """
    seed_low, place0, step, sweep, seed_high = words
    place = places + place0
    counter = (
        place,
        torch.full_like(place, step),
        torch.full_like(place, sweep),
        torch.full_like(place, seed_high),
    )
    key = (torch.full_like(place, seed_low), chains.unsqueeze(1))
    w0, w1, _, _ = philox(counter, key)
    bits = ((w0 >> 6) << 26) | (w1 >> 6)
    return (bits.double() + 0.5) * 2.0**-52


class Randomness:
    """Random choices of a kernel at one place of the run, from the streams of the chains `chains`.

    `rows` are the rows of the state that a choice is for; each has its own stream. Answers are
    on the device of `rows`.

    calls   choices that were made so far
    """

    GIVEN_AS = "streams.at(sweep, step)"  # how a message calls one

    def __init__(self, seed: int, chains: Int[Tensor, " r"], sweep: int, step: int) -> None:
        self.seed = seed
        self.chains = chains
        self.sweep = sweep
        self.step = step
        self.calls: int = 0

    def uniform(self, rows: Int[Tensor, " m"], places: Int[Tensor, "#m p"]) -> Float[Tensor, "m p"]:
        """A number on (0, 1) for each row and place, in float64; the next call of the step."""
        words = counter_words(self.seed, self.sweep, self.step, self.calls)
        chains = self.chains.to(rows.device)[rows]
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
        return distributions.draw(self._one_uniform(rows, places))

    def categorical(
        self, rows: Int[Tensor, " m"], log_weights: Float[Tensor, "m V"]
    ) -> Int[Tensor, " m"]:
        """One index for each row, with probability proportional to exp(log_weights)."""
        return Categoricals.weights(log_weights).draw(self._one_uniform(rows)).tokens

    def log_uniform(self, rows: Int[Tensor, " m"]) -> Float[Tensor, " m"]:
        """log u, u uniform on (0, 1), for each row."""
        return self._one_uniform(rows).log()

    def permutation(self, rows: Int[Tensor, " m"], n: int) -> Int[Tensor, "m n"]:
        """A uniformly random order of n things for each row."""
        places = torch.arange(n, device=rows.device).unsqueeze(0)
        return self.uniform(rows, places).argsort(dim=1, stable=True)

    def integers(self, rows: Int[Tensor, " m"], n: int) -> Int[Tensor, " m"]:
        """A uniformly random number below n for each row."""
        u = self._one_uniform(rows)  # at most 1 - 2^-53: u n is below n when it is rounded, too
        return (u * n).long()

    def _one_uniform(
        self, rows: Int[Tensor, " m"], places: Int[Tensor, " m"] | None = None
    ) -> Float[Tensor, " m"]:
        """A number on (0, 1) for each row, at its place, by default 0."""
        if places is None:
            column = torch.zeros((1, 1), dtype=torch.long, device=rows.device)
        else:
            column = places.unsqueeze(1)
        return self.uniform(rows, column).squeeze(1)


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
        self._set(seed, chains, resolve_device(device))

    def _set(self, seed: int, chains: Sequence[int], device: torch.device) -> None:
        self.seed = seed
        self.chains: Tensor = torch.tensor(list(chains), dtype=torch.long, device=device)

    @checked
    def at(self, sweep: Number, step: Number) -> Randomness:
        """The random numbers of one step of one sweep; the same at every call."""
        return self.of(sweep, step)

    def of(self, sweep: int, step: int) -> Randomness:
        """`at` for numbers that this process made itself."""
        return Randomness(seed=self.seed, chains=self.chains, sweep=sweep, step=step)


def streams_of(seed: int, chains: Sequence[int], device: torch.device) -> ChainStreams:
    """`ChainStreams` of numbers that this process made itself, which nothing checks again."""
    streams = object.__new__(ChainStreams)
    streams._set(seed, chains, device)
    return streams
