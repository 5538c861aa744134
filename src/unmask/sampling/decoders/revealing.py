"""Decoders with a law: positions are chosen from the revealed tokens alone, and only then are
their tokens drawn.

    pass t:  K_t = choose(S_t, x_{S_t});   x_i ~ q(. | x_{S_t}) for i in K_t, independently;
             S_{t+1} = S_t + K_t
    law(x) = prod_t prod_{i in K_t} q(x_i | x_{S_t}),   K_t found by revealing x itself

The law sums to 1 over all texts (induction on the last pass), whatever the conditionals are,
and costs as many passes as decoding. q runs over the allowed tokens, at the decoder's
temperature. Where `choose` follows a random order, this is the law given the order. At
temperature 0 the law is a point mass on one text, which is not a score. A decoder that looks at
the tokens it drew before it keeps them (mask-predict, confidence) has no such law: the same
product does not sum to 1.

`choose` sees entropies of the model's own conditionals over the allowed tokens, at temperature 1.

Entropy-bound unmasking fills the blanks of lowest entropy, as many as can hardly depend on each
other:

    H_1 <= H_2 <= ... entropies of the blanks' conditionals;   fill 1 ... m, the largest m with
            sum_{i<=m} H_i - H_m <= gamma

Drawing m tokens from the product of their conditionals loses their total correlation, TC <=
sum_i H_i - max_i H_i: each step loses at most gamma nats. gamma = 0 fills one blank per step,
the one of lowest entropy (and with it those that are certain). Given a number of passes, each
pass takes the smallest gamma with which the passes that are left suffice if entropies stay as
they are.

Interleaving fills every m-th blank at once, m the number of passes, and does not use the model:

    pass r = 0 ... m-1 fills the sites i with  i mod m = o_r,
            o: the numbers 0 ... m-1 in the order of their reversed bits

For m a power of two, every site that is left after half of the passes has revealed neighbours
on both sides (at the ends: on one).

Least dependent next fills blanks together that hardly depend on each other:

    I_ij   dependence of two blanks: by the model's profile (`unmask.tables.profile`)

With a bound: begin with the blank of the largest sum of I, and add the blank with the smallest
next term

    min(H_i, sum of I_ij over the blanks j taken)     while the terms sum to gamma at most.

The sum estimates the total correlation that one pass loses; it is not a bound. gamma = 0 gives
one blank per pass unless I is 0.

With a number of passes r: plan all of them, fill one set of the plan, and plan again after the
pass. The plan parts the blanks into r sets of equal size, so that no pass is left with blanks
that depend on each other: blanks in the order of their sums of I, largest first, each into the
set with room where FALL^k times its term is smallest, k = 0 ... r-1 the number of the set. The
set with the blank of lowest entropy is filled first.

Sets that are verified (`unmask.sampling.decoders.verified`) lose nothing by dependence and need
no plan: each begins with the surest blank and goes on with those that depend least on it. Their
order loses less than that of the plan's sets.

Without a profile the blanks are interleaved.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.common.errors import InputError, UnmaskWarning
from unmask.sampling import registry
from unmask.sampling.decoders.decoder import Decoder, DecodeState, lowest
from unmask.sampling.engine.randomness import Number, Randomness
from unmask.sampling.engine.token_draw import Categoricals, Drawn
from unmask.sampling.kernels.kernel import refuse_nan
from unmask.tables.profile import MEASURE, Profile

PARTS, ROUNDS = 32, 4
"""Of the search for the least bound."""
USUAL_PASSES, FALL = 10, 0.85
"""Of least dependent next: passes without a profile, and the weight by which a plan prefers
later sets.
"""
TIES = 64
"""How much more dependence counts than entropy in sets that are verified."""
Tokens = Callable[[Tensor, Categoricals, Tensor], Drawn]
"""From texts (m), their distributions and sites (m) to a token of each and its
log-probabilities.
"""


class Observed(NamedTuple):
    """All that a choice of positions may depend on.

    ids          token ids, the mask token where blank
    blank        which sites are blank
    entropy      of each site's conditional, in nats; 0 where it is revealed
    order        a random order of the sites, for decoders that draw one
    step         passes made before this one
    passes_left  passes from this one on; None if their number is not given
    """

    ids: Int[Tensor, "n T"]
    blank: Bool[Tensor, "n F"]
    entropy: Float[Tensor, "n F"]
    order: Int[Tensor, "n F"]
    step: int
    passes_left: int | None

    @property
    def share(self) -> Int[Tensor, "n 1"]:
        """How many blanks of each text are filled now if the passes that are left take equal
        numbers of them.
        """
        count = self.blank.sum(1, keepdim=True)
        return count if self.passes_left is None else -(-count // self.passes_left)


class Law(NamedTuple):
    """The law of n texts, in nats; its sum over sites is the log-probability of a text.

    log_q     log q(x_i | x_S) of each site, S what was revealed before the pass that revealed it
    passes    how many passes each text took
    steps     the pass in which each site was revealed, from 0
    entropy   of the model's own conditional at each site: the mean of -log_q at temperature 1
              if the model is right
    """

    log_q: Float[Tensor, "n F"]
    passes: Int[Tensor, " n"]
    steps: Int[Tensor, "n F"]
    entropy: Float[Tensor, "n F"]

    @classmethod
    def unknown(cls, state: DecodeState) -> Law:
        """A law of zeros, before anything is revealed."""
        zeros = torch.zeros_like(state.confidence)
        return cls(
            zeros, torch.zeros_like(state.rows), torch.zeros_like(state.order), zeros.clone()
        )


@dataclass(frozen=True)
class RevealingDecoder(Decoder):
    """A decoder with a law; see above. A step is a pass."""

    options: Any = registry.InSteps()

    @abstractmethod
    def choose(self, observed: Observed) -> Bool[Tensor, "n F"]:
        """The sites that are filled next: some blank ones of every text that has any."""

    @property
    def exact(self) -> bool:
        """False at temperature 0, where the law is a point mass."""
        return float(self.options.token_temperature) > 0

    @property
    def steps(self) -> int:
        """Every pass fills at least one blank."""
        return min(self.target.sites, self.options.passes or self.target.sites)

    def step(self, state: DecodeState, rng: Randomness) -> tuple[DecodeState, Int[Tensor, " n"]]:
        """Choose sites and draw their tokens; one pass for each text that has blanks."""
        part = Law.unknown(state)
        self.reveal(state, rng.tokens, part)
        return state, part.passes

    def reveal(self, state: DecodeState, tokens: Tokens, part: Law) -> None:
        """One pass: choose sites, fill them with `tokens`, and write their part of the law into
        `part`.
        """
        target, sites = self.target, self.target.sites
        blank = self.blank(state)
        texts = blank.any(1).nonzero().squeeze(1)
        state.steps += 1
        if not len(texts):
            return
        ids, blank_here = state.ids[texts], blank[texts]
        outputs = self.passes.outputs(ids, target.free_positions.expand(len(texts), -1)).flatten(
            0, 1
        )
        entropy = torch.zeros_like(part.entropy[texts])
        row, site = blank_here.nonzero().unbind(1)
        numbers = self.categoricals(outputs[row * sites + site], site).entropy()
        entropy[row, site] = numbers.nan_to_num(0.0)  # NaN: filled now, refused at the end
        passes_left = None if self.options.passes is None else self.steps - state.steps + 1
        observed = Observed(
            ids, blank_here, entropy, state.order[texts], state.steps - 1, passes_left
        )
        chosen = blank_here if passes_left == 1 else blank_here & self.choose(observed)
        part.passes[texts] += 1
        row, site = chosen.nonzero().unbind(1)
        text = texts[row]
        drawn = tokens(text, self.categoricals(outputs[row * sites + site], site), site)
        state.write(target, text, site, drawn)
        log_q = torch.zeros_like(part.log_q)
        log_q[text, site] = drawn.log_density
        state.log_prob = state.log_prob + log_q.sum(1)
        part.log_q[text, site] = drawn.log_density
        part.steps[text, site], part.entropy[text, site] = (
            torch.full_like(text, state.steps - 1),
            entropy[row, site],
        )


def law(decoder: RevealingDecoder, ids: Int[Tensor, "n T"], rng: Randomness) -> Law:
    """The log-probability with which a decoder draws given texts, pass by pass; `rng` draws
    random orders, if there are any.
    """
    if not decoder.exact:
        raise InputError(
            "0 takes the likeliest tokens, and its law is one text",
            argument="temperature",
            use="give a number above 0",
        )
    target = decoder.target
    target.check(ids)
    state = decoder.init(len(ids), rng)
    state.ids[:, target.given] = ids[:, target.given]
    tokens = ids[:, target.free_positions]
    whole = Law.unknown(state)

    def known_tokens(texts: Tensor, distributions: Categoricals, site: Tensor) -> Drawn:
        return distributions.at(tokens[texts, site])

    for _ in range(decoder.steps):
        decoder.reveal(state, known_tokens, whole)
    refuse_nan(state.confidence)
    return whole


@dataclass(frozen=True)
class EntropyBound(RevealingDecoder):
    """As many steps as the bound needs, at most one per blank."""

    options: registry.EntropyBound = registry.EntropyBound()

    def choose(self, observed: Observed) -> Bool[Tensor, "n F"]:
        entropy = torch.where(observed.blank, observed.entropy, torch.inf)
        if observed.passes_left is None:
            return under_bound(entropy, torch.full_like(entropy[:, :1], self.options.limit))
        return under_bound(entropy, least_bound(entropy, observed.passes_left))


@dataclass(frozen=True)
class LowestEntropy(RevealingDecoder):
    """The blanks of lowest entropy; passes take equal numbers of them.

    They are often neighbours of revealed tokens and of each other, so they depend on each other
    more than blanks of random sets. With one blank per pass this is the best order that is
    known without looking ahead.
    """

    options: registry.LowestEntropy = registry.LowestEntropy()

    def choose(self, observed: Observed) -> Bool[Tensor, "n F"]:
        return lowest(observed.entropy, observed.blank, observed.share)


@dataclass(frozen=True)
class RandomSets(RevealingDecoder):
    """Equal numbers of blanks, in a random order that is drawn for each text before it begins;
    its law is given the order.
    """

    options: registry.RandomSets = registry.RandomSets()

    def init(self, n: Number, rng: Randomness) -> DecodeState:
        """n blank texts and their orders."""
        state = super().init(n, rng)
        state.order = rng.permutation(state.rows, self.target.sites)
        return state

    def choose(self, observed: Observed) -> Bool[Tensor, "n F"]:
        return lowest(observed.order.argsort(1).double(), observed.blank, observed.share)


@dataclass(frozen=True)
class Interleaved(RevealingDecoder):
    """Sites of one offset at a time."""

    options: registry.Interleaved = registry.Interleaved()

    def choose(self, observed: Observed) -> Bool[Tensor, "n F"]:
        return observed.blank & every_nth(self.target.sites, self.steps, observed.step).to(
            observed.blank.device
        )


@dataclass(frozen=True)
class LeastDependent(RevealingDecoder):
    """Sets of blanks with little dependence."""

    options: registry.LeastDependent = registry.LeastDependent()

    def __post_init__(self) -> None:
        if self.options.profile is not None:
            self.options.profile.check(self.target.model)
        if self._profile is None:
            warnings.warn(
                f"{self.target.model.name} has no dependence profile: blanks are interleaved;"
                f" {MEASURE}",
                UnmaskWarning,
                stacklevel=3,
            )

    @cached_property
    def _profile(self) -> Profile | None:
        return self.options.profile or Profile.of(self.target.model)

    @property
    def steps(self) -> int:
        if self._profile is None and self.options.passes is None:
            return min(self.target.sites, USUAL_PASSES)
        return super().steps

    def choose(self, observed: Observed) -> Bool[Tensor, "n F"]:
        if self._profile is None:
            return observed.blank & every_nth(self.target.sites, self.steps, observed.step).to(
                observed.blank.device
            )
        information = self._profile.estimate(
            observed.entropy, self.target.free_positions.to(observed.entropy.device)
        )
        if observed.passes_left is None:
            return set_under_bound(
                observed.entropy, observed.blank, information, self.options.limit
            )
        return first_of_plan(observed.entropy, observed.blank, information, observed.passes_left)

    def ranked(self, observed: Observed) -> Int[Tensor, "n F"]:
        """The place of each site in the next set that is verified, which loses nothing by
        dependence; the number of sites outside it. First is the surest blank, then those that
        depend least on it; without a profile, the lowest entropy is first.
        """
        if self._profile is None:
            chosen = observed.blank if observed.passes_left == 1 else self.choose(observed)
            ranks = (
                torch.where(chosen, observed.entropy, torch.inf)
                .argsort(dim=1, stable=True)
                .argsort(dim=1)
            )
            return torch.where(chosen, ranks, chosen.shape[1])
        information = self._profile.estimate(
            observed.entropy, self.target.free_positions.to(observed.entropy.device)
        )
        return surest_and_least_dependent(
            observed.entropy, observed.blank, information, observed.share
        )


def under_bound(entropy: Float[Tensor, "n F"], gamma: Float[Tensor, "n 1"]) -> Bool[Tensor, "n F"]:
    """The largest set of lowest entropies whose sum without its largest is at most gamma;
    infinite ones are never in it.
    """
    rising, order = entropy.sort(dim=1, stable=True)
    before = (
        rising.cumsum(1).roll(1, 1).index_fill(1, torch.tensor([0], device=entropy.device), 0.0)
    )
    return torch.zeros_like(entropy, dtype=torch.bool).scatter(
        1, order, (before <= gamma) & rising.isfinite()
    )


def least_bound(entropy: Float[Tensor, "n F"], passes: int) -> Float[Tensor, "n 1"]:
    """The smallest gamma, to one part in a million, that parts the finite entropies into at
    most this many sets.

    Each round tries PARTS values between the bounds at once.
    """
    rising = entropy.sort(dim=1).values
    finite = rising.isfinite()
    low = torch.zeros_like(rising[:, :1])
    high = torch.where(finite, rising, 0.0).sum(1, keepdim=True)
    shares = torch.arange(1, PARTS, dtype=rising.dtype, device=rising.device) / PARTS
    for _ in range(ROUNDS):
        tried = torch.cat(
            [low + (high - low) * shares, high], 1
        )  # `high` itself, which fits, not rounded
        first = (_sets(rising, finite, tried) <= passes).byte().argmax(1, keepdim=True)
        low, high = (
            torch.where(first > 0, tried.gather(1, (first - 1).clamp(min=0)), low),
            tried.gather(1, first),
        )
    return high


def _sets(
    rising: Float[Tensor, "n F"], finite: Bool[Tensor, "n F"], gamma: Float[Tensor, "n g"]
) -> Float[Tensor, "n g"]:
    """Into how many sets each bound parts the entropies, lowest first."""
    spent, sets = torch.full_like(gamma, torch.inf), torch.zeros_like(gamma)
    for column in range(rising.shape[1]):
        new = (spent > gamma) & finite[:, column : column + 1]
        sets = sets + new
        spent = torch.where(new, 0.0, spent) + rising[:, column : column + 1]
    return sets


def every_nth(sites: int, passes: int, step: int) -> Bool[Tensor, " F"]:
    """The sites that pass `step` of `passes` fills."""
    return torch.arange(sites) % passes == offsets(passes)[step]


def offsets(passes: int) -> list[int]:
    """0 ... passes - 1 in the order of their reversed bits, each written with as many bits as
    passes - 1 has.
    """
    bits = (passes - 1).bit_length()
    reversed_bits = (int(f"{r:0{bits}b}"[::-1], 2) if bits else 0 for r in range(2**bits))
    return [offset for offset in reversed_bits if offset < passes]


def set_under_bound(
    entropy: Float[Tensor, "n F"],
    blank: Bool[Tensor, "n F"],
    information: Float[Tensor, "n F F"],
    gamma: float,
) -> Bool[Tensor, "n F"]:
    """Blank sites of each text, least dependent next, while the terms sum to gamma at most."""
    rows = torch.arange(len(entropy), device=entropy.device)
    free, chosen, near = blank.clone(), torch.zeros_like(blank), torch.zeros_like(entropy)
    site = torch.where(free, (information * free.unsqueeze(1)).sum(2), -torch.inf).argmax(1)
    going, spent = free.any(1), torch.zeros_like(entropy[:, 0])
    while bool(going.any()):
        chosen[rows, site] |= going
        free[rows, site] = False
        near = near + information[rows, :, site]
        term, site = torch.where(free, torch.minimum(entropy, near), torch.inf).min(1)
        spent = spent + term
        going = going & (spent <= gamma)
    return chosen


def surest_and_least_dependent(
    entropy: Float[Tensor, "n F"],
    blank: Bool[Tensor, "n F"],
    information: Float[Tensor, "n F F"],
    size: Int[Tensor, "n 1"],
) -> Int[Tensor, "n F"]:
    """The place of each blank in a set K of `size` blanks; the number of sites outside it.

    Next is the blank i of least H_i + TIES min(H_i, sum_{j in K} I_ij): of those that hardly
    depend on K, the surest.
    """
    rows, free = torch.arange(len(entropy), device=entropy.device), blank.clone()
    near, places = (
        torch.zeros_like(entropy),
        torch.full_like(blank, blank.shape[1], dtype=torch.long),
    )
    for place in range(int(size.max())):
        cost = torch.where(free, entropy + TIES * torch.minimum(near, entropy), torch.inf)
        site = cost.argmin(1)
        places[rows, site] = torch.where(size[:, 0] > place, place, places[rows, site])
        free[rows, site] = False
        near = near + information[rows, :, site]
    return places


def first_of_plan(
    entropy: Float[Tensor, "n F"],
    blank: Bool[Tensor, "n F"],
    information: Float[Tensor, "n F F"],
    passes: int,
) -> Bool[Tensor, "n F"]:
    """The set that a plan of `passes` sets fills first; sizes are equal, or larger by 1 in
    later sets.
    """
    sums = torch.where(blank, (information * blank.unsqueeze(1)).sum(2), -torch.inf)
    order = sums.argsort(dim=1, descending=True, stable=True)
    across = order.unsqueeze(1).expand_as(information)
    information, ordered = (
        information.gather(1, across.mT).gather(2, across),
        entropy.gather(1, order),
    )
    sets = torch.arange(passes, device=blank.device)
    count = blank.sum(1, keepdim=True)
    room, weight = (count + sets) // passes, FALL ** sets.double()
    near = torch.zeros((*room.shape, blank.shape[1]), dtype=entropy.dtype, device=blank.device)
    places, one_less = torch.zeros_like(order), torch.full_like(count, -1)
    for place in range(int(count.max())):  # blanks come first in the order
        term = torch.minimum(near[:, :, place], ordered[:, place : place + 1]) * weight
        chosen = term.masked_fill_(room <= 0, torch.inf).argmin(1, keepdim=True)
        room.scatter_add_(1, chosen, one_less)
        near.scatter_add_(
            1, chosen.unsqueeze(2).expand(-1, -1, near.shape[2]), information[:, place : place + 1]
        )
        places[:, place : place + 1] = chosen
    number = torch.zeros_like(order).scatter(1, order, places)
    first = torch.where(blank, entropy, torch.inf).argmin(1, keepdim=True)
    return blank & (number == number.gather(1, first))
