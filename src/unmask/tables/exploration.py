"""The part of the lattice of revealed sets that passes have seen, for all fillings of a text at
once.

A state (S, x_S) is a set of revealed sites and their tokens; a pass over it gives q(. | x_S) at
its h hidden sites. The chain rule in a random order moves from state to state: it picks a hidden
site i uniformly, and a token from q. It ends in the filling x with probability p(x)
(`unmask.tables.lattice`).

Several variants of a text, each with its own blanks (a word of one, two or three tokens) and a
weight, are explored together. A filling's probability is the weight of its variant times p(x).
Below the weight is 1. From the states passed so far follow:

- flow(S, x_S): the probability of reaching the state through passed states alone. At a filling
  it is a lower bound of p(x).
- cover(S, x_S): the share of orders that reach it so. At a filling flow / cover is the mean of p_o
  over these orders.
- b(S, x_S): an upper bound of the probability of going on from the state to any one filling. A
  caller may set fillings aside, for example those that it has scored: they do not count.

      b = 1 at a state not passed,   b = 0 at a filling set aside,
              b(S, x_S) = 1/h sum_i max_v q_i(v | x_S) b(S + i, x_S and x_i = v).

  For a filling the probability of going on is the mean over the next site i of q_i times that of
  going on from there. b takes the token v with the largest product, at each site on its own.
  b(empty) bounds p(x) of every filling not set aside. It is 0 only if all of them are impossible:
  a product that underflows counts as LEAST.
- p(x) itself, once all 2^k - 1 states of x are passed.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, inf, log
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from unmask.common.cloze import Cloze
from unmask.tables.conditionals import Conditionals
from unmask.tables.lattice import Lattice, revealed_sets
from unmask.tables.moves import LEAST, Integers, Moves, Numbers
from unmask.tables.rounding import Rounding

HIDDEN = -1
State = tuple[int, ...]
"""The number of the variant, then for each of its sites the token revealed, or HIDDEN."""
MOST_LISTED = 256
LEAST_LISTED = 8
LEAST_FLOW = 1e-6
"""At first the moves of a hidden site with at least LEAST_FLOW are listed, but at least
LEAST_LISTED and at most MOST_LISTED, the likeliest ones. Moves that are not listed still count in
the bound, and in p(x).
"""
WIDER = 10  # listing again takes the largest flow left out, divided by this, as the least flow
MOST_STATES = 4_000_000  # states that may be listed beyond the first; each takes about 400 bytes
RELISTED_AT_ONCE = 2**24  # probabilities that are sorted together when moves are listed again


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
        return log(self.weight) if self.weight else -inf


class Exploration:
    """Passes over states of the variants, and what follows from those made so far.

    States are numbered as they are first seen. By number:
    states    the state
    hidden    how many of its sites are hidden
    passed    1 after its pass, else 0

    index     the number of a state
    roots     numbers of the states with every site hidden, one per variant
    bytes     of the distributions that are kept
    """

    def __init__(
        self,
        conditionals: Conditionals,
        variants: Sequence[Variant],
        listed: int = 0,
        rounding: Rounding | None = None,
    ) -> None:
        """At first at most MOST_LISTED tokens of a site are listed; at most `listed` if that is
        larger.
        """
        self.conditionals = conditionals
        self.rounding: Rounding = rounding or Rounding.of(conditionals.model.dtype)
        self.most_listed: int = max(MOST_LISTED, listed)
        self.least_flow: float = LEAST_FLOW
        self.variants: list[Variant] = list(variants)
        self.states: list[State] = []
        self.index: dict[State, int] = {}
        self.hidden: array[int] = array("b")
        self.passed: bytearray = bytearray()
        self.bytes: int = 0
        self._allowed = [self._allowed_tokens(variant) for variant in self.variants]
        self._log_q: dict[int, NDArray[Any]] = {}  # (h, V) of each passed state
        self._moves = Moves()
        self.roots: list[int] = [
            self.number((v, *[HIDDEN] * variant.sites)) for v, variant in enumerate(self.variants)
        ]
        self._flow = np.zeros(0)
        self._cover = np.zeros(0)
        self._stale = True  # whether flow and cover are of before the last passes

    def _allowed_tokens(self, variant: Variant) -> Bool[Tensor, "k V"] | None:
        """Which tokens each blank of a variant may take; None if it may take any."""
        if variant.allowed is None:
            return None
        model = self.conditionals.model
        every = torch.ones(model.vocab_size, dtype=torch.bool, device=model.device)
        of_blanks = [every if some is None else some.to(model.device) for some in variant.allowed]
        return torch.stack(of_blanks)

    def number(self, state: State) -> int:
        """A state's number, a new one for a new state."""
        number = self.index.get(state)
        if number is None:
            number = len(self.states)
            self.index[state] = number
            self.states.append(state)
            self.hidden.append(state.count(HIDDEN))
            self.passed.append(0)
        return number

    # Flow, cover and bound

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

    def _refresh(self) -> None:
        """Bring flow and cover up to date. A state that was numbered since has none of either."""
        if self._stale:
            weights = [variant.weight for variant in self.variants]
            self._flow, self._cover = self._moves.flows(len(self.states), self.roots, weights)
            self._stale = False
            return
        new = len(self.states) - len(self._flow)
        if new:
            self._flow = np.pad(self._flow, (0, new))
            self._cover = np.pad(self._cover, (0, new))

    def bound(self, aside: Integers) -> float:
        """No filling but those set `aside` (their numbers) has a probability above this,
        whatever was rounded.
        """
        of_states = self._moves.bounds(len(self.states), aside)
        highest = 0.0
        for variant, of_root in zip(self.variants, of_states[self.roots].tolist(), strict=True):
            if variant.weight > 0 and of_root > 0:
                high = self.rounding.high(variant.log_weight + log(of_root), variant.sites)
                highest = max(highest, exp(high), LEAST)  # exp may underflow to 0
        return highest

    # Passes

    def reveal(self, states: Sequence[State]) -> None:
        """One pass over each state that was not passed yet."""
        waiting: list[State] = []
        for state in dict.fromkeys(states):
            number = self.number(state)  # also of a state that no listed move leads to
            if not self.passed[number]:
                waiting.append(state)
        flow = self.flow  # before the passes
        self._stale = True  # also if a pass raises: the states before it are passed
        for group in _alike(waiting):
            self._reveal_alike(group, flow)

    def _reveal_alike(self, states: list[State], flow: Numbers) -> None:
        """Passes over states of one variant with equally many hidden sites."""
        model = self.conditionals.model
        cloze = self.variants[states[0][0]].cloze
        values = torch.tensor(states, device=model.device)[:, 1:]  # without the variant's number
        sites = _hidden_sites(states).to(model.device)
        block = torch.tensor(cloze.block, device=model.device)
        rows = torch.tensor([cloze.ids], device=model.device).repeat(len(states), 1)
        rows[:, block] = torch.where(values == HIDDEN, model.mask_id, values)
        log_q = self.conditionals.distributions(rows, block[sites])
        numbers = [self.index[state] for state in states]
        kept = log_q.cpu().numpy()
        self.bytes += kept.nbytes
        for number, of_state in zip(numbers, kept, strict=True):
            self._log_q[number] = of_state
            self.passed[number] = 1
        self._list_likeliest(states, self._of_allowed(states, log_q), flow)

    def _of_allowed(
        self, states: list[State], log_q: Float[Tensor, "n h V"]
    ) -> Float[Tensor, "n h V"]:
        """log q at the hidden sites of states of one variant, -inf where the variant does not
        allow a token.
        """
        allowed = self._allowed[states[0][0]]
        if allowed is None:
            return log_q
        sites = _hidden_sites(states).to(log_q.device)
        return log_q.masked_fill(~allowed[sites], -torch.inf)

    # Fillings

    def missing(self, filling: State) -> list[State]:
        """The states of a filling that have had no pass."""
        return [
            state
            for state in _states_of(filling)
            if state not in self.index or not self.passed[self.index[state]]
        ]

    def log_probs(self, fillings: Sequence[State]) -> list[float]:
        """log of weight times p(x) of fillings of one number of sites, all of whose states are
        passed.
        """
        k = len(fillings[0]) - 1
        hidden_sites = [np.flatnonzero(~inside) for inside in revealed_sets(k).numpy()]
        log_q = np.full((len(fillings), 2**k, k), np.nan)
        for n, filling in enumerate(fillings):
            tokens = np.array(filling[1:])
            for revealed, state in enumerate(_states_of(filling)):
                sites = hidden_sites[revealed]
                of_state = self._log_q[self.index[state]]  # a row per hidden site
                rows = np.arange(len(sites))
                log_q[n, revealed, sites] = of_state[rows, tokens[sites]]
        log_mean: list[float] = Lattice(torch.from_numpy(log_q)).log_mean.tolist()
        return [
            value + self.variants[filling[0]].log_weight
            for filling, value in zip(fillings, log_mean, strict=True)
        ]

    def log_product(self, filling: State) -> float:
        """log of weight times the product of the distributions with every blank masked."""
        variant, *tokens = filling
        of_root = self._log_q[self.roots[variant]]
        log_q = of_root[np.arange(len(tokens)), np.array(tokens)]
        return self.variants[variant].log_weight + float(log_q.sum(dtype=np.float64))

    def reached_by_all(self) -> list[int]:
        """Numbers of the fillings that listed moves reach from all of their states with one hidden
        site.
        """
        ways = self._moves.ways()  # of every state up to the last that a move reaches
        reached = np.flatnonzero((ways > 0) & (self.flow[: len(ways)] > 0))
        fillings: list[int] = []
        for number in reached.tolist():
            variant = self.variants[self.states[number][0]]
            if ways[number] == variant.sites:  # a filling has a state per site that hides it alone
                fillings.append(number)
        return fillings

    # Moves

    def moves(self, state: State, site: int, most: int) -> list[tuple[float, State]]:
        """The likeliest tokens of a hidden site of a passed state: (log q, the state that
        reveals the token), best first.
        """
        hidden_before = state[1 : site + 1].count(HIDDEN)  # state[0] is the variant's number
        log_q = self._log_q[self.index[state]][hidden_before]
        allowed = self._allowed[state[0]]
        if allowed is not None:
            log_q = np.where(allowed[site].cpu().numpy(), log_q, -np.inf)
        last = len(log_q) - 1
        likeliest = np.argpartition(-log_q, min(most, last))[:most]  # in no order
        before = state[: site + 1]
        after = state[site + 2 :]
        moves = [
            (float(log_q[token]), (*before, int(token), *after))
            for token in likeliest
            if log_q[token] > -np.inf
        ]
        return sorted(moves, reverse=True)

    def surest(self, state: State) -> list[int]:
        """The hidden sites of a passed state, that with the likeliest token first; sites at which
        no token is possible come last.
        """
        hidden_sites = [site for site, token in enumerate(state[1:]) if token == HIDDEN]

        def most_likely(site: int) -> float:
            best = self.moves(state, site, 1)
            if not best:
                return -inf
            log_q, _ = best[0]
            return log_q

        return sorted(hidden_sites, key=most_likely, reverse=True)

    def lists_everything(self) -> bool:
        """Whether every move that is possible out of a passed state is listed."""
        return self._moves.all_listed()

    def widen(self) -> bool:
        """List more moves out of the passed states, without a pass; False if there are too many
        to hold.
        """
        listed_before = len(self._moves)
        while len(self._moves) == listed_before and not self.lists_everything():
            if not self._list_again():
                return False
            if len(self._moves) == listed_before:
                # A site with `most_listed` moves knows of the others only that none is likelier
                # than its last one. The next one, more than WIDER times less likely, is known
                # itself once the site has one move more.
                self.most_listed += 1
        return True

    def _list_again(self) -> bool:
        """List the moves again, with a least flow WIDER times below the largest that is left out;
        False if there are too many to hold.
        """
        flow = self.flow
        least_flow = self._moves.largest_flow_left_out(flow) / WIDER
        batches = list(self._passed_batches())
        in_all = 0
        most_listed = self.most_listed
        for states in batches:
            of_batch, of_a_site = self._count_moves(states, flow, least_flow)
            in_all += of_batch
            most_listed = max(most_listed, of_a_site)
        if in_all > MOST_STATES:
            return False
        self.least_flow = least_flow
        self.most_listed = most_listed
        self._moves = Moves()
        for states in batches:
            self._list_likeliest(states, self._log_q_again(states), flow)
        self._stale = True
        return True

    def _passed_batches(self) -> Iterator[list[State]]:
        """The passed states, those of one variant with equally many hidden sites together, a
        batch at a time.
        """
        vocabulary = self.conditionals.model.vocab_size
        passed = [self.states[number] for number in self._log_q]  # in the order of their passes
        for group in _alike(passed):
            hidden = group[0].count(HIDDEN)
            size = max(1, RELISTED_AT_ONCE // (hidden * vocabulary))
            for start in range(0, len(group), size):
                yield group[start : start + size]

    def _log_q_again(self, states: list[State]) -> Float[Tensor, "n h V"]:
        """The kept distributions of passed states of one variant with equally many hidden sites."""
        kept = np.stack([self._log_q[self.index[state]] for state in states])
        log_q = torch.from_numpy(kept).to(self.conditionals.model.device)
        return self._of_allowed(states, log_q)

    def _count_moves(
        self, states: list[State], flow: Numbers, least_flow: float
    ) -> tuple[int, int]:
        """How many moves out of these states have at least `least_flow`, and how many the site
        that has most of them.
        """
        probability = _probability(self._log_q_again(states))
        flow_of_move = probability * self._flow_per_site(states, flow)
        sizes = ((probability > 0) & (flow_of_move >= least_flow)).sum(2)
        return int(sizes.sum()), int(sizes.max())

    def _flow_per_site(self, states: list[State], flow: Numbers) -> Numbers:
        """(n, 1, 1) the flow out of states, which have equally many hidden sites, by each site."""
        numbers = [self.index[state] for state in states]
        return flow[numbers][:, None, None] / states[0].count(HIDDEN)

    def _list_likeliest(
        self, states: list[State], log_q: Float[Tensor, "n h V"], flow: Numbers
    ) -> None:
        """List the moves out of passed states that have at least `least_flow`, and LEAST_LISTED
        at every hidden site.

        states   of one variant, with equally many hidden sites
        log_q    at these sites, -inf where a token is not allowed
        flow     into every state
        """
        vocabulary = log_q.shape[2]
        known = min(self.most_listed, vocabulary)
        likeliest = log_q.topk(known)
        probability = _probability(likeliest.values)
        enough = probability * self._flow_per_site(states, flow) >= self.least_flow
        sizes = np.minimum(np.maximum(enough.sum(2), LEAST_LISTED), known)
        # A group is a hidden site of a state: its first `size` tokens are listed, best first
        hidden = log_q.shape[1]
        state_of_group = [state for state in states for _ in range(hidden)]
        site_of_group = _hidden_sites(states).flatten().tolist()
        tokens_of_group = likeliest.indices.cpu().flatten(0, 1).tolist()
        size_of_group = sizes.ravel().tolist()
        children: list[int] = []
        for state, site, tokens, size in zip(
            state_of_group, site_of_group, tokens_of_group, size_of_group, strict=True
        ):
            before = state[: site + 1]  # state[0] is the variant's number
            after = state[site + 2 :]
            children += [self.number((*before, token, *after)) for token in tokens[:size]]
        self._moves.add(
            states=[self.index[state] for state in states],
            children=children,
            probability=probability,
            sizes=sizes,
            all_known=known == vocabulary,
        )


def _alike(states: Sequence[State]) -> list[list[State]]:
    """The states of one variant with equally many hidden sites together."""
    groups: dict[tuple[int, int], list[State]] = defaultdict(list)
    for state in states:
        groups[state[0], state.count(HIDDEN)].append(state)
    return list(groups.values())


def _hidden_sites(states: list[State]) -> Int[Tensor, "n h"]:
    """The hidden sites of states that have equally many."""
    hidden = states[0].count(HIDDEN)
    is_hidden = torch.tensor(states)[:, 1:] == HIDDEN
    return is_hidden.nonzero()[:, 1].reshape(-1, hidden)


def _probability(log_q: Tensor) -> Numbers:
    """Probabilities, in double precision: 0 only where the token is impossible, LEAST where it
    underflows.
    """
    exact = log_q.double()
    return torch.where(exact > -torch.inf, exact.exp().clamp(min=LEAST), 0.0).cpu().numpy()


def _states_of(filling: State) -> list[State]:
    """The 2^k - 1 states of a filling that hide a site, in the order of their revealed sets as
    bit masks.
    """
    variant, *tokens = filling
    states: list[State] = [(variant,)]
    for token in tokens:  # the site's bit is above those before: 0 in the first half, then 1
        hiding = [(*state, HIDDEN) for state in states]
        revealing = [(*state, token) for state in states]
        states = [*hiding, *revealing]
    return states[:-1]  # the last one is the filling itself
