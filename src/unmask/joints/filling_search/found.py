"""What a search of fillings has found, and how many of the best are certain to be the best."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, fsum, inf, log

from unmask.tables.rounding import Rounding


@dataclass(frozen=True)
class ScoredFilling:
    """A filling of a variant.

    variant           the variant's index
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
        highest_rivals = self._highest_rivals(listed)
        for place, filling in enumerate(listed):
            if self.low(filling) < highest_rivals[place]:
                return place
        return len(listed)

    def _highest_rivals(self, listed: Sequence[ScoredFilling]) -> list[float]:
        """For each place of the list, what no log-probability exceeds of the fillings that follow
        it and of those that were not found.
        """
        highest = -inf
        if self.bound > 0:
            highest = log(self.bound)
        from_the_end: list[float] = []
        for filling in reversed(listed):
            from_the_end.append(highest)
            highest = max(highest, self.high(filling))
        return from_the_end[::-1]


def best_first(fillings: Iterable[ScoredFilling]) -> list[ScoredFilling]:
    """The fillings by their probability, the largest first."""
    return sorted(fillings, key=lambda filling: -filling.log_prob)
