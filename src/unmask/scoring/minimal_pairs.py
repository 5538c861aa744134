"""Minimal pairs: how often the acceptable sentence has the better score.

    accuracy = (pairs with good better than bad + ties / 2) / pairs

with Wilson's 95 % interval, which stays between 0 and 1 for few pairs too. Ties are counted and reported: identical sentences
(BLiMP has some) tie by any score. A pair with a sentence that has no score is left out of the accuracy, and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import TYPE_CHECKING, Any

from unmask.scoring.reading import Pair
from unmask.scoring.registry import SCORES
from unmask.scoring.results import about

if TYPE_CHECKING:
    import pandas

NORMAL_95 = 1.959963984540054


@dataclass(frozen=True, repr=False)
class PairScores:
    """Minimal pairs with the scores of both sentences.

    rows   one per pair: set, phenomenon, sentence_good, sentence_bad, and for each score good_NAME, bad_NAME and NAME_correct:
           1 where the good sentence has the better score, 0.5 for a tie, 0 where the bad one has, None where one has no score
    """

    names: tuple[str, ...]
    unit: str
    rows: list[dict[str, Any]]

    @cached_property
    def accuracy(self) -> list[dict[str, Any]]:
        """Per score: over each set, each phenomenon, and all pairs: accuracy, its interval, pairs, ties, unscored."""
        found = []
        for name in self.names:
            for level in ("set", "phenomenon"):
                groups: dict[str, list[float | None]] = {}
                for row in self.rows:
                    if row[level] is not None:
                        groups.setdefault(row[level], []).append(row[f"{name}_correct"])
                found += [{"score": name, "level": level, "name": key, **share(answers)} for key, answers in groups.items()]
            found.append({"score": name, "level": "all", "name": "all", **share([row[f"{name}_correct"] for row in self.rows])})
        return found

    def __len__(self) -> int:
        return len(self.rows)

    def to_dict(self) -> dict[str, Any]:
        """The scores' definitions, the accuracies and the pairs."""
        return {"scores": about(self.names), "unit": self.unit, "accuracy": self.accuracy, "pairs": self.rows}

    def to_frame(self) -> pandas.DataFrame:
        """One row per score and set, phenomenon or all pairs."""
        import pandas

        return pandas.DataFrame(self.accuracy)

    def __repr__(self) -> str:
        overall = [f"{row['score']} {row['accuracy']:.1%}" for row in self.accuracy if row["level"] == "all" and row["pairs"]]
        return f"PairScores({len(self)} pairs; {', '.join(overall)})"

    def _repr_html_(self) -> str:
        return str(self.to_frame().to_html(index=False))


def compare_pairs(pairs: Sequence[Pair], rows: Sequence[dict[str, Any]], names: Sequence[str], unit: str) -> PairScores:
    """Pairs and the rows of their sentences: good, bad, good, bad, ..."""
    compared = []
    for number, pair in enumerate(pairs):
        good, bad = rows[2 * number], rows[2 * number + 1]
        row: dict[str, Any] = {
            "set": pair.set,
            "phenomenon": pair.phenomenon,
            "sentence_good": pair.good,
            "sentence_bad": pair.bad,
        }
        for name in names:
            row |= {f"good_{name}": good[name], f"bad_{name}": bad[name]}
            row[f"{name}_correct"] = _correct(good[name], bad[name], SCORES[name].better, pair.good == pair.bad)
        compared.append(row | {"reason": good["reason"] or bad["reason"]})
    return PairScores(tuple(names), unit, compared)


def share(answers: Sequence[float | None]) -> dict[str, Any]:
    """Accuracy of answers 1, 0.5 and 0 with Wilson's interval; None is a pair without a score."""
    known = [answer for answer in answers if answer is not None]
    n, ties = len(known), sum(answer == 0.5 for answer in known)
    low, high = wilson(sum(known), n) if n else (None, None)
    return {
        "accuracy": sum(known) / n if n else None,
        "low": low,
        "high": high,
        "pairs": n,
        "ties": ties,
        "unscored": len(answers) - n,
    }


def wilson(right: float, n: int) -> tuple[float, float]:
    """The 95 % interval of a share of `right` out of `n` (Wilson 1927)."""
    p, z = right / n, NORMAL_95
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return middle - half, middle + half


def _correct(good: float | None, bad: float | None, better: int, same: bool) -> float | None:
    if good is None or bad is None:
        return None
    difference = better * (good - bad)
    return 0.5 if same or difference == 0 else float(difference > 0)
