"""Minimal pairs: how often the acceptable sentence has the better score.

    accuracy = (pairs with good better than bad + ties / 2) / pairs

with Wilson's 95 % interval, which stays between 0 and 1 for few pairs too. Ties are counted and
reported: identical sentences (BLiMP has some) tie by any score. A pair with a sentence that has
no score is left out of the accuracy, and counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unmask.common.intervals import wilson
from unmask.scoring.items import own_name
from unmask.scoring.row_shape import Rows, RowShape, warn_of_renamed
from unmask.scoring.scored_rows import ScoredRows
from unmask.scoring.scores.score import Score
from unmask.scoring.sentence_pairs import SentencePair

TIE = 0.5
"""What a tie adds to the number of correct pairs."""


@dataclass(frozen=True)
class ComparedPairs:
    """One row per pair, with the scores of both sentences.

    rows      set, phenomenon, sentence_good, sentence_bad, and for each score good_NAME, bad_NAME
              and NAME_correct: 1 if the good sentence has the better score, 0.5 for a tie, 0 if
              the bad one has, None if one has none
    renamed   columns of ours that have another name, because the user has a column of this one
    """

    rows: Rows
    renamed: Mapping[str, str]

    def own(self, row: Mapping[str, Any], column: str) -> Any:
        """The value of one of our columns."""
        return row[self.renamed.get(column, column)]

    def accuracies(self, scores: Sequence[Score]) -> Rows:
        """For each score, each set, each phenomenon, and all pairs: accuracy, its interval (low,
        high), n_pairs, n_ties, n_unscored.
        """
        rows = []
        for score in scores:
            correct = [self.own(row, f"{score.name}_correct") for row in self.rows]
            for level in ("set", "phenomenon"):
                groups: dict[str, list[float | None]] = {}
                for row, answer in zip(self.rows, correct, strict=True):
                    group = self.own(row, level)
                    if group is not None:
                        groups.setdefault(group, []).append(answer)
                for name, answers in groups.items():
                    rows.append(_accuracy_row(score.name, level, name, answers))
            rows.append(_accuracy_row(score.name, "all", "all", correct))
        return rows


def compare_pairs(pairs: Sequence[SentencePair], scored: ScoredRows) -> ComparedPairs:
    """Pairs and the scores of their sentences: good, bad, good, bad, ..."""
    taken = {name for pair in pairs for name in pair.columns}
    renamed: dict[str, str] = {}
    compared: Rows = []
    rows_of_good = scored.rows[::2]
    rows_of_bad = scored.rows[1::2]
    for pair, good, bad in zip(pairs, rows_of_good, rows_of_bad, strict=True):
        row = _pair_row(pair, good, bad, scored.shape)
        renamed |= {name: own_name(name, taken) for name in row if name in taken}
        ours = {own_name(name, taken): value for name, value in row.items()}
        compared.append({**pair.columns, **ours})
    warn_of_renamed(renamed)
    return ComparedPairs(rows=compared, renamed=renamed)


def _pair_row(
    pair: SentencePair, good: Mapping[str, Any], bad: Mapping[str, Any], shape: RowShape
) -> dict[str, Any]:
    """Our columns of a pair, from the rows of its sentences."""
    row: dict[str, Any] = {
        "set": pair.set,
        "phenomenon": pair.phenomenon,
        "sentence_good": pair.good.text,
        "sentence_bad": pair.bad.text,
    }
    for score in shape.scores:
        own = shape.own(score.name)
        row[f"good_{score.name}"] = good[own]
        row[f"bad_{score.name}"] = bad[own]
        row[f"{score.name}_correct"] = _correct(
            good[own], bad[own], score.better, is_same=pair.good == pair.bad
        )
    row["reason"] = good[shape.own("reason")] or bad[shape.own("reason")]
    return row


def _correct(good: float | None, bad: float | None, better: int, is_same: bool) -> float | None:
    """Whether the good sentence has the better score; None if one of them has none."""
    if good is None or bad is None:
        return None
    if is_same or good == bad:
        return TIE
    return float(better * good > better * bad)


def _accuracy_row(
    score: str, level: str, name: str, answers: Sequence[float | None]
) -> dict[str, Any]:
    """The accuracy of a score on one set, on one phenomenon, or on all pairs."""
    return {"score": score, "level": level, "name": name, **share(answers)}


def share(answers: Sequence[float | None]) -> dict[str, Any]:
    """Accuracy of answers 1, 0.5 and 0 with Wilson's interval; None is a pair without a score."""
    known = [answer for answer in answers if answer is not None]
    n = len(known)
    accuracy = low = high = None
    if n:
        accuracy = sum(known) / n
        low, high = wilson(sum(known), n)
    return {
        "accuracy": accuracy,
        "low": low,
        "high": high,
        "n_pairs": n,
        "n_ties": sum(answer == TIE for answer in known),
        "n_unscored": len(answers) - n,
    }
