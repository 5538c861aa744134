"""The fillings that a search has reached: which may be found, look best, are scored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from unmask.common.batches import grouped
from unmask.joints.filling_search.found import ScoredFilling
from unmask.tables.exploration import Exploration, State

MOST_CANDIDATES = 256  # Fillings that are considered at a time: four rounds of 64 passes

Accept = Callable[[int, tuple[int, ...]], bool]
"""Whether a filling may be found, given the index of its variant and its tokens."""


class FillingPool:
    """The fillings that an exploration has reached.

    A filling is a state that hides no site. It is known by its number in the exploration.

    log_probs  exact log-probability of every filling that is scored, by its number
    """

    def __init__(self, exploration: Exploration, accept: Accept | None) -> None:
        self.exploration = exploration
        self.log_probs: dict[int, float] = {}
        self._accept = accept
        self._verdicts: dict[int, bool] = {}  # what `accept` said of every filling it was shown

    # What may be found.

    def candidates(self) -> list[int]:
        """The accepted ones among the MOST_CANDIDATES fillings that look best, of those that are
        reached, and neither scored nor refused.

        They are ordered by the mean, over the orders o known, of the probability p_o of the
        filling by the chain rule in the order o (flow / cover).
        """
        exploration = self.exploration
        is_filling = np.frombuffer(exploration.hidden, np.int8) == 0
        is_reached = exploration.flow > 0
        reached = np.flatnonzero(is_filling & is_reached)
        set_aside = [*self.log_probs, *self.refused]
        unscored = reached[~np.isin(reached, set_aside)]
        mean_over_known = exploration.flow[unscored] / exploration.cover[unscored]
        best_first = unscored[np.argsort(-mean_over_known, kind="stable")]
        considered = best_first[:MOST_CANDIDATES].tolist()
        return [filling for filling in considered if self.is_accepted(filling)]

    def is_accepted(self, filling: int) -> bool:
        """What `accept` says of a filling. It is asked once."""
        if self._accept is None:
            return True
        if filling not in self._verdicts:
            variant, *tokens = self.exploration.states[filling]
            self._verdicts[filling] = self._accept(variant, tuple(tokens))
        return self._verdicts[filling]

    @property
    def refused(self) -> list[int]:
        """The fillings that `accept` did not agree to."""
        return [filling for filling, accepted in self._verdicts.items() if not accepted]

    def bound_beyond(self, found: Iterable[int]) -> float:
        """No filling has a larger probability, but those `found` and those refused."""
        aside = [*found, *self.refused]
        return self.exploration.bound(np.array(aside, dtype=np.int64))

    # Exact scores.

    def missing(self, filling: int) -> list[State]:
        """The states of a filling that had no pass."""
        return self.exploration.missing(self.exploration.states[filling])

    def score_complete(self, begun: Sequence[int]) -> None:
        """Score the fillings that have become complete: those without a missing state.

        begun  fillings that passes have gone to completing
        """
        reached_by_all = [
            filling
            for filling in self.exploration.reached_by_all()
            if filling not in self.log_probs and self.is_accepted(filling)
        ]
        considered = [*reached_by_all, *begun, *self.candidates()]
        self.score([filling for filling in considered if not self.missing(filling)])

    def score(self, complete: Sequence[int]) -> None:
        """Exact log-probabilities of fillings, all of whose states are passed."""
        distinct = list(dict.fromkeys(complete))
        states = [self.exploration.states[filling] for filling in distinct]
        for places in grouped(states, len):  # of fillings with equally many sites
            log_probs = self.exploration.log_probs([states[place] for place in places])
            for place, log_prob in zip(places, log_probs, strict=True):
                self.log_probs[distinct[place]] = log_prob

    def lows(self) -> list[float]:
        """For each scored filling, no more than its log-probability, whatever was rounded."""
        lows: list[float] = []
        for filling, log_prob in self.log_probs.items():
            sites = len(self.exploration.states[filling]) - 1
            lows.append(self.exploration.rounding.low(log_prob, sites))
        return lows

    def scored(self) -> list[ScoredFilling]:
        """The fillings that are scored."""
        fillings: list[ScoredFilling] = []
        for filling, log_prob in self.log_probs.items():
            state = self.exploration.states[filling]
            fillings.append(
                ScoredFilling(
                    variant=state[0],
                    tokens=state[1:],
                    log_prob=log_prob,
                    product_log_prob=self.exploration.log_product(state),
                )
            )
        return fillings
