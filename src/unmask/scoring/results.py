"""The results of `score`: rows of texts with their differences token by token, and minimal pairs with their accuracy.

Two texts are aligned by the longest common runs of their tokens; a stretch that differs is put side by side and filled up with
gaps. Every token is in exactly one row, so the differences of a score's shares add up to the difference of the scores.

Minimal pairs: how often the acceptable sentence has the better score,

    accuracy = (pairs with good better than bad + ties / 2) / pairs

with Wilson's 95 % interval, which stays between 0 and 1 for few pairs too. Ties are counted and reported: identical sentences
(BLiMP has some) tie by any score. A pair with a sentence that has no score is left out of the accuracy, and counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from html import escape
from itertools import zip_longest
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.checks import whole
from unmask.errors import InputError
from unmask.runs.folder import Part, read_parts, read_rows
from unmask.scoring.batch import ScoreSettings
from unmask.scoring.registry import SCORES, about, share_column
from unmask.scoring.rows import RowShape
from unmask.scoring.texts import SentencePair

if TYPE_CHECKING:
    import pandas

SHOWN = 20
"""Rows that a notebook shows."""
BETWEEN = " | "
"""Between several bad sentences of one good one."""
NORMAL_95 = 1.959963984540054


@dataclass(frozen=True, repr=False)
class Scores:
    """The rows of a call of `unmask.score`, one per text, word or token, as mappings; a notebook shows them as a table.

    `len`, `for` and `[place]` are those of `rows`. The rows of a run folder are read from it when they are first used.

    settings   what decided the numbers: scores, orders, seed, model
    shape      what a row is: a text, a word or a token; nats or bits
    kept       the rows, where there is no folder
    folder     where the run is kept, if it is

    >>> found = unmask.score(["The keys are here.", "The keys is here."], tokens=True)
    >>> len(found), found[0]["pll"] > found[1]["pll"]
    (2, True)
    >>> most = max(found.difference(), key=lambda row: row["pll_difference"])
    >>> most["first_token"], most["second_token"]
    ('are', 'is')
    """

    settings: ScoreSettings
    shape: RowShape
    kept: tuple[dict[str, Any], ...] = ()
    folder: Path | None = None

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """All rows, in the order of the texts."""
        if self.folder is None:
            return list(self.kept)
        table = read_rows(self._parts(self.folder), self.shape.columns(self.settings))
        return [dict(row) for row in table.to_pylist()]

    def _parts(self, folder: Path) -> list[Part]:
        return read_parts(folder)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def __getitem__(self, row: int) -> dict[str, Any]:
        return self.rows[row]

    @property
    def unscored(self) -> list[dict[str, Any]]:
        """Rows with a reason why a number is missing."""
        return [row for row in self.rows if row["reason"] is not None]

    def reasons(self) -> Iterator[tuple[int, str | None]]:
        """The number of each row's text, and why a number is missing (None: none is); a folder's rows are not kept in memory."""
        if self.folder is None:
            yield from ((row["item"], row["reason"]) for row in self.rows)
            return
        for part in self._parts(self.folder):
            table = read_rows([part], self.shape.columns(self.settings))
            yield from zip(table["item"].to_pylist(), table["reason"].to_pylist(), strict=True)

    def difference(self, first: int = 0, second: int = 1) -> list[dict[str, Any]]:
        """Two texts token by token, and how much more of each score the first's token has; needs `tokens=True`.

        Scores that are not sums over tokens, or that one of the texts lacks, have no column here.
        """
        texts = [self.rows[whole("the number of a text", place, 0, len(self.rows) - 1)] for place in (first, second)]
        for place, row in zip((first, second), texts, strict=True):
            if "tokens" not in row:
                raise InputError("the rows hold no tokens: give tokens=True to score, or --tokens")
            if all(row[name] is None for name in self.settings.scores):
                raise InputError(f"text {place + 1} has no score ({row['reason']}): give two texts that have")
        return aligned(texts[0]["tokens"], texts[1]["tokens"], shared_by_token(self.settings.scores, texts))

    def to_dict(self) -> dict[str, Any]:
        """The scores' definitions, the unit, and the rows."""
        return {"scores": about(self.settings.scores), "unit": self.shape.unit, "rows": self.rows}

    def to_frame(self) -> pandas.DataFrame:
        """One row per text, word or token."""
        import pandas

        return pandas.DataFrame(self.rows, columns=self.shape.columns(self.settings).names)

    def __repr__(self) -> str:
        return f"Scores({', '.join(self.settings.scores)}; {len(self)} {self.shape.kind})"

    def _repr_html_(self) -> str:
        scores = [SCORES[name] for name in self.settings.scores]
        defined = "".join(f"<li><b>{score.name}</b> {escape(score.definition)}; {score.kind}</li>" for score in scores)
        frame = self.to_frame().drop(columns=["words", "tokens"], errors="ignore").dropna(axis=1, how="all")
        more = "" if len(frame) <= SHOWN else f"<p>{len(frame) - SHOWN:,} more rows</p>"
        return f"<ul>{defined}</ul><p>{self.shape.unit}</p>{frame.head(SHOWN).to_html(index=False)}{more}"


