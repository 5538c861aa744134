"""The most probable fillings under the chain rule averaged over all orders, found best first.

A filling x gives each of a text's k blanks a token, of the whole vocabulary. A state is a filling
of which some sites may still be hidden. One pass over a state gives q at its hidden sites, for all
orders and fillings that go through it. p(x) needs no normaliser and no candidate sets, only a pass
over each of the 2^k - 1 states that agree with x and hide a site (`unmask.tables.exploration`).

The search takes rounds:

1. Score the fillings whose states are all passed: these p(x) are exact, up to rounding
   (`unmask.tables.rounding`), and their sum is the mass seen.
2. Bound p(x) of all other fillings. Fillings above the bound, and apart from each other, are
   certain to be the best, in their order. Where tokens or changes are limited, "other" means
   allowed.
3. End if that is enough, or if what the search may use is used up.
4. Else pass over the next states (`filling_search/next_passes.py`). If there are none, list moves
   that were left out as too unlikely.

Two things stand around the rounds. Before them, where a text has many blanks, beams lead to a few
whole fillings (`filling_search/beams.py`). In place of them, where a filling has too many states,
fillings are found by beams alone and scored along sampled orders
(`filling_search/sampled_orders.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nlargest
from math import exp, fsum, log

from unmask.joints.filling_search.beams import affordable_width, follow_beams
from unmask.joints.filling_search.budget import PassBudget
from unmask.joints.filling_search.found import ChainSearch, best_first
from unmask.joints.filling_search.next_passes import FEW_SITES, NextPasses, open_states
from unmask.joints.filling_search.pool import Accept, FillingPool
from unmask.joints.filling_search.sampled_orders import FILLINGS, by_sampled_orders
from unmask.runs.progress import Enough, Progress
from unmask.tables.conditionals import Conditionals
from unmask.tables.exploration import Exploration, State, Variant
from unmask.tables.rounding import Rounding

EXACT_SITES = 8  # Up to so many sites, 255 passes per filling, the search is exact in any case


def samples_orders(sites: int, passes: int) -> bool:
    """Whether fillings of so many sites are scored along sampled orders, in a search of at most
    `passes`: if all orders of FILLINGS fillings take more.

    What is computed follows from these two numbers. It does not follow from what is asked of it.
    """
    states_of_filling = 2**sites - 1
    return sites > EXACT_SITES and FILLINGS * states_of_filling > passes


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
    most_sites: int | None = None,
) -> ChainSearch:
    """Search fillings of the variants, within `passes`.

    The search ends when the `top` best are certain; with `mass`, when the fillings found have
    this much mass.

    wanted      fillings that are scored whatever they cost
    accept      only fillings that it agrees to are found, or count in the bound
    seed        of the sampled orders beyond EXACT_SITES
    most_sites  of the text's longest variant, also where that is not searched, since a filter
                leaves nothing of it [default: of `variants`]
    """
    exploration = Exploration(conditionals, variants, listed=2 * top, rounding=rounding)
    pool = FillingPool(exploration, accept)
    budget = PassBudget(conditionals, passes, progress)
    if most_sites is None:
        most_sites = max(variant.sites for variant in variants)
    if samples_orders(most_sites, passes):
        return by_sampled_orders(pool, budget, wanted=wanted, seed=seed)
    return _BestFirst(pool, budget, top=top, mass=mass).search(wanted)


BEAM_WIDTH = 8  # States that a beam keeps at each step, at most, before the rounds
FIRST_ROUND = 8  # Passes of a round at first, while little is known
ROUND = 64  # Passes of a round later: enough to fill the model's batches
MOST_BYTES = 2**31  # Bytes of the distributions that are kept


class _BestFirst:
    """The search by rounds, for exact probabilities.

    top   fillings that are to be certain, if no mass is asked for
    mass  that the fillings found are to have
    """

    def __init__(self, pool: FillingPool, budget: PassBudget, top: int, mass: float | None) -> None:
        self._pool = pool
        self._exploration = pool.exploration
        self._budget = budget
        self._top = top
        self._mass = mass
        self._next_passes = NextPasses(pool)

    def search(self, wanted: Sequence[State]) -> ChainSearch:
        """What there is to find; if the model raises `Enough` on the way, what was found till
        then.
        """
        exploration = self._exploration
        exploration.reveal([exploration.states[root] for root in exploration.roots])
        try:
            self._score_wanted(wanted)
            self._follow_beams()
            stopped, bound = self._rounds()
        except Enough:  # the passes before it count, and may have completed fillings
            self._score_complete()
            stopped = "asked"
            bound = self._bound()
        return ChainSearch(
            fillings=best_first(self._pool.scored()),
            bound=bound,
            passes=self._budget.taken,
            stopped=stopped,
            exact=True,
            rounding=exploration.rounding,
        )

    # Before the rounds.

    def _score_wanted(self, wanted: Sequence[State]) -> None:
        """Score these fillings, whatever passes they take."""
        missing: list[State] = []
        for filling in wanted:
            missing += self._exploration.missing(filling)
        self._exploration.reveal(missing)
        self._pool.score([self._exploration.number(filling) for filling in wanted])

    def _follow_beams(self) -> None:
        """Beams in the variants in which the flow alone is slow to reach whole fillings."""
        exploration = self._exploration
        for index, variant in enumerate(exploration.variants):
            if variant.sites > FEW_SITES:
                width = min(BEAM_WIDTH, affordable_width(exploration, index, self._budget.most))
                follow_beams(exploration, index, width, after_step=self._budget.report)

    # The rounds.

    def _rounds(self) -> tuple[str, float]:
        """Rounds until something ends them: why they ended, and the bound."""
        while True:
            self._score_complete()
            bound = self._bound()
            stopped = self._reason_to_stop(bound)
            if stopped is None:
                next_states = self._next_passes.choose(self._size_of_round())
                if next_states:
                    self._exploration.reveal(next_states)
                else:
                    stopped = self._reason_to_list_no_more()
                    if stopped is None and not self._exploration.widen():
                        stopped = "memory"
            self._budget.report()
            if stopped is not None:
                return stopped, bound

    def _score_complete(self) -> None:
        self._pool.score_complete(self._next_passes.begun)

    def _bound(self) -> float:
        """No filling that is allowed and not scored has a larger probability."""
        return self._pool.bound_beyond(self._pool.log_probs)

    def _size_of_round(self) -> int:
        """Passes of the next round: a quarter of those taken, between FIRST_ROUND and ROUND, and
        no more than are left.
        """
        growing = max(FIRST_ROUND, self._budget.taken // 4)
        return min(growing, ROUND, self._budget.left)

    def _reason_to_stop(self, bound: float) -> str | None:
        """Why the search ends with what it has found; None if it goes on."""
        if bound == 0:
            return "exhausted"
        if self._mass is None:
            if self._top_is_certain(bound):
                return "certain"
        elif fsum(map(exp, self._pool.lows())) >= self._mass:
            return "mass"
        if self._exploration.bytes >= MOST_BYTES:
            return "memory"
        return None

    def _top_is_certain(self, bound: float) -> bool:
        """Whether no other filling is among the `top` best."""
        lows = self._pool.lows()
        if len(lows) < self._top:
            return False
        last_of_top = nlargest(self._top, lows)[-1]
        return last_of_top >= log(bound)

    def _reason_to_list_no_more(self) -> str | None:
        """Why the search ends when no pass is left or no state to pass over; None if less likely
        moves are to be listed.

        It ends for want of passes only if some state needs one. Listing needs none: a single
        blank has one state to pass, and then all its fillings can be listed.
        """
        if self._budget.left <= 0 and len(open_states(self._exploration)) > 0:
            return "passes"
        if self._exploration.lists_everything():
            return "exhausted"
        return None
