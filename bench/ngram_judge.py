"""A causal language model that trains in seconds: interpolated Kneser-Ney over the tokens of a masked model's tokenizer.

    P_n(w | c) = max(k(c w) - D, 0) / k(c .) + D N(c .) / k(c .) P_{n-1}(w | c without its first token)

k: counts at the highest order, numbers of different left neighbours below it; N: different tokens seen after c; D = n_1 / (n_1 +
2 n_2) for each order; P_0 is uniform over the vocabulary. Texts are joined as they are tokenised, [CLS] ... [SEP] [CLS] ...
[SEP], so that the beginning and the end of a text are predicted as tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]


class KneserNey:
    """Trained on one long row of token ids."""

    def __init__(self, ids: Ids, vocabulary: int, order: int = 4) -> None:
        if vocabulary**order >= 2**63:
            raise SystemExit(f"{order}-grams over {vocabulary} tokens do not fit into 64 bits: use a lower order")
        self.vocabulary, self.order = vocabulary, order
        windows = np.lib.stride_tricks.sliding_window_view(ids, order)
        keys = np.zeros(len(windows), dtype=np.int64)
        for column in windows.T:
            keys = keys * vocabulary + column
        self.levels: list[_Level] = []
        grams, counts = np.unique(keys, return_counts=True)
        for n in range(order, 0, -1):
            self.levels.insert(0, _Level(grams, counts, vocabulary))
            if n > 1:
                grams, counts = np.unique(grams % vocabulary ** (n - 1), return_counts=True)

    def log_probs(self, text: Sequence[int], given: int = 1) -> NDArray[np.float64]:
        """log P of each token after the first `given`."""
        return np.log([self.probability(text[max(0, i - self.order + 1) : i], text[i]) for i in range(given, len(text))])

    def probability(self, context: Sequence[int], token: int) -> float:
        """P(token | context), of which the last order - 1 tokens count."""
        value = 1.0 / self.vocabulary
        for n, level in enumerate(self.levels):
            if n > len(context):
                break
            key = 0
            for t in context[len(context) - n :]:
                key = key * self.vocabulary + int(t)
            value = level.interpolate(key, token, value)
        return value


class _Level:
    """Counts of one order."""

    def __init__(self, grams: Ids, counts: Ids, vocabulary: int) -> None:
        self.grams, self.counts, self.vocabulary = grams, counts, vocabulary
        self.contexts, first = np.unique(grams // vocabulary, return_index=True)
        self.totals = np.add.reduceat(counts, first)
        self.followers = np.diff([*first, len(grams)])
        ones, twos = int((counts == 1).sum()), int((counts == 2).sum())
        self.discount = ones / (ones + 2 * twos) if ones else 0.5

    def interpolate(self, context: int, token: int, below: float) -> float:
        place = int(np.searchsorted(self.contexts, context))
        if place == len(self.contexts) or self.contexts[place] != context:
            return below
        gram = context * self.vocabulary + token
        found = int(np.searchsorted(self.grams, gram))
        seen = int(self.counts[found]) if found < len(self.grams) and self.grams[found] == gram else 0
        total = int(self.totals[place])
        return float(max(seen - self.discount, 0.0) / total + self.discount * int(self.followers[place]) / total * below)


def check(model: KneserNey, contexts: Sequence[Sequence[int]]) -> float:
    """How far the conditional distributions are from summing to one, at most; the script prints it."""
    sums = [sum(model.probability(c, w) for w in range(model.vocabulary)) for c in contexts]
    return max(abs(s - 1) for s in sums)
