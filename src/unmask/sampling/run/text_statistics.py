"""Statistics of a set of texts, on token ids.

self-BLEU    mean over texts of BLEU-4 against all the others as references: 1 when the set repeats itself
distinct-n   different n-grams over all n-grams: 1 when none occurs twice
stutter      share of neighbouring tokens that are equal
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import exp, log

Tokens = Sequence[int]
LARGEST_N = 4
MOST_TEXTS = 256
"""Self-BLEU compares every text with every other; larger sets are thinned to this many, evenly."""


def ngrams(text: Tokens, n: int) -> Counter[tuple[int, ...]]:
    """How often each run of n tokens occurs."""
    return Counter(tuple(text[i : i + n]) for i in range(len(text) - n + 1))


def bleu(text: Tokens, references: Sequence[Tokens], largest: int = LARGEST_N) -> float:
    """BLEU of one text (Papineni et al. 2002): clipped n-gram precisions, n = 1..largest, and the brevity penalty.

    A precision of zero is taken as 1 / (2 counted n-grams); orders longer than the text are left out.
    """
    return _bleu(text, [[ngrams(r, n) for n in range(1, largest + 1)] for r in references], [len(r) for r in references])


def _bleu(text: Tokens, references: Sequence[Sequence[Counter[tuple[int, ...]]]], lengths: Sequence[int]) -> float:
    logs = []
    for n in range(1, len(references[0]) + 1):
        own = ngrams(text, n)
        total = sum(own.values())
        if not total:
            break
        matched = sum(min(count, max(r[n - 1][gram] for r in references)) for gram, count in own.items())
        logs.append(log(matched / total if matched else 1 / (2 * total)))
    if not logs:
        return 0.0
    closest = min(lengths, key=lambda length: (abs(length - len(text)), length))
    brevity = min(0.0, 1 - closest / len(text))
    return exp(brevity + sum(logs) / len(logs))


def self_bleu(texts: Sequence[Tokens]) -> float:
    """Mean BLEU of each text against all the others; nan for fewer than two."""
    every = max(1, -(-len(texts) // MOST_TEXTS))
    chosen = list(texts)[::every]
    if len(chosen) < 2:
        return float("nan")
    counted = [[ngrams(t, n) for n in range(1, LARGEST_N + 1)] for t in chosen]
    lengths = [len(t) for t in chosen]
    scores = [_bleu(text, counted[:i] + counted[i + 1 :], lengths[:i] + lengths[i + 1 :]) for i, text in enumerate(chosen)]
    return sum(scores) / len(scores)


def distinct(texts: Sequence[Tokens], n: int) -> float:
    """Share of n-grams that are different; NaN where there are no n-grams."""
    counts: Counter[tuple[int, ...]] = Counter()
    for text in texts:
        counts.update(ngrams(text, n))
    total = sum(counts.values())
    return len(counts) / total if total else float("nan")


def stutters(text: Tokens) -> int:
    """How many neighbours are equal."""
    return sum(a == b for a, b in zip(text, text[1:], strict=False))


def stutter_rate(texts: Sequence[Tokens]) -> float:
    """Share of neighbouring tokens that are equal; nan for texts of one token."""
    pairs = sum(max(0, len(t) - 1) for t in texts)
    return sum(stutters(t) for t in texts) / pairs if pairs else float("nan")
