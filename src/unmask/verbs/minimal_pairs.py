"""The verb `minimal_pairs`: how often a model prefers the acceptable sentence of two."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from unmask.common.border.calls import checked
from unmask.common.border.marks import ShownType, Written
from unmask.common.errors import InputError
from unmask.common.result_tables import Column, Table
from unmask.models.load import Model
from unmask.runs.lines import EMPTY
from unmask.runs.progress import Progress
from unmask.scoring.registry import DEFAULT, SEVERAL
from unmask.scoring.scores.score import Score
from unmask.verbs import Engine, Out, PathLike
from unmask.verbs.score import (
    Format,
    Long,
    OfScores,
    Unit,
    notices_of,
    refuse_workers,
    shape_of_rows,
)

if TYPE_CHECKING:
    from unmask.scoring.row_shape import Rows, RowShape

    Pairs = PathLike | Iterable[PathLike | Mapping[str, Any]]
else:  # lists of any length, iterators, data frames
    Pairs = Annotated[
        Any,
        ShownType("str | PathLike[str] | Iterable[str | PathLike[str] | Mapping[str, Any]]"),
        Written(metavar="PATH...|-", repeat=True),
    ]


CHANCE = 0.5
"""The accuracy of a score that knows nothing."""
ACCURACY = (
    "accuracy in %, with 95 % intervals; ties count half; pairs that lack a score are left out"
)


@dataclass(frozen=True, repr=False)
class PairScores(OfScores):
    """Minimal pairs with the scores of both sentences, from `unmask.minimal_pairs`.

    shape      the scores and their unit
    rows       one dict per pair: set, phenomenon, sentence_good, sentence_bad, and for each score
               good_NAME, bad_NAME and NAME_correct. NAME_correct is 1 if the good sentence has
               the better score, 0 if the bad sentence has it, 0.5 for a tie, and None if a
               sentence has no score
    accuracy   for each score one dict per set, one per phenomenon, and one for all pairs:
               accuracy, its interval (low, high), n_pairs, n_ties, n_unscored
    missing    why a sentence of a pair lacks a number, by the number of the pair, from 1
    file       the file of the sentences' rows, if a folder keeps the run

    >>> pair = {"sentence_good": "The keys are here.", "sentence_bad": "The keys is here."}
    >>> unmask.minimal_pairs([pair]).accuracy[-1]["accuracy"]
    1.0
    """

    KEYS: ClassVar[tuple[str, ...]] = ("scores", "unit", "accuracy", "rows")
    ROWS: ClassVar[str] = "accuracy"

    shape: RowShape
    rows: Rows
    accuracy: Rows
    missing: Mapping[int, str]
    file: Path | None = None

    @property
    def complete(self) -> bool:
        """Whether at least one pair has the scores of both sentences, and every pair without them
        is empty.
        """
        some_have_scores = len(self.missing) < len(self)
        others_are_empty = all(reason == EMPTY for reason in self.missing.values())
        return some_have_scores and others_are_empty

    def tables(self) -> list[Table]:
        """The accuracies of all scores, over each set, each phenomenon, and all pairs."""
        groups: dict[tuple[str, str], Rows] = {}  # each has a row per score, in their order
        for row in self.accuracy:
            group = (row["level"], row["name"])
            groups.setdefault(group, []).append(row)
        rows = []
        for (level, name), of_scores in groups.items():
            group_name = "all pairs" if level == "all" else f"{level} {name}"
            n_pairs = _one_or_range([row["n_pairs"] for row in of_scores])
            n_ties = _one_or_range([row["n_ties"] for row in of_scores])
            accuracies = [_with_interval(row) for row in of_scores]
            rows.append([group_name, n_pairs, n_ties, *accuracies])
        columns = [Column("group", text=True), Column("pairs"), Column("ties")]
        columns += [Column(name, show=_shown_accuracy) for name in self.scores]
        return [Table(columns, rows, notes=["", ACCURACY])]

    def verdict(self) -> list[str]:
        """Whether each score prefers the acceptable sentences more often than chance would."""
        sentences = []
        for row in self._overall:
            if row["accuracy"] is None:
                finding = "no pair has it"
            elif row["low"] > CHANCE:
                finding = "significantly more often right than chance"
            elif row["high"] < CHANCE:
                finding = "significantly less often right than chance"
            else:
                finding = "not significantly different from chance"
            sentences.append(f"{row['score']}: {finding}")
        return sentences

    def notices(self) -> list[str]:
        """How many pairs lack a score, and where the sentences' rows are kept."""
        return notices_of("pair", self.missing, self.file)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        shares = []
        for row in self._overall:
            if row["n_pairs"] > 0:
                shares.append(f"{row['score']} {row['accuracy']:.1%}")
        return f"PairScores({len(self)} pairs; {', '.join(shares)})"

    @property
    def _overall(self) -> Rows:
        """The accuracies over all pairs, one per score."""
        return [row for row in self.accuracy if row["level"] == "all"]


