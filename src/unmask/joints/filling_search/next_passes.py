"""Which states the next passes go to: to those of the best fillings, or where the flow is largest.

open states        listed, without a pass, with a hidden site, and reached
missing states     states that a filling still needs before it can be scored
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unmask.joints.filling_search.pool import FillingPool
from unmask.tables.exploration import Exploration, State

FEW_SITES = 4
"""With at most so many sites the flow alone reaches whole fillings soon. With more, most passes
go to completing fillings.
"""


def open_states(exploration: Exploration) -> NDArray[np.int64]:
    """The numbers of the states that are listed, had no pass, and hide a site."""
    had_no_pass = np.frombuffer(exploration.passed, np.uint8) == 0
    hides_a_site = np.frombuffer(exploration.hidden, np.int8) > 0
    unpassed = np.flatnonzero(had_no_pass & hides_a_site)
    is_reached = exploration.flow[unpassed] > 0  # else the listed moves do not lead there
    return unpassed[is_reached]


class NextPasses:
    """The choice of the states to pass over next.

    begun  numbers of the fillings that passes have gone to completing, first ones first
    """

    def __init__(self, pool: FillingPool) -> None:
        self.begun: list[int] = []
        self._pool = pool
        self._most_sites = max(variant.sites for variant in pool.exploration.variants)

    def choose(self, size: int) -> list[State]:
        """At most `size` states: first those that the best fillings miss, then those with the
        largest flow.

        Completing fillings takes its share of the passes, and all that the open states cannot
        use. If it needs less, the open states have the rest.
        """
        if size <= 0:
            return []
        by_flow = self._by_flow(size)
        share = self._share_of_completing(size)
        unused_by_flow = size - len(by_flow)
        completing = self._missing_from_best(max(share, unused_by_flow))
        in_completing = set(completing)
        others = [state for state in by_flow if state not in in_completing]
        return [*completing, *others[: size - len(completing)]]

    def _share_of_completing(self, size: int) -> int:
        """How many of `size` passes are for completing fillings."""
        if self._most_sites <= FEW_SITES:
            return size // 2
        return size - size // 8

    def _by_flow(self, most: int) -> list[State]:
        """The `most` open states with the largest flow, that with the largest first."""
        exploration = self._pool.exploration
        numbers = open_states(exploration)
        largest_first = numbers[np.argsort(-exploration.flow[numbers], kind="stable")]
        return [exploration.states[number] for number in largest_first[:most]]

    def _missing_from_best(self, most: int) -> list[State]:
        """At most `most` states that fillings miss, without repetitions.

        Fillings begun before come first, in the order in which they were begun. Then come those
        that look best, and the ones whose states are taken count as begun.
        """
        self.begun = [filling for filling in self.begun if filling not in self._pool.log_probs]
        were_begun = set(self.begun)
        new = [filling for filling in self._pool.candidates() if filling not in were_begun]
        missing: dict[State, None] = {}  # an ordered set: only the keys count
        for filling in self.begun:
            if len(missing) >= most:
                break
            missing.update(dict.fromkeys(self._pool.missing(filling)))
        for filling in new:
            if len(missing) >= most:
                break
            missing.update(dict.fromkeys(self._pool.missing(filling)))
            self.begun.append(filling)
        return list(missing)[:most]
