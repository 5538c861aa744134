"""Philox 4x32-10 (Salmon et al. 2011): random bits as a keyed bijection of a counter, without a state to carry along.

    key       (seed mod 2^32, chain)
    counter   (place + 2^20 (call mod 2^12),  step + 2^20 (call div 2^12),  sweep,  seed div 2^32)

    chain, sweep, step   whose choice it is, and where in the run
    call, place          which choice of the step, and which of several numbers that one choice needs

No two choices of a run share a counter. The first two words w_0, w_1 of the four that come out make one uniform number,

    u = (2^26 (w_0 div 2^6) + w_1 div 2^6 + 1/2) / 2^52,    exact in float64, never 0 or 1.

The same integers on every device: plain torch here, one launch (`triton_programs`) on a GPU, tested equal bit by bit.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

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