@checked
def minimal_pairs(
    data: Pairs,
    model: Model = None,
    *,
    score: Annotated[str | Score | Iterable[str | Score], SEVERAL, Written(short="-s")] = DEFAULT,
    unit: Unit = "nats",
    long: Long = "refuse",
    out: Out = None,
    format: Format = None,
    engine: Engine = "local",
    progress: Progress | None = None,
) -> PairScores:
    """Measure how often the acceptable sentence of a minimal pair has the better score.

    With out, the rows of the sentences are kept in that folder as they come, the same call
    continues after an interrupt, and at the end there is scores.jsonl, scores.csv or
    scores.parquet (format), and accuracy.json.

    Parameters:
        data: Minimal pairs: files .jsonl, .csv or .tsv with sentence_good and sentence_bad, or
            folders of .jsonl files such as BLiMP's; - for standard input. In Python also a list
            of mappings, or a data frame.
        score: Names: {names}; or a class of your own,
            my.py:Mine. In Python also objects, such as unmask.AnyOrder(orders=32).
        unit: nats or bits.
        long: Sentences longer than the model: refuse (a row with a reason) or windows.
        format: The format of the file in out: jsonl, csv or parquet [default: jsonl].

    Returns:
        `PairScores`: a row for each pair, and the accuracies.

    >>> pair = {"sentence_good": "The keys are here.", "sentence_bad": "The keys is here."}
    >>> unmask.minimal_pairs([pair]).accuracy[-1]["accuracy"]
    1.0
    """
    from unmask.common.files import write_json
    from unmask.runs.folder import output_folder
    from unmask.scoring.minimal_pairs import compare_pairs
    from unmask.scoring.run import KIND, score_items
    from unmask.scoring.sentence_pairs import pairs_of, sentences_of

    shape = shape_of_rows(score, "texts", unit, long)
    if out is None:
        refuse_workers(model, engine)
        folder = None
    else:
        folder = output_folder(out, KIND)
    pairs = list(pairs_of(data))
    if not pairs:
        raise InputError("has no minimal pair", argument="data", use="give at least one")
    scored = score_items(
        model,
        shape,
        sentences_of(pairs),
        out=folder,
        format=format or "jsonl",
        engine=engine,
        progress=progress,
        # The warning is about renamed columns, and users see sentences' columns only in a folder.
        warns=folder is not None,
    )
    compared = compare_pairs(pairs, scored)
    accuracy = compared.accuracies(shape.scores)
    if folder is not None:
        write_json(folder / "accuracy.json", {"unit": unit, "accuracy": accuracy})
    missing = {}
    for number, row in enumerate(compared.rows, 1):
        reason = compared.own(row, "reason")  # it has another name beside a user's column `reason`
        if reason is not None:
            missing[number] = reason
    return PairScores(
        shape=shape,
        rows=compared.rows,
        accuracy=accuracy,
        missing=missing,
        file=scored.file,
    )


def _one_or_range(counts: list[int]) -> int | str:
    """The number that all scores have, or the least and the most."""
    least = min(counts)
    most = max(counts)
    if least == most:
        return least
    return f"{least} to {most}"


def _with_interval(row: Mapping[str, Any]) -> tuple[float, float, float] | None:
    """The accuracy of a row and the ends of its interval; None where no pair has the score."""
    if row["accuracy"] is None:
        return None
    return row["accuracy"], row["low"], row["high"]


def _shown_accuracy(accuracy: tuple[float, float, float]) -> str:
    """An accuracy and the ends of its interval, in percent."""
    share, low, high = accuracy
    return f"{100 * share:.1f} [{100 * low:.0f}, {100 * high:.0f}]"
