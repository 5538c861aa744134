"""The most probable fillings under the chain rule averaged over all orders, found best first.

They are fillings over the whole vocabulary. A state is a text with some of its k blanks filled: a
tuple of the variant's number and a token or HIDDEN for each site. p(x) needs no normaliser and no
candidate sets, only a pass over each of the 2^k - 1 states that agree with the filling x and hide
a site (`unmask.tables.exploration`). `unmask.tables.rounding` says what rounding does to it.

The search spends its passes in rounds. Some go to the states with the largest flow: to these the
chain rule comes most often. The others go to completing the fillings that look best so far. Every
pass is shared by all orders and fillings. The search reports

- probabilities of every filling whose states are all passed, up to rounding; their sum is the
  mass seen, never above 1;
- a bound that no other filling exceeds: fillings above it, and apart from each other, are certain
  to be the best, in their order. Where tokens or changes are limited, "other" means allowed.

Beyond EXACT_SITES a filling has too many states, unless the passes suffice for all states of `top`
fillings. If they do not, fillings are found by beams along a few orders. Their probability is the
mean over sampled orders, with its standard error. The mass is an estimate too, and no place is
certain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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

EXACT_SITES = 8  # Sites of a filling: 255 passes
BEAMS_FROM = 5
"""Sites. With fewer the flow alone reaches whole fillings soon. With this many or more, most
passes go to completing fillings.
"""
BEAM_WIDTH = 8  # In a search for exact probabilities: states that a beam keeps at most at each step
BEAM_ORDERS = 4  # Orders along which each variant has a beam
BEAMS_SHARE = 3  # All beams together take at most 1 / BEAMS_SHARE of the passes
FIRST_ROUND = 8  # States of a round at first, while little is known
ROUND = 64  # States of a round later: enough to fill the model's batches
MOST_CANDIDATES = 4 * ROUND  # Fillings that are considered at a time for completion
LEAST_ORDERS = 8  # Sampled orders of a filling
MOST_ORDERS = 128
MOST_BYTES = 2**31  # Bytes of the distributions that are kept

Accept = Callable[[int, tuple[int, ...]], bool]
"""Whether a filling is wanted, given the number of its variant and its tokens."""


@dataclass(frozen=True)
class ScoredFilling:
    """A filling of a variant.

    log_prob          log of the variant's weight times p(x)
    product_log_prob  the same for the product of the distributions with every blank masked
    standard_error    of `log_prob`, in nats; 0 if that is exact
    """

    variant: int
    tokens: tuple[int, ...]
    log_prob: float
    product_log_prob: float
    standard_error: float = 0.0


@dataclass(frozen=True)
class ChainSearch:
    """The result of a search.

    fillings    best first
    bound       no filling that is not among them has a larger probability
    passes      how many the search took
    stopped     why it ended: "certain" (no other filling is among the best), "mass" (enough is
                seen), "exhausted" (no other filling is possible), "passes" or "memory" (what it
                may use is used up), "asked" (the model raised `Enough`)
    exact       False if probabilities are means over sampled orders
    """

    fillings: list[ScoredFilling]
    bound: float
    passes: int
    stopped: str
    exact: bool
    rounding: Rounding

    @property
    def mass(self) -> float:
        """A lower bound of the probability of all fillings together, or an estimate of it if they
        are estimates.
        """
        if self.exact:
            log_probs = [self.low(filling) for filling in self.fillings]
        else:
            log_probs = [filling.log_prob for filling in self.fillings]
        return min(1.0, fsum(map(exp, log_probs)))

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
        """How many fillings at the head of the list are certain to be the best, in its order.

        Each of them is above all that follow in the list, and above all that were not found.
        """
        if not self.exact:
            return 0
        highest_below = log(self.bound) if self.bound else float("-inf")
        certain = len(listed)
        # From the last place up: the failing place nearest the head is met last, and counts.
        for place in reversed(range(len(listed))):
            filling = listed[place]
            if self.low(filling) < highest_below:
                certain = place
            highest_below = max(highest_below, self.high(filling))
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
    """Search fillings of the variants, within `passes`.

    The search ends when the `top` best are certain; with `mass`, when the fillings found have
    this much mass.

    wanted    fillings that are scored whatever they cost
    accept    only fillings that it agrees to are found, or count in the bound
    seed      of the sampled orders beyond EXACT_SITES; their number is chosen so that `top`
              fillings can be scored
    """
    states = Exploration(conditionals, variants, listed=2 * top, rounding=rounding)
    search = _Search(states, top=top, budget=passes, accept=accept, progress=progress)
    sites = max(variant.sites for variant in variants)
    states_of_top = top * (2**sites - 1)
    if sites > EXACT_SITES and states_of_top > passes:
        return search.by_sampled_orders(wanted, torch.Generator().manual_seed(seed))
    return search.best_first(mass, wanted)


class _Search:
    """A search under way. Fillings are known by the numbers of their states.

    budget     passes that it may take
    log_probs  exact log-probability of every filling that is scored
    verdicts   what `accept` said of every filling that it was asked about
    begun      fillings that passes have gone to completing, first ones first; the values are None
    """

    def __init__(
        self,
        states: Exploration,
        top: int,
        budget: int,
        accept: Accept | None,
        progress: Progress | None,
    ) -> None:
        self.states = states
        self.top = top
        self.budget = budget
        self.accept = accept
        self.progress = progress
        self.log_probs: dict[int, float] = {}
        self.verdicts: dict[int, bool] = {}
        self.begun: dict[int, None] = {}
        self.conditionals = states.conditionals
        self._passes_before = self.conditionals.passes

    @property
    def passes(self) -> int:
        """Passes taken so far."""
        return self.conditionals.passes - self._passes_before

    @property
    def refused(self) -> list[int]:
        """The fillings that `accept` did not agree to."""
        return [number for number, accepted in self.verdicts.items() if not accepted]

    @property
    def most_sites(self) -> int:
        """Sites of the variant that has most."""
        return max(variant.sites for variant in self.states.variants)

    def best_first(self, mass: float | None, wanted: Sequence[State]) -> ChainSearch:
        """Exact probabilities, best first."""
        self._reveal_roots()
        try:
            self._complete(wanted)
            for number, variant in enumerate(self.states.variants):
                if variant.sites >= BEAMS_FROM:
                    width = min(BEAM_WIDTH, self._affordable_width(number))
                    self._follow_beams(number, width)
            stopped, bound = self._rounds(mass)
        except Enough:
            self._settle()
            stopped = "asked"
            bound = self._bound()
        fillings = [self._exact_filling(number) for number in self.log_probs]
        return self._result(fillings, bound, stopped, exact=True)

    def by_sampled_orders(self, wanted: Sequence[State], generator: torch.Generator) -> ChainSearch:
        """Beams for a share of the passes, then sampled orders with those that are left.

        All fillings of a variant have the same sampled orders.
        """
        states = self.states
        self._reveal_roots()
        for number in range(len(states.variants)):
            self._follow_beams(number, self._affordable_width(number))
        passes_left = max(0, self.budget - self.passes)
        scores = passes_left // self.most_sites  # a filling in one order takes a pass per site
        orders = min(MOST_ORDERS, max(LEAST_ORDERS, scores // self.top))
        affordable = max(1, scores // orders)  # fillings, each with all its orders
        found_by_beams = self._candidates()[:affordable]
        of_wanted = [states.number(filling) for filling in wanted]
        chosen = dict.fromkeys([*of_wanted, *found_by_beams])  # without repetitions, in order
        chosen_states = [states.states[number] for number in chosen]
        fillings: list[ScoredFilling] = []
        for variant in range(len(states.variants)):
            of_variant = [state[1:] for state in chosen_states if state[0] == variant]
            if of_variant:
                fillings += self._sampled_fillings(variant, of_variant, orders, generator)
        bound = states.bound(np.array([*chosen, *self.refused], dtype=np.int64))
        return self._result(fillings, bound, "passes", exact=False)

    def _result(
        self, fillings: list[ScoredFilling], bound: float, stopped: str, exact: bool
    ) -> ChainSearch:
        return ChainSearch(
            fillings=sorted(fillings, key=lambda filling: -filling.log_prob),
            bound=bound,
            passes=self.passes,
            stopped=stopped,
            exact=exact,
            rounding=self.states.rounding,
        )

    def _reveal_roots(self) -> None:
        """The passes with every blank masked, from which every move begins."""
        states = self.states
        states.reveal([states.states[root] for root in states.roots])

    def _report(self) -> None:
        if self.progress:
            self.progress(min(self.passes, self.budget), self.budget, "passes")

    # The rounds of a search for exact probabilities.

    def _rounds(self, mass: float | None) -> tuple[str, float]:
        """Spend passes until something ends it: why it ended, and the bound."""
        while True:
            self._settle()
            bound = self._bound()
            stopped = self._reason_to_stop(mass, bound)
            if stopped is None:
                stopped = self._advanced_or_reason()
            self._report()
            if stopped is not None:
                return stopped, bound

    def _advanced_or_reason(self) -> str | None:
        """One round of passes or, if no state is left for one, a longer list of moves.

        Returns why the search ends if neither is possible.
        """
        passes_left = self.budget - self.passes
        growing = max(FIRST_ROUND, self.passes // 4)
        size = min(growing, ROUND, passes_left)
        next_states = self._next_states(size)
        if not next_states:
            return self._widened_or_reason(passes_left)
        self.states.reveal(next_states)
        return None

    def _bound(self) -> float:
        set_aside = [*self.log_probs, *self.refused]
        return self.states.bound(np.array(set_aside, dtype=np.int64))

    def _reason_to_stop(self, mass: float | None, bound: float) -> str | None:
        """Why the search ends with what it has found; None if it goes on."""
        if bound == 0:
            return "exhausted"
        lows = [self._low(number) for number in self.log_probs]
        if mass is not None:
            if fsum(map(exp, lows)) >= mass:
                return "mass"
        elif len(lows) >= self.top:
            last_of_top = nlargest(self.top, lows)[-1]
            if last_of_top >= log(bound):
                return "certain"
        if self.states.bytes >= MOST_BYTES:
            return "memory"
        return None

    def _low(self, number: int) -> float:
        """No more than the log-probability of a scored filling, whatever was rounded."""
        sites = len(self.states.states[number]) - 1
        return self.states.rounding.low(self.log_probs[number], sites)

    def _widened_or_reason(self, passes_left: int) -> str | None:
        """List less likely moves, once all that are listed have been followed.

        Returns why the search ends if that is not possible. It ends for want of passes only if
        some state needs one. Listing needs none: a single blank has one state to pass, and then
        all its fillings can be listed.
        """
        if passes_left <= 0 and len(self._open_states()):
            return "passes"
        if self.states.lists_everything():
            return "exhausted"
        if not self.states.widen():
            return "memory"
        return None

    def _next_states(self, size: int) -> list[State]:
        """At most `size` states: those missing from the fillings that look best come first, then
        those with the largest flow.
        """
        if size <= 0:
            return []
        states = self.states
        open_states = self._open_states()
        by_flow = open_states[np.argsort(-states.flow[open_states], kind="stable")]
        visited = [states.states[number] for number in by_flow[:size]]
        # Completing fillings takes at most `to_complete` passes, or all that `visited` leaves
        # unused if these are more. `visited` gets those that remain, the largest flow first.
        if self.most_sites < BEAMS_FROM:
            to_complete = size // 2
        else:
            to_complete = size - size // 8
        unused = size - len(visited)
        completing = self._missing_from_best(max(to_complete, unused))
        return list(dict.fromkeys([*completing, *visited]))[:size]

    def _open_states(self) -> NDArray[np.int64]:
        """The states that are listed, had no pass, and hide a site."""
        states = self.states
        had_no_pass = np.frombuffer(states.passed, np.uint8) == 0
        hides_a_site = np.frombuffer(states.hidden, np.int8) > 0
        numbers = np.flatnonzero(had_no_pass & hides_a_site)
        is_reached = states.flow[numbers] > 0  # else the listed moves do not lead there
        return numbers[is_reached]

    def _missing_from_best(self, most: int) -> list[State]:
        """At most `most` states that fillings miss.

        Fillings begun before come first, then those that look best.
        """
        self.begun = {number: None for number in self.begun if number not in self.log_probs}
        missing: dict[State, None] = {}  # without repetitions, in order
        for number in [*self.begun, *self._candidates()]:
            if len(missing) >= most:
                break
            self.begun[number] = None
            missing.update(dict.fromkeys(self._missing(number)))
        return list(missing)[:most]

    def _missing(self, number: int) -> list[State]:
        """The states of a filling that had no pass."""
        return self.states.missing(self.states.states[number])

    def _candidates(self) -> list[int]:
        """Fillings reached and not yet scored, at most MOST_CANDIDATES.

        They are ordered by the mean, over the orders o known, of the probability p_o of the
        filling by the chain rule in the order o (flow / cover).
        """
        states = self.states
        is_filling = np.frombuffer(states.hidden, np.int8) == 0
        numbers = np.flatnonzero(is_filling & (states.flow > 0))
        numbers = numbers[~np.isin(numbers, [*self.log_probs, *self.refused])]
        mean_over_known = states.flow[numbers] / states.cover[numbers]
        best_first = numbers[np.argsort(-mean_over_known, kind="stable")]
        return [
            number for number in best_first[:MOST_CANDIDATES].tolist() if self._is_accepted(number)
        ]

    def _is_accepted(self, number: int) -> bool:
        """What `accept` says of a filling, asked once."""
        if self.accept is None:
            return True
        if number not in self.verdicts:
            variant, *tokens = self.states.states[number]
            self.verdicts[number] = self.accept(variant, tuple(tokens))
        return self.verdicts[number]

    # Scores.

    def _settle(self) -> None:
        """Score the fillings that have become complete."""
        reached = [
            number
            for number in self.states.reached_by_all()
            if number not in self.log_probs and self._is_accepted(number)
        ]
        considered = [*reached, *self.begun, *self._candidates()]
        self._score([number for number in considered if not self._missing(number)])

    def _complete(self, fillings: Sequence[State]) -> None:
        """Score these fillings, whatever passes they take."""
        missing: list[State] = []
        for filling in fillings:
            missing += self.states.missing(filling)
        self.states.reveal(missing)
        self._score([self.states.number(filling) for filling in fillings])

    def _score(self, numbers: Sequence[int]) -> None:
        """Exact log-probabilities of fillings, all of whose states are passed."""
        distinct = list(dict.fromkeys(numbers))
        fillings = [self.states.states[number] for number in distinct]
        for members in grouped(fillings, len):  # by their number of sites
            log_probs = self.states.log_probs([fillings[i] for i in members])
            for i, log_prob in zip(members, log_probs, strict=True):
                self.log_probs[distinct[i]] = log_prob

    def _exact_filling(self, number: int) -> ScoredFilling:
        filling = self.states.states[number]
        return ScoredFilling(
            variant=filling[0],
            tokens=filling[1:],
            log_prob=self.log_probs[number],
            product_log_prob=self.states.log_product(filling),
        )

    def _sampled_fillings(
        self,
        variant: int,
        fillings: Sequence[tuple[int, ...]],
        orders: int,
        generator: torch.Generator,
    ) -> list[ScoredFilling]:
        """Fillings of one variant with their mean over the same sampled orders.

        fillings  their tokens
        orders    how many are sampled
        """
        of_variant = self.states.variants[variant]
        drawn = random_orders(texts=1, orders=orders, sites=of_variant.sites, generator=generator)
        shared_orders = drawn.expand(len(fillings), -1, -1)
        texts = torch.tensor([of_variant.cloze.filled(tokens) for tokens in fillings])
        positions = torch.tensor([of_variant.cloze.block])  # of the blanks in the text
        shared_positions = positions.expand(len(fillings), -1)
        by_order = along_orders(self.conditionals, texts, shared_positions, shared_orders)
        log_means, errors = log_mean_of_sampled(by_order)
        scored = []
        for tokens, log_mean, error in zip(
            fillings, log_means.tolist(), errors.tolist(), strict=True
        ):
            scored.append(
                ScoredFilling(
                    variant=variant,
                    tokens=tokens,
                    log_prob=log_mean + of_variant.log_weight,
                    product_log_prob=self.states.log_product((variant, *tokens)),
                    standard_error=error,
                )
            )
        return scored

    # Beams.

    def _affordable_width(self, variant: int) -> int:
        """How wide a variant's beams may be, and at least 1, for all beams to keep to their share.

        The passes are shared equally between the variants.
        """
        variants = len(self.states.variants)
        sites = self.states.variants[variant].sites
        passes_by_width = BEAM_ORDERS * sites * variants  # of beams of one state
        return max(1, self.budget // (BEAMS_SHARE * passes_by_width))

    def _follow_beams(self, variant: int, width: int) -> None:
        """Pass over the states of beams along BEAM_ORDERS orders of a variant's sites.

        Each beam keeps the `width` best states at each step. All beams share one call per step.
        """
        states = self.states
        root = states.states[states.roots[variant]]
        forward = list(range(states.variants[variant].sites))
        surest_first = states.surest(root)
        orders = [forward, forward[::-1], surest_first, surest_first[::-1]]  # BEAM_ORDERS of them
        # Each beam: (log of the product of the q along the order, state), best first
        beams: list[list[tuple[float, State]]] = [[(0.0, root)] for _ in orders]
        for step in range(len(forward)):
            in_beams: list[State] = []
            for beam in beams:
                in_beams += [state for _, state in beam]
            states.reveal(in_beams)
            self._report()
            beams = [
                self._next_beam(beam, order[step], width)
                for beam, order in zip(beams, orders, strict=True)
            ]

    def _next_beam(
        self, beam: Sequence[tuple[float, State]], site: int, width: int
    ) -> list[tuple[float, State]]:
        """The `width` best states after a move at `site` from a beam's states."""
        longer = []
        for log_prob, state in beam:
            for log_q, after in self.states.moves(state, site, width):
                longer.append((log_prob + log_q, after))
        return sorted(longer, reverse=True)[:width]