@dataclass(frozen=True, repr=False)
class PairScores:
    """Minimal pairs with the scores of both sentences, from `unmask.score` with `pairs`.

    names  the scores
    unit   "nats" or "bits"
    rows   one per pair: set, phenomenon, sentence_good, sentence_bad, and for each score good_NAME, bad_NAME and NAME_correct:
           1 if the good sentence has the better score, 0.5 for a tie, 0 if the bad one has, None if one has no score

    >>> pair = {"sentence_good": "The keys are here.", "sentence_bad": "The keys is here."}
    >>> unmask.score(pairs=[pair]).accuracy[-1]["accuracy"]
    1.0
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

    def reasons(self) -> Iterator[tuple[int, str | None]]:
        """The number of each pair, from 1, and why one of its sentences lacks a number (None: none does)."""
        return enumerate((row["reason"] for row in self.rows), 1)

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


def shared_by_token(names: Sequence[str], texts: Sequence[Mapping[str, Any]]) -> list[str]:
    """The scores that are sums over tokens, and that all of these texts have."""
    return [name for name in names if SCORES[name].by_token and all(row[name] is not None for row in texts)]


def aligned(first: Sequence[dict[str, Any]], second: Sequence[dict[str, Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    """Rows with first_token, second_token (None for a gap), and NAME_difference = first's minus second's share of the score."""
    rows = []
    tokens = [[one["token"] for one in text] for text in (first, second)]
    for _, a, b, c, d in SequenceMatcher(None, tokens[0], tokens[1], autojunk=False).get_opcodes():
        for left, right in zip_longest(first[a:b], second[c:d]):
            row: dict[str, Any] = {"first_token": left and left["token"], "second_token": right and right["token"]}
            for name in names:
                shares = [0.0 if side is None else side[share_column(name)] for side in (left, right)]
                row[f"{name}_difference"] = SCORES[name].better * (shares[1] - shares[0])
            rows.append(row)
    return rows


def compare_pairs(pairs: Sequence[SentencePair], rows: Sequence[dict[str, Any]], names: Sequence[str], unit: str) -> PairScores:
    """Pairs and the rows of their sentences: good, bad, good, bad, ...; of several bad ones, the best is compared."""
    compared, waiting = [], iter(rows)
    for pair in pairs:
        good, *bad = (next(waiting) for _ in (pair.good, *pair.bad))
        row: dict[str, Any] = {
            "set": pair.set,
            "phenomenon": pair.phenomenon,
            "sentence_good": pair.good.text,
            "sentence_bad": BETWEEN.join(item.text for item in pair.bad),
        }
        for name in names:
            better = SCORES[name].better
            values = [one[name] for one in bad]
            rival = None if None in values else max(values, key=lambda value: better * value)
            row |= {f"good_{name}": good[name], f"bad_{name}": rival}
            row[f"{name}_correct"] = _correct(good[name], rival, better, pair.good in pair.bad)
        compared.append(row | {"reason": next((one["reason"] for one in (good, *bad) if one["reason"]), None)})
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
    return 0.5 if same or good == bad else float(better * good > better * bad)
