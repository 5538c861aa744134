"""Minimal pairs: how often the acceptable sentence has the better score.

    accuracy = (pairs with good better than bad + ties / 2) / pairs

with Wilson's 95 % interval, which stays between 0 and 1 for few pairs too. Ties are counted and
reported: identical sentences (BLiMP has some) tie by any score. A pair with a sentence that has
no score is left out of the accuracy, and counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from unmask.common.files import write_json
from unmask.common.intervals import wilson
from unmask.scoring.items import own_name
from unmask.scoring.results import OfScores, Scores
from unmask.scoring.row_shape import Rows, RowShape, warn_of_renamed
from unmask.scoring.sentence_pairs import SentencePair

TIE = 0.5
"""What a tie adds to the number of correct pairs."""


@dataclass(frozen=True, repr=False)
class PairScores(OfScores):
    """Minimal pairs with the scores of both sentences, from `unmask.minimal_pairs`.

    shape     the scores and their unit
    rows      one row per pair: set, phenomenon, sentence_good, sentence_bad, and for each score
              good_NAME, bad_NAME and NAME_correct: 1 if the good sentence has the better score,
              0.5 for a tie, 0 if the bad one has, None if one has none
    renamed   columns of ours that have another name, because the user has a column of this one

    >>> pair = {"sentence_good": "The keys are here.", "sentence_bad": "The keys is here."}
    >>> unmask.minimal_pairs([pair]).accuracy[-1]["accuracy"]
    1.0
    """

    KEYS: ClassVar[tuple[str, ...]] = ("scores", "unit", "accuracy", "pairs=rows")
    ROWS: ClassVar[str] = "accuracy"

    shape: RowShape
    rows: Rows
    renamed: Mapping[str, str] = field(default_factory=dict)

    def _own(self, row: Mapping[str, Any], column: str) -> Any:
        """The value of one of our columns."""
        return row[self.renamed.get(column, column)]

    @cached_property
    def accuracy(self) -> Rows:
        """Per score: over each set, each phenomenon, and all pairs: accuracy, its interval,
        pairs, ties, unscored.
        """
        rows = []
        for score in self.shape.scores:
            correct = [self._own(row, f"{score.name}_correct") for row in self.rows]
            for level in ("set", "phenomenon"):
                groups: dict[str, list[float | None]] = {}
                for row, answer in zip(self.rows, correct, strict=True):
                    group = self._own(row, level)
                    if group is not None:
                        groups.setdefault(group, []).append(answer)
                for name, answers in groups.items():
                    rows.append(_accuracy_row(score.name, level, name, answers))
            rows.append(_accuracy_row(score.name, "all", "all", correct))
        return rows

    def reasons(self) -> Iterator[tuple[int, str | None]]:
        """The number of each pair, from 1, and why one of its sentences lacks a number (None:
        none does).
        """
        return enumerate((self._own(row, "reason") for row in self.rows), 1)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        overall = [
            f"{row['score']} {row['accuracy']:.1%}"
            for row in self.accuracy
            if row["level"] == "all" and row["pairs"]
        ]
        return f"PairScores({len(self)} pairs; {', '.join(overall)})"


def compare_pairs(pairs: Sequence[SentencePair], scores: Scores) -> PairScores:
    """Pairs and the scores of their sentences: good, bad, good, bad, ...; a run folder gets
    their accuracy.
    """
    taken = {name for pair in pairs for name in pair.columns}
    renamed: dict[str, str] = {}
    compared: Rows = []
    rows_of_good = scores.rows[::2]
    rows_of_bad = scores.rows[1::2]
    for pair, good, bad in zip(pairs, rows_of_good, rows_of_bad, strict=True):
        row = _pair_row(pair, good, bad, scores.shape)
        renamed |= {name: own_name(name, taken) for name in row if name in taken}
        ours = {own_name(name, taken): value for name, value in row.items()}
        compared.append({**pair.columns, **ours})
    warn_of_renamed(renamed)
    result = PairScores(scores.shape, compared, renamed)
    if scores.folder is not None:
        accuracy = {"unit": result.unit, "accuracy": result.accuracy}
        write_json(scores.folder / "accuracy.json", accuracy)
    return result


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
        "pairs": n,
        "ties": sum(answer == TIE for answer in known),
        "unscored": len(answers) - n,
    }
