"""Decoders with a law: positions are chosen from the revealed tokens alone, and only then are their tokens drawn.

    pass t:  K_t = choose(S_t, x_{S_t});   x_i ~ q(. | x_{S_t}) for i in K_t, independently;   S_{t+1} = S_t + K_t
    law(x) = prod_t prod_{i in K_t} q(x_i | x_{S_t}),   K_t found by revealing x itself

The law sums to 1 over all texts (induction on the last pass), whatever the conditionals are, and costs as many passes as
decoding. q runs over the allowed tokens, at the decoding temperature. Where `choose` follows a random order, this is the law
given the order. At temperature 0 the law is a point mass on one text, which is not a score. A decoder that looks at the tokens it
drew before it keeps them (mask-predict, confidence) has no such law: the same product does not sum to 1.

`choose` sees entropies and confidences of the model's own conditionals over the allowed tokens, at temperature 1.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.errors import InputError
from unmask.sampling.decoders.decoder import Decoder, DecodeState, StepwiseDecoder
from unmask.sampling.engine.randomness import Randomness
from unmask.sampling.engine.token_draw import Conditionals, Drawn
from unmask.sampling.kernels.kernel import refuse_nan

Tokens = Callable[[Tensor, Conditionals, Tensor], Drawn]
"""From texts (m), their conditionals and sites (m) to a token of each and its numbers."""


class Seen(NamedTuple):
    """All that a choice of positions may depend on.

    ids          token ids, the mask token where blank
    blank        which sites are blank
    entropy      of each site's conditional, in nats; 0 where it is revealed
    confidence   the largest probability of each site's conditional; 1 where it is revealed
    order        a random order of the sites, for decoders that draw one
    step         passes made before this one
    left         passes left, this one included; None if their number is not given
    """

    ids: Int[Tensor, "n T"]
    blank: Bool[Tensor, "n F"]
    entropy: Float[Tensor, "n F"]
    confidence: Float[Tensor, "n F"]
    order: Int[Tensor, "n F"]
    step: int
    left: int | None

    @property
    def share(self) -> Int[Tensor, "n 1"]:
        """How many blanks of each text are filled now if the passes that are left take equal numbers of them."""
        count = self.blank.sum(1, keepdim=True)
        return count if self.left is None else -(-count // self.left)


class Law(NamedTuple):
    """The law of n texts, in nats; its sum over sites is the log-probability of a text.

    log_q     log q(x_i | x_S) of each site, S what was revealed before the pass that revealed it
    special   by how many nats log_q is lower with q over the whole vocabulary, at temperature 1
    passes    how many passes each text took
    steps     the pass in which each site was revealed, from 0
    entropy   of the model's own conditional at each site: the mean of -log_q at temperature 1 if the model is right
    """

    log_q: Float[Tensor, "n F"]
    special: Float[Tensor, "n F"]
    passes: Int[Tensor, " n"]
    steps: Int[Tensor, "n F"]
    entropy: Float[Tensor, "n F"]

    @classmethod
    def unknown(cls, state: DecodeState) -> Law:
        """All zeros, before anything is revealed."""
        zeros = torch.zeros_like(state.confidence)
        return cls(zeros, zeros.clone(), torch.zeros_like(state.rows), torch.zeros_like(state.order), zeros.clone())


@dataclass(frozen=True)
class RevealingDecoder(StepwiseDecoder):
    """A decoder with a law; see above. A step is a pass."""

    @abstractmethod
    def choose(self, seen: Seen) -> Bool[Tensor, "n F"]:
        """The sites that are filled next: some blank ones of every text that has any."""

    @property
    def exact(self) -> bool:
        """False at temperature 0, where the law is a point mass."""
        return self.decoding_temperature > 0

    @property
    def steps(self) -> int:
        """Every pass fills at least one blank."""
        return min(self.target.sites, self.decoding_steps or self.target.sites)

    def step(self, state: DecodeState, rng: Randomness) -> Int[Tensor, " n"]:
        """Choose sites and draw their tokens; one pass for each text that has blanks."""
        found = Law.unknown(state)
        self.reveal(state, rng.tokens, found)
        return found.passes

    def reveal(self, state: DecodeState, tokens: Tokens, found: Law) -> None:
        """One pass: choose sites, fill them with `tokens`, and write their part of the law into `found`."""
        target, sites = self.target, self.target.sites
        blank = self.blank(state)
        texts = blank.any(1).nonzero().squeeze(1)
        state.steps += 1
        if not len(texts):
            return
        ids, here = state.ids[texts], blank[texts]
        kept = self.passes.conditionals(ids, target.free_positions.expand(len(texts), -1)).flatten(0, 1)
        entropy, confidence = torch.zeros_like(found.entropy[texts]), torch.ones_like(found.entropy[texts])
        row, site = here.nonzero().unbind(1)
        numbers = self.conditionals(kept[row * sites + site], site).certainty()
        entropy[row, site], confidence[row, site] = numbers.nan_to_num(0.0)  # NaN: filled now, refused at the end
        left = None if self.decoding_steps is None else self.steps - state.steps + 1
        seen = Seen(ids, here, entropy, confidence, state.order[texts], state.steps - 1, left)
        before = self.passes.count
        chosen = here if left == 1 else here & self.choose(seen)
        found.passes[texts] += 1 + (self.passes.count - before) // len(texts)
        row, site = chosen.nonzero().unbind(1)
        text = texts[row]
        drawn = tokens(text, self.conditionals(kept[row * sites + site], site), site)
        state.write(target, text, site, drawn)
        log_q = torch.zeros_like(found.log_q)
        log_q[text, site] = drawn.log_density
        state.log_prob = state.log_prob + log_q.sum(1)
        found.log_q[text, site], found.special[text, site] = drawn.log_density, drawn.log_all - drawn.log_allowed
        found.steps[text, site], found.entropy[text, site] = torch.full_like(text, state.steps - 1), entropy[row, site]


def law(decoder: Decoder, ids: Int[Tensor, "n T"], rng: Randomness) -> Law:
    """The log-probability with which a decoder draws given texts, pass by pass; `rng` draws random orders, if there are any."""
    if not isinstance(decoder, RevealingDecoder):
        raise InputError(
            f"decoder {type(decoder).__name__} has no law: it looks at tokens that it drew before it keeps them, or its "
            "probability is not known; take one that chooses its positions first"
        )
    if not decoder.exact:
        raise InputError("decoding_temperature 0 takes the likeliest tokens, and its law is one text: give a number above 0")
    target = decoder.target
    target.check(ids)
    state = decoder.init(len(ids), rng)
    state.ids[:, target.given] = ids[:, target.given]
    tokens = ids[:, target.free_positions]
    found = Law.unknown(state)

    def given(texts: Tensor, conditionals: Conditionals, site: Tensor) -> Drawn:
        return conditionals.at(tokens[texts, site])

    for _ in range(decoder.steps):
        decoder.reveal(state, given, found)
    refuse_nan(state.confidence)
    return found
