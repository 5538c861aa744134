"""The most probable fillings under the chain rule averaged over all orders, over the whole
vocabulary, found best first.

p(x) needs no normaliser and no candidate sets, only the passes over the 2^k - 1 states of x
(`unmask.tables.exploration`; about rounding `unmask.tables.rounding`). The search spends its
passes in rounds, some on the states where the chain rule comes most often, the others on
completing the fillings that look best so far, and shares each between all orders and fillings.
It reports

- probabilities of every filling whose states are all passed, up to rounding; their sum is the
mass seen, never above 1; - a bound that no other filling exceeds: fillings above it, and apart
from each other, are certain to be the best, in their order; - where tokens or changes are
limited, how much mass all fillings that are allowed can have.

Beyond EXACT_SITES a filling has too many states, unless the passes suffice for those of `top`
fillings. Fillings are then found by beams along a few orders, and their probability is the mean
over sampled orders, with its standard error; the mass is an estimate too, and no place is
certain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from math import exp, fsum, log

import numpy as np
import torch
from numpy.typing import NDArray

from unmask.common.batches import grouped
from unmask.runs.progress import Enough, Progress
from unmask.tables.conditionals import Conditionals
from unmask.tables.exploration import Exploration, State, Variant
from unmask.tables.lattice import along_orders, log_mean_of_sampled, random_orders
from unmask.tables.rounding import Rounding

EXACT_SITES = 8  # 255 passes per filling
BEAMS_FROM = 5
"""With fewer blanks the flow alone reaches whole fillings soon; with this many or more, most
passes go to completing fillings.
"""
BEAM = 8
BEAM_ORDERS = 4
FIRST_ROUND = 8
ROUND = 64  # States per round: few while little is known, then enough to fill the model's batches
LEAST_ORDERS = 8
MOST_ORDERS = 128
MOST_BYTES = 2**31  # Bytes of the distributions that are kept
Accept = Callable[
    [int, tuple[int, ...]], bool
]  # Whether a filling (the number of its variant, its tokens) is wanted


@dataclass(frozen=True)
class ScoredFilling:
    """A filling of a variant, the log of weight times p(x), and its standard error in nats (0:
    exact).

    product_log_prob  the same for the product of the distributions with every blank masked
    """

    variant: int
    tokens: tuple[int, ...]
    log_prob: float
    product_log_prob: float
    standard_error: float = 0.0


@dataclass(frozen=True)
class ChainSearch:
    """The result of a search: fillings, best first; `bound` holds for every filling that is not
    among them.

    stopped     why it ended: "certain" (no other filling is among the best), "mass" (enough is
                seen), "exhausted" (no other filling is possible), "passes" or "memory" (what it
                may use is used up), "asked" (the model raised `Enough`)
    """

    fillings: list[ScoredFilling]
    bound: float
    passes: int
    stopped: str
    exact: bool
    rounding: Rounding

    @property
    def mass(self) -> float:
        """The fillings found have this much probability at least; an estimate where theirs are."""
        return min(
            1.0,
            fsum(
                exp(self.low(filling) if self.exact else filling.log_prob)
                for filling in self.fillings
            ),
        )

    @property
    def certain(self) -> int:
        """How many fillings from the top are certain to be the best ones, in this order."""
        return self.certain_among(self.fillings)

    def low(self, filling: ScoredFilling) -> float:
        """No more than its log-probability, whatever was rounded."""
        return self.rounding.low(filling.log_prob, len(filling.tokens))

    def high(self, filling: ScoredFilling) -> float:
        """No less than its log-probability, whatever was rounded."""
        return self.rounding.high(filling.log_prob, len(filling.tokens))

    def certain_among(self, listed: Sequence[ScoredFilling]) -> int:
        """The number of fillings at the head of the list that are above all that follow, and
        above all that were not found.
        """
        if not self.exact:
            return 0
        lows, highs = (
            [self.low(filling) for filling in listed],
            [self.high(filling) for filling in listed],
        )
        following = log(self.bound) if self.bound else float("-inf")
        certain = len(listed)
        for place in reversed(range(len(listed))):
            if lows[place] < following:
                certain = place
            following = max(following, highs[place])
        return certain


def search_fillings(
    conditionals: Conditionals,
    variants: Sequence[Variant],
    top: int = 10,
    passes: int = 1500,
    mass: float | None = None,
    wanted: Sequence[State] = (),
    accept: Accept | None = None,
    seed: int = 0,
    rounding: Rounding | None = None,
    progress: Progress | None = None,
) -> ChainSearch:
    """Fillings of the variants, until the `top` best are certain, or with `mass` until this
    much mass is found, within `passes`.

    `wanted` fillings are scored whatever they cost. Only fillings that `accept` agrees to are
    found or count in the bound. `seed`: of the sampled orders beyond EXACT_SITES; their number
    is chosen so that `top` fillings can be scored.
    """
    states = Exploration(conditionals, variants, 2 * top, rounding)
    run = _Run(states, top, passes, accept, progress)
    sites = max(variant.sites for variant in variants)
    if sites > EXACT_SITES and top * (2**sites - 1) > passes:
        return run.by_sampled_orders(wanted, torch.Generator().manual_seed(seed))
    return run.best_first(mass, wanted)


@dataclass
class _Run:
    """A search under way: exact log-probabilities of fillings, by number, and what `accept`
    said of those asked about.
    """

    states: Exploration
    top: int
    budget: int
    accept: Accept | None
    progress: Progress | None
    log_probs: dict[int, float] = field(default_factory=dict)
    verdicts: dict[int, bool] = field(default_factory=dict)
    begun: dict[int, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.conditionals = self.states.conditionals
        self.before = self.conditionals.passes

    @property
    def passes(self) -> int:
        return self.conditionals.passes - self.before

    @property
    def refused(self) -> list[int]:
        return [x for x, accepted in self.verdicts.items() if not accepted]

    def best_first(self, mass: float | None, wanted: Sequence[State]) -> ChainSearch:
        """Exact probabilities, best first."""
        states = self.states
        states.reveal([states.states[root] for root in states.roots])
        try:
            self._complete(wanted)
            for variant in range(len(states.variants)):
                if states.variants[variant].sites >= BEAMS_FROM:
                    self._beams(variant, min(BEAM, self._width(variant)))
            stopped, bound = self._rounds(mass)
        except Enough:
            self._settle()
            stopped, bound = "asked", self._bound()
        scored = [(states.states[x], log_prob) for x, log_prob in self.log_probs.items()]
        fillings = [
            ScoredFilling(x[0], x[1:], log_prob, states.log_product(x)) for x, log_prob in scored
        ]
        return self._result(fillings, bound, stopped, exact=True)

    def _rounds(self, mass: float | None) -> tuple[str, float]:
        """Spend passes until something ends it: why it ended, and the bound."""
        stopped = ""
        while not stopped:
            self._settle()
            bound = self._bound()
            stopped = self._enough(mass, bound)
            room = self.budget - self.passes
            following = (
                []
                if stopped
                else self._next_states(min(max(FIRST_ROUND, self.passes // 4), ROUND, room))
            )
            if not stopped and not following:
                stopped = self._widened(room)
            self.states.reveal(following)
            self._report()
        return stopped, bound

    def _widened(self, room: int) -> str:
        """List less likely moves, when all that are listed have been followed; why the search
        ends if that is not possible.

        This takes no pass: of a single blank all fillings are known after one.
        """
        if room <= 0 and len(self._open_states()):
            return "passes"
        if self.states.lists_everything():
            return "exhausted"
        return "" if self.states.widen() else "memory"

    def _open_states(self) -> NDArray[np.int64]:
        """The states that are listed, had no pass, and hide a site."""
        states = self.states
        passed, hidden = (
            np.frombuffer(states.passed, np.uint8),
            np.frombuffer(states.hidden, np.int8),
        )
        open_ones = np.flatnonzero((passed == 0) & (hidden > 0))
        return open_ones[states.flow[open_ones] > 0]

    def _bound(self) -> float:
        return self.states.bound(np.array([*self.log_probs, *self.refused], dtype=np.int64))

    def _report(self) -> None:
        if self.progress:
            self.progress(min(self.passes, self.budget), self.budget, "passes")

    def by_sampled_orders(self, wanted: Sequence[State], generator: torch.Generator) -> ChainSearch:
        """Beams for a third of the passes, then sampled orders, the same ones for all fillings
        of a variant.
        """
        states = self.states
        states.reveal([states.states[root] for root in states.roots])
        for variant in range(len(states.variants)):
            self._beams(variant, self._width(variant))
        sites = max(variant.sites for variant in states.variants)
        room = max(0, self.budget - self.passes) // sites
        orders = min(MOST_ORDERS, max(LEAST_ORDERS, room // self.top))
        chosen = dict.fromkeys(
            [
                *(states.number(filling) for filling in wanted),
                *self._candidates()[: max(1, room // orders)],
            ]
        )
        fillings: list[ScoredFilling] = []
        for variant in range(len(states.variants)):
            mine = [states.states[x][1:] for x in chosen if states.states[x][0] == variant]
            if mine:
                fillings += self._sampled(variant, mine, orders, generator)
        bound = states.bound(np.array([*chosen, *self.refused], dtype=np.int64))
        return self._result(fillings, bound, "passes", exact=False)

    def _result(
        self, fillings: list[ScoredFilling], bound: float, stopped: str, exact: bool
    ) -> ChainSearch:
        ordered = sorted(fillings, key=lambda f: -f.log_prob)
        return ChainSearch(ordered, bound, self.passes, stopped, exact, self.states.rounding)

    def _enough(self, mass: float | None, bound: float) -> str:
        if bound == 0:
            return "exhausted"
        lows = [
            self.states.rounding.low(value, len(self.states.states[x]) - 1)
            for x, value in self.log_probs.items()
        ]
        if mass is not None and fsum(map(exp, lows)) >= mass:
            return "mass"
        if mass is None and len(lows) >= self.top and nlargest(self.top, lows)[-1] >= log(bound):
            return "certain"
        return "memory" if self.states.bytes >= MOST_BYTES else ""

    def _next_states(self, room: int) -> list[State]:
        """States missing from the fillings that look best, and those with the largest flow."""
        if room <= 0:
            return []
        states = self.states
        open_ones = self._open_states()
        visited = [
            states.states[n]
            for n in open_ones[np.argsort(-states.flow[open_ones], kind="stable")[:room]]
        ]
        few = max(variant.sites for variant in states.variants) < BEAMS_FROM
        share = max(room // 2 if few else room - room // 8, room - len(visited))
        return list(dict.fromkeys([*self._completing(share), *visited]))[:room]

    def _completing(self, room: int) -> list[State]:
        """States missing from fillings: those begun before come first, then those that look
        best.
        """
        wanted: dict[State, None] = {}
        self.begun = {x: None for x in self.begun if x not in self.log_probs}
        for x in [*self.begun, *self._candidates()]:
            if len(wanted) >= room:
                break
            self.begun[x] = None
            wanted.update(dict.fromkeys(self.states.missing(self.states.states[x])))
        return list(wanted)[:room]

    def _candidates(self) -> list[int]:
        """Fillings reached and not yet settled, by the mean of p_o over the orders known."""
        states = self.states
        whole = np.flatnonzero((np.frombuffer(states.hidden, np.int8) == 0) & (states.flow > 0))
        whole = whole[~np.isin(whole, [*self.log_probs, *self.refused])]
        guess = states.flow[whole] / states.cover[whole]
        return [
            x
            for x in whole[np.argsort(-guess, kind="stable")[: 4 * ROUND]].tolist()
            if self._accepted(x)
        ]

    def _accepted(self, x: int) -> bool:
        if self.accept is None:
            return True
        if x not in self.verdicts:
            variant, *tokens = self.states.states[x]
            self.verdicts[x] = self.accept(variant, tuple(tokens))
        return self.verdicts[x]

    def _settle(self) -> None:
        """Exact probabilities of the fillings that have become complete."""
        reached = [
            x for x in self.states.reached_by_all() if x not in self.log_probs and self._accepted(x)
        ]
        self._score(
            [
                x
                for x in [*reached, *self.begun, *self._candidates()]
                if not self.states.missing(self.states.states[x])
            ]
        )

    def _complete(self, fillings: Sequence[State]) -> None:
        """Exact probabilities of these fillings, whatever passes they take."""
        self.states.reveal(
            [state for filling in fillings for state in self.states.missing(filling)]
        )
        self._score([self.states.number(filling) for filling in fillings])

    def _score(self, numbers: Sequence[int]) -> None:
        for members in grouped(
            chosen := list(dict.fromkeys(numbers)), lambda x: len(self.states.states[x])
        ):
            same = [chosen[i] for i in members]
            self.log_probs.update(
                zip(same, self.states.log_probs([self.states.states[x] for x in same]), strict=True)
            )

    def _sampled(
        self,
        variant: int,
        fillings: Sequence[tuple[int, ...]],
        orders: int,
        generator: torch.Generator,
    ) -> list[ScoredFilling]:
        """Fillings of one variant with their mean over the same sampled orders."""
        v = self.states.variants[variant]
        drawn = random_orders(1, orders, v.sites, generator).expand(len(fillings), -1, -1)
        texts = torch.tensor([v.cloze.filled(values) for values in fillings])
        sites = torch.tensor([v.cloze.block]).expand(len(fillings), -1)
        log_prob, error = log_mean_of_sampled(along_orders(self.conditionals, texts, sites, drawn))
        return [
            ScoredFilling(
                variant, x, value + v.log_weight, self.states.log_product((variant, *x)), spread
            )
            for x, value, spread in zip(fillings, log_prob.tolist(), error.tolist(), strict=True)
        ]

    def _width(self, variant: int) -> int:
        """How wide the beams of a variant may be for all beams to take a third of the passes."""
        return max(
            1,
            self.budget
            // (3 * BEAM_ORDERS * self.states.variants[variant].sites * len(self.states.variants)),
        )

    def _beams(self, variant: int, width: int) -> None:
        """Beams along a few orders at once: one call per step for all of them."""
        states = self.states
        root = states.states[states.roots[variant]]
        forward, surest = list(range(states.variants[variant].sites)), states.surest(root)
        orders = [forward, forward[::-1], surest, surest[::-1]]
        beams: list[list[tuple[float, State]]] = [[(0.0, root)] for _ in orders]
        for step in range(len(root) - 1):
            states.reveal([state for beam in beams for _, state in beam])
            self._report()
            beams = [
                sorted(
                    (
                        (value + log_q, after)
                        for value, state in beam
                        for log_q, after in states.moves(state, order[step], width)
                    ),
                    reverse=True,
                )[:width]
                for beam, order in zip(beams, orders, strict=True)
            ]
