"""The lattice of revealed sets: a text's probability by the chain rule, over all orders of its
sites at once.

For sites 1..k and a text x, q(x_i | x_S) is the model's probability of x_i with the sites of S
revealed and all others masked. An order o of the sites gives the probability p_o(x) = prod_t
q(x_{o_t} | x_{o_<t}). Their mean over all k! orders,

    p(x) = G(all),   G(S) = 1/|S| sum_{i in S} G(S - i) q(x_i | x_{S - i}),   G(empty) = 1,

is a probability over the V^k texts too, exact in 2^k - 1 passes. The same recursion with the
mean of logarithms gives the mean of log p_o, a lower bound of log p. Beyond MOST_SITES orders
are sampled: the mean of p_o over sampled orders is unbiased.

An `Exploration` holds the part of the lattice that passes have seen, for all fillings of a text
at once. A state (S, x_S) is a set of revealed sites and their tokens; a pass over it gives q(.
| x_S) at its h hidden sites. The chain rule in a random order moves from state to state: it
picks a hidden site i uniformly, and a token from q. It ends in the filling x with probability
p(x). From the states passed so far:

- flow(S, x_S), the probability of coming there through passed states alone; at a filling, a
  lower bound of p(x). cover is the share of orders that do so, so flow / cover is the mean of
  p_o over the orders known.
- h(S, x_S), no less than the probability of going on from there to any one filling that has not
been set aside:

      h = 1 at a state not passed,   h = 0 at a filling set aside,
              h(S, x_S) = 1/h sum_i max_v q_i(v | x_S) h(S + i, x_S v),

  since p is a mean over the next site of a product, and each factor is replaced by its largest
  value. h(empty) bounds p(x) of every filling not set aside. It is 0 only if all of them are
  impossible: a product that underflows counts as LEAST.
- p(x) itself, once all 2^k - 1 states of x are passed.

Several variants of a text, each with its own blanks (a word of one, two or three tokens) and a
weight, are explored together: a filling's probability is the weight of its variant times p(x).
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import chain as chained
from itertools import islice
from math import exp, log
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from unmask.common.cloze import Cloze
from unmask.common.errors import InputError
from unmask.tables.conditionals import Conditionals

MOST_SITES = 16  # 65,535 passes, and 8 MiB of numbers, per text
PASS = {
    torch.float64: 2.0**-42,
    torch.float32: 2.0**-13,
    torch.float16: 2.0**-6,
    torch.bfloat16: 2.0**-3,
}
"""d, in nats, by the format in which the network computes."""


@dataclass(frozen=True)
class Lattice:
    """log_q[n, S, i] = log q(x_i | x_S) of text n, the set S being a bit mask over the k sites;
    nan where i is in S.
    """

    log_q: Float[Tensor, "n sets k"]

    @property
    def sites(self) -> int:
        return self.log_q.shape[2]

    @cached_property
    def log_mean(self) -> Float[Tensor, " n"]:
        """log p(x), the mean over all orders: a probability over all texts."""
        return self._recursion(lambda terms: terms.logsumexp(2) - log(terms.shape[2]))[:, -1]

    @property
    def mean_log(self) -> Float[Tensor, " n"]:
        """The mean of log p_o(x) over all orders, at most log p(x)."""
        return self._recursion(lambda terms: terms.mean(2))[:, -1]

    def _recursion(self, combine: Callable[[Tensor], Tensor]) -> Tensor:
        """value(S) = combine over i in S of value(S - i) + log q(x_i | x_{S - i}), from
        value(empty) = 0 upwards.
        """
        value = self.log_q.new_zeros(self.log_q.shape[:2])
        for sets, inside, _ in islice(_levels(self.sites, self.log_q.device), 1, None):
            before = sets[:, None] - (1 << inside)
            value[:, sets] = combine(value[:, before] + self.log_q[:, before, inside])
        return value


def lattice(
    conditionals: Conditionals, texts: Int[Tensor, "n T"], sites: Int[Tensor, "n k"]
) -> Lattice:
    """The lattice of each text: (2^k - 1) passes per text, fewer where texts reveal the same
    tokens.

    A row of `texts` holds the ids of a whole text, and the same row of `sites` its k free
    positions. The fillings of one text are the rows of one call, so that they share passes: all
    of them, for example, that with every site masked.
    """
    texts, sites = (numbers.to(conditionals.model.device) for numbers in (texts, sites))
    n, k = sites.shape
    if k > MOST_SITES:
        raise InputError(
            f"{k} sites have {2**k:,} revealed sets, over the limit of {MOST_SITES} sites: sample"
            " orders instead"
        )
    blank = texts.scatter(1, sites, conditionals.model.mask_id)
    distinct = n == 1 or len(blank.unique(dim=0)) == n
    log_q = torch.full((n, 2**k, k), torch.nan, dtype=torch.float64, device=texts.device)
    for sets, _, hidden in islice(_levels(k, texts.device), k):
        positions = sites[:, hidden]
        targets = texts[:, None].expand(-1, len(sets), -1).gather(2, positions)
        rows = (
            texts[:, None]
            .repeat(1, len(sets), 1)
            .scatter_(2, positions, conditionals.model.mask_id)
        )
        values = conditionals.log_q(
            rows.flatten(0, 1), positions.flatten(0, 1), targets.flatten(0, 1), distinct
        )
        log_q[:, sets[:, None], hidden] = values.reshape(positions.shape)
    return Lattice(log_q)


def along_orders(
    conditionals: Conditionals,
    texts: Int[Tensor, "n T"],
    sites: Int[Tensor, "n k"],
    orders: Int[Tensor, "n m k"],
) -> Float[Tensor, "n m"]:
    """log p_o(x) of text n in each of its m orders (site indices 0..k-1): at most m k passes
    per text, for any k.
    """
    texts, sites = (numbers.to(conditionals.model.device) for numbers in (texts, sites))
    n, m, k = orders.shape
    places = sites[:, None].expand(-1, m, -1).gather(2, orders.to(texts.device)).flatten(0, 1)
    filled = texts.repeat_interleave(m, 0)
    rows = filled.scatter(1, places, conditionals.model.mask_id)
    total = torch.zeros(n * m, dtype=torch.float64, device=texts.device)
    for step in range(k):
        place = places[:, step : step + 1]
        value = filled.gather(1, place)
        total += conditionals.log_q(rows, place, value)[:, 0]
        rows = rows.scatter(1, place, value)
    return total.reshape(n, m)


def random_orders(
    texts: int, orders: int, sites: int, generator: torch.Generator
) -> Int[Tensor, "texts orders sites"]:
    """Orders drawn independently and uniformly."""
    return torch.rand((texts, orders, sites), generator=generator, dtype=torch.float64).argsort(2)


def log_mean_of_sampled(
    log_probs: Float[Tensor, "n m"],
) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
    """(log of the mean of p_o over m sampled orders, its standard error in nats).

    The mean is unbiased for p(x); its logarithm lies below log p(x) on average, by about half
    the squared error. To first order the error of a logarithm is the relative error of what it
    is taken of. It is nan for a single order.
    """
    m = log_probs.shape[1]
    total = log_probs.logsumexp(1)
    share = (log_probs - total[:, None]).exp().nan_to_num(nan=1 / m)
    spread = share.std(1) if m > 1 else torch.full_like(total, torch.nan)
    return total - log(m), spread * m**0.5


@lru_cache(maxsize=64)
def revealed_sets(k: int, device: torch.device | None = None) -> Bool[Tensor, "sets k"]:
    """Whether set S, a bit mask, holds site i."""
    return (
        (torch.arange(2**k, device=device)[:, None] >> torch.arange(k, device=device)) & 1
    ).bool()


def _levels(k: int, device: torch.device) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """For sizes s = 0..k: the c sets of that size, and for each the sites (c, s) in it and
    those (c, k - s) hidden from it.
    """
    members = revealed_sets(k, device)
    sizes = members.sum(1)
    for size in range(k + 1):
        sets = (sizes == size).nonzero().flatten()
        inside, hidden = (
            part.nonzero()[:, 1].reshape(len(sets), n)
            for part, n in ((members[sets], size), (~members[sets], k - size))
        )
        yield sets, inside, hidden


@dataclass(frozen=True)
class Rounding:
    """Bounds on the error of a computed log-probability, and ends of an interval that holds the
    exact one.

    A conditional is a pass of the network and a log-softmax. With d the error of a pass in nats
    and u that of the number kept,

        | log q^ - log q |  <=  d + u |log q|
                for every conditional q of the model, q^ as computed.

    An order o of k blanks multiplies k of them, so p_o lies between e^(-kd) p^_o^(1+u) and
    e^(kd) p^_o^(1-u). p is the mean of p_o over the orders, or comes from products by means and
    maxima (the bound on other fillings). x -> x^(1+u) is convex and x -> x^(1-u) concave, both
    rise, and maxima pass through them, so Jensen's inequality gives the same for the result:

        (1 + u) log p^ - k d   <=   log p   <=   (1 - u) log p^ + k d.

    Sums over fillings are sums of these ends. The order of two fillings is certain if their
    intervals do not meet; the mass that is left is 1 minus the sum of lower ends, and is 0 only
    if nothing is left. Double precision, in which p is formed from the q, adds less than 1e-14
    and is far below d.

    No theorem gives d. Passes of one text in batches of other sizes differ by at most 4e-5 nats
    in the bundled model and 3e-5 in another, in float32; d is three times as much or more, and
    in other formats as much more as their digits are fewer.

    factor     d of each of the factors
    relative   u
    """

    factor: float
    relative: float

    @classmethod
    def of(cls, dtype: torch.dtype) -> Rounding:
        """The rounding of a model."""
        return cls(
            PASS.get(dtype, PASS[torch.bfloat16]),
            torch.finfo(torch.promote_types(dtype, torch.float32)).eps,
        )

    def low(self, log_prob: float, factors: int) -> float:
        """No more than the logarithm of the probability itself."""
        return log_prob - self._error(log_prob, factors)

    def high(self, log_prob: float, factors: int) -> float:
        """No less than it, and never above 0."""
        return min(0.0, log_prob + self._error(log_prob, factors))

    def _error(self, log_prob: float, factors: int) -> float:
        return (
            0.0
            if log_prob == float("-inf")
            else self.relative * abs(log_prob) + factors * self.factor
        )


HIDDEN = -1
State = tuple[
    int, ...
]  # The number of the variant, then for each of its sites the token revealed, or HIDDEN
MOST_LISTED = 256
# How many of the likeliest tokens of a hidden site become states of their own: default maximum,
# and minimum
LEAST_LISTED = 8
# Below this flow a state is not listed, at first; it still counts in the bound, and in p(x)
LEAST_FLOW = 1e-6
WIDER = 10  # How many times smaller than the largest flow left out the next least flow is
MOST_STATES = 4_000_000  # States that may be listed beyond the first; each takes about 400 bytes
RELISTED_AT_ONCE = 2**24  # Probabilities that are sorted together when moves are listed again
LEAST = 1e-300  # Stands in the bound for every probability above 0 that is smaller
Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Variant:
    """A text with its blanks, how much it counts, and which tokens each blank may take (None:
    any of the support).

    Tokens that are not allowed keep their probability: p(x) is over the whole support, whatever
    is allowed.
    """

    cloze: Cloze
    weight: float = 1.0
    allowed: tuple[Bool[Tensor, " V"] | None, ...] | None = None

    @property
    def sites(self) -> int:
        return len(self.cloze.block)

    @property
    def log_weight(self) -> float:
        return log(self.weight) if self.weight else float("-inf")


@dataclass
class _Level:
    """The moves out of the passed states with one number of hidden sites, grouped by state and
    site.
    """

    parent: list[NDArray[np.int64]] = field(default_factory=list)
    child: list[NDArray[np.int64]] = field(default_factory=list)
    probability: list[Numbers] = field(default_factory=list)
    group_size: list[NDArray[np.int64]] = field(default_factory=list)
    group_parent: list[NDArray[np.int64]] = field(default_factory=list)
    group_rest: list[Numbers] = field(default_factory=list)

    def joined(self, name: str) -> NDArray[Any]:
        parts: list[NDArray[Any]] = getattr(self, name)
        parts[:] = [np.concatenate(parts)]
        return parts[0]


class Exploration:
    """Passes over states of the variants, and what follows from those made so far."""

    def __init__(
        self,
        conditionals: Conditionals,
        variants: Sequence[Variant],
        listed: int = 0,
        rounding: Rounding | None = None,
    ) -> None:
        self.conditionals = conditionals
        self.rounding = rounding or Rounding.of(conditionals.model.dtype)
        self.most_listed = max(MOST_LISTED, listed)
        self.least_flow = LEAST_FLOW
        self.variants = list(variants)
        self.states: list[State] = []
        self.index: dict[State, int] = {}
        self.hidden = array("b")
        self.passed = bytearray()
        self.bytes = 0
        every = torch.ones(
            conditionals.model.vocab_size, dtype=torch.bool, device=conditionals.model.device
        )
        self._allowed = [
            (
                None
                if v.allowed is None
                else torch.stack(
                    [every if some is None else some.to(every.device) for some in v.allowed]
                )
            )
            for v in self.variants
        ]
        self._rows: dict[int, NDArray[Any]] = {}
        self._levels: dict[int, _Level] = defaultdict(_Level)
        self.roots = [
            self.number((v, *[HIDDEN] * variant.sites)) for v, variant in enumerate(self.variants)
        ]
        self._flow = self._cover = np.zeros(0)
        self._stale = True

    @property
    def flow(self) -> Numbers:
        """The flow into every state."""
        self._refresh()
        return self._flow

    @property
    def cover(self) -> Numbers:
        """The share of orders that lead to every state through passed ones."""
        self._refresh()
        return self._cover

    def reveal(self, states: Sequence[State]) -> None:
        """One pass over each state that was not passed yet."""
        alike: dict[tuple[int, int], list[State]] = defaultdict(list)
        for state in dict.fromkeys(states):
            if not self.passed[self.number(state)]:
                alike[state[0], state.count(HIDDEN)].append(state)
        before = self.flow
        self._stale = True  # also if a pass raises: the states before it are passed
        for (variant, hidden), group in alike.items():
            self._reveal_alike(self.variants[variant], group, hidden, before)

    def missing(self, filling: State) -> list[State]:
        """The states of a filling that have had no pass."""
        return [
            s for s in _states_of(filling) if s not in self.index or not self.passed[self.index[s]]
        ]

    def log_probs(self, fillings: Sequence[State]) -> list[float]:
        """log of weight times p(x) of fillings of one number of sites, all of whose states are
        passed.
        """
        k = len(fillings[0]) - 1
        log_q = np.full((len(fillings), 2**k, k), np.nan)
        hidden = [np.flatnonzero(~row) for row in revealed_sets(k).numpy()]
        for n, filling in enumerate(fillings):
            values = np.array(filling[1:])
            for s, state in enumerate(_states_of(filling)):
                row = self._rows[self.index[state]]
                log_q[n, s, hidden[s]] = row[np.arange(len(row)), values[hidden[s]]]
        log_mean: list[float] = Lattice(torch.from_numpy(log_q)).log_mean.tolist()
        return [
            value + self.variants[f[0]].log_weight
            for f, value in zip(fillings, log_mean, strict=True)
        ]

    def log_product(self, filling: State) -> float:
        """log of weight times the product of the distributions with every blank masked."""
        variant = filling[0]
        row = self._rows[self.roots[variant]]
        return self.variants[variant].log_weight + float(
            row[np.arange(len(row)), np.array(filling[1:])].sum(dtype=np.float64)
        )

    def moves(self, state: State, site: int, most: int) -> list[tuple[float, State]]:
        """The likeliest tokens of a hidden site of a passed state: (log q, the state that
        reveals the token), best first.
        """
        row = self._rows[self.index[state]][state[1 : site + 1].count(HIDDEN)]
        allowed = self._allowed[state[0]]
        if allowed is not None:
            row = np.where(allowed[site].cpu().numpy(), row, -np.inf)
        best = np.argpartition(-row, min(most, len(row) - 1))[:most]
        moves = [
            (float(row[t]), (*state[: site + 1], int(t), *state[site + 2 :]))
            for t in best
            if row[t] > -np.inf
        ]
        return sorted(moves, reverse=True)

    def surest(self, state: State) -> list[int]:
        """The hidden sites of a passed state, that with the likeliest token first."""
        hidden = [site for site, value in enumerate(state[1:]) if value == HIDDEN]
        return sorted(hidden, key=lambda site: -self.moves(state, site, 1)[0][0])

    def reached_by_all(self) -> list[int]:
        """The fillings to which each of the states with one hidden site leads, as far as moves
        are listed.
        """
        if 1 not in self._levels:
            return []
        ways = np.bincount(self._levels[1].joined("child"))
        sites = np.array([variant.sites for variant in self.variants])
        reached = np.flatnonzero((ways > 0) & (self.flow[: len(ways)] > 0))
        return [x for x in reached.tolist() if ways[x] == sites[self.states[x][0]]]

    def bound(self, aside: NDArray[np.int64]) -> float:
        """No filling but those set `aside` (their numbers) has a probability above this,
        whatever was rounded.
        """
        limit = np.ones(len(self.states))
        limit[aside] = 0
        for hidden in sorted(self._levels):
            level = self._levels[hidden]
            sizes, parents = level.joined("group_size"), level.joined("group_parent")
            after = limit[level.joined("child")]
            moves = np.maximum(
                level.joined("probability") * after,
                np.where((level.joined("probability") > 0) & (after > 0), LEAST, 0),
            )
            largest = np.maximum(
                np.maximum.reduceat(moves, np.cumsum(sizes) - sizes), level.joined("group_rest")
            )
            limit[parents] = 0
            np.add.at(limit, parents, np.where(largest > 0, np.maximum(largest / hidden, LEAST), 0))
        limits = zip(self.variants, limit[self.roots].tolist(), strict=True)
        bounds = [
            (variant.log_weight + log(most), variant.sites)
            for variant, most in limits
            if variant.weight > 0 and most > 0
        ]
        return max((max(exp(self.rounding.high(*bound)), LEAST) for bound in bounds), default=0.0)

    def _refresh(self) -> None:
        """Flows after the last passes; a state that was numbered since has no flow."""
        new = len(self.states) - len(self._flow)
        if not self._stale:
            if new:
                self._flow, self._cover = (
                    np.pad(self._flow, (0, new)),
                    np.pad(self._cover, (0, new)),
                )
            return
        self._stale = False
        flow, cover = np.zeros((2, len(self.states)))
        flow[self.roots] = [variant.weight for variant in self.variants]
        cover[self.roots] = 1
        for hidden in sorted(self._levels, reverse=True):
            level = self._levels[hidden]
            parent, child = level.joined("parent"), level.joined("child")
            flow += np.bincount(
                child, flow[parent] * level.joined("probability") / hidden, len(flow)
            )
            cover += np.bincount(child, cover[parent] / hidden, len(cover))
        self._flow, self._cover = flow, cover

    def _reveal_alike(
        self, variant: Variant, states: list[State], hidden: int, flow: Numbers
    ) -> None:
        """Passes over states of one variant with equally many hidden sites."""
        device = self.conditionals.model.device
        values = torch.tensor(states, device=device)[:, 1:]
        places = _hidden_places(states).to(device)
        block = torch.tensor(variant.cloze.block, device=device)
        rows = torch.tensor([variant.cloze.ids], device=device).repeat(len(states), 1)
        rows[:, block] = torch.where(values == HIDDEN, self.conditionals.model.mask_id, values)
        log_q = self.conditionals.distributions(rows, block[places])
        numbers = [self.index[state] for state in states]
        distributions = log_q.cpu().numpy()
        self.bytes += distributions.nbytes
        for number, row in zip(numbers, distributions, strict=True):
            self._rows[number] = row
            self.passed[number] = 1
        allowed_only = self._allowed_only(states[0][0], places, log_q)
        self._list_likeliest(states, places.tolist(), allowed_only, flow[numbers])

    def _allowed_only(
        self, variant: int, places: Int[Tensor, "n h"], log_q: Float[Tensor, "n h V"]
    ) -> Float[Tensor, "n h V"]:
        """log q at the hidden sites `places`, -inf where the variant does not allow a token."""
        allowed = self._allowed[variant]
        if allowed is None:
            return log_q
        return log_q.masked_fill(~allowed[places], -torch.inf)

    def _list_likeliest(
        self,
        states: list[State],
        places: list[list[int]],
        log_q: Float[Tensor, "n h V"],
        flow: Numbers,
    ) -> None:
        """List the moves out of passed states that have at least `least_flow`, and LEAST_LISTED
        at every hidden site.
        """
        hidden, vocabulary = log_q.shape[1:]
        listed = min(self.most_listed, vocabulary)
        top = log_q.topk(listed)
        tokens = top.indices.cpu().numpy()
        probability = _probability(top.values)
        enough = probability * (flow[:, None, None] / hidden) >= self.least_flow
        sizes = np.minimum(np.maximum(enough.sum(2), LEAST_LISTED), listed)
        numbers = [self.index[state] for state in states]
        self._list_moves(states, numbers, places, tokens, probability, sizes)

    def lists_everything(self) -> bool:
        """Whether every move that is possible out of a passed state is listed."""
        return not any((level.joined("group_rest") > 0).any() for level in self._levels.values())

    def widen(self) -> bool:
        """List more moves out of the passed states, without a pass; False if there are too many
        to hold.
        """
        listed_before = self._moves_listed()
        while self._moves_listed() == listed_before and not self.lists_everything():
            if not self._list_again():
                return False
            if self._moves_listed() == listed_before:
                # A site with `most_listed` moves knows of the others only that none is likelier
                # than its last one. The next one, more than WIDER times less likely, is known
                # itself once the site has one move more.
                self.most_listed += 1
        return True

    def _moves_listed(self) -> int:
        return sum(len(children) for level in self._levels.values() for children in level.child)

    def _list_again(self) -> bool:
        """List the moves again, with a least flow WIDER times below the largest that is left out;
        False if there are too many to hold.
        """
        flow = self.flow
        largest = 0.0  # flow of a move that is not listed
        for hidden, level in self._levels.items():
            left_out = level.joined("group_rest") * flow[level.joined("group_parent")] / hidden
            largest = max(largest, float(left_out.max()))
        least_flow = largest / WIDER
        batches = list(self._passed_batches())
        moves = [self._count_moves(batch, flow, least_flow) for batch in batches]
        if sum(count for count, _ in moves) > MOST_STATES:
            return False
        self.least_flow = least_flow
        self.most_listed = max(self.most_listed, *(most for _, most in moves))
        self._levels = defaultdict(_Level)
        for batch in batches:
            numbers = [self.index[state] for state in batch]
            self._list_likeliest(
                batch, _hidden_places(batch).tolist(), self._log_q_again(batch), flow[numbers]
            )
        self._stale = True
        return True

    def _passed_batches(self) -> Iterator[list[State]]:
        """The passed states, those of one variant with equally many hidden sites together, a
        batch at a time.
        """
        alike: dict[tuple[int, int], list[State]] = defaultdict(list)
        for number in self._rows:
            state = self.states[number]
            alike[state[0], self.hidden[number]].append(state)
        for (_, hidden), group in alike.items():
            size = max(1, RELISTED_AT_ONCE // (hidden * self.conditionals.model.vocab_size))
            for start in range(0, len(group), size):
                yield group[start : start + size]

    def _log_q_again(self, states: list[State]) -> Float[Tensor, "n h V"]:
        """The kept distributions of passed states of one variant with equally many hidden sites."""
        rows = np.stack([self._rows[self.index[state]] for state in states])
        log_q = torch.from_numpy(rows).to(self.conditionals.model.device)
        return self._allowed_only(states[0][0], _hidden_places(states).to(log_q.device), log_q)

    def _count_moves(
        self, states: list[State], flow: Numbers, least_flow: float
    ) -> tuple[int, int]:
        """How many moves out of these states have at least `least_flow`, and how many the site
        that has most of them.
        """
        numbers = [self.index[state] for state in states]
        probability = _probability(self._log_q_again(states))
        reached = probability * (flow[numbers][:, None, None] / probability.shape[1])
        enough = (probability > 0) & (reached >= least_flow)
        sizes = enough.sum(2)
        return int(sizes.sum()), int(sizes.max())

    def _list_moves(
        self,
        states: list[State],
        numbers: list[int],
        places: list[list[int]],
        tokens: NDArray[np.int64],
        probability: Numbers,
        sizes: NDArray[np.int64],
    ) -> None:
        """The `sizes` likeliest moves out of newly passed states; of the others, how likely the
        first of them is.
        """
        n, hidden, listed = tokens.shape
        everything = listed == self.conditionals.model.vocab_size
        after = np.concatenate(
            [probability, np.zeros((n, hidden, 1)) if everything else probability[:, :, -1:]], 2
        )
        level = self._levels[hidden]
        level.group_size.append(sizes.ravel())
        level.group_parent.append(np.repeat(numbers, hidden))
        level.group_rest.append(np.take_along_axis(after, sizes[:, :, None], 2).ravel())
        level.parent.append(np.repeat(numbers, sizes.sum(1)))
        level.probability.append(probability[np.arange(listed) < sizes[:, :, None]])
        children = [
            self.number((*state[: site + 1], token, *state[site + 2 :]))
            for state, sites, rows, size in zip(
                states, places, tokens.tolist(), sizes.tolist(), strict=True
            )
            for site, row, m in zip(sites, rows, size, strict=True)
            for token in row[:m]
        ]
        level.child.append(np.array(children))

    def number(self, state: State) -> int:
        """A state's number, a new one for a new state."""
        number = self.index.get(state)
        if number is None:
            number = self.index[state] = len(self.states)
            self.states.append(state)
            self.hidden.append(state.count(HIDDEN))
            self.passed.append(0)
        return number


def _hidden_places(states: list[State]) -> Int[Tensor, "n h"]:
    """The hidden sites of states that have equally many."""
    hidden = states[0].count(HIDDEN)
    return (torch.tensor(states)[:, 1:] == HIDDEN).nonzero()[:, 1].reshape(-1, hidden)


def _probability(log_q: Tensor) -> Numbers:
    """Probabilities, in double precision: 0 only where the token is impossible, LEAST where it
    underflows.
    """
    exact = log_q.double()
    return torch.where(exact > -torch.inf, exact.exp().clamp(min=LEAST), 0.0).cpu().numpy()


def _states_of(filling: State) -> list[State]:
    """The 2^k - 1 states of a filling that hide something, in the order of their revealed sets
    as bit masks.
    """
    states: list[tuple[int, ...]] = [()]
    for value in filling[1:]:
        states = list(chained(((*s, HIDDEN) for s in states), ((*s, value) for s in states)))
    return [(filling[0], *state) for state in states[:-1]]
