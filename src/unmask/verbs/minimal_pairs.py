"""`minimal_pairs`: how often a model prefers the acceptable sentence of two."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, cast

import unmask
from unmask.common.border.calls import checked
from unmask.common.border.marks import ShownType, Written
from unmask.common.errors import InputError
from unmask.models.load import Model
from unmask.runs.progress import Progress
from unmask.scoring.registry import DEFAULT, SEVERAL, each_once
from unmask.scoring.scores.score import Score
from unmask.verbs import Engine, Out, PathLike
from unmask.verbs.score_options import Format, Long, Unit, refuse_without_folder

if TYPE_CHECKING:
    Pairs = PathLike | Iterable[PathLike | Mapping[str, Any]]
else:  # lists of any length, iterators, data frames
    Pairs = Annotated[
        Any,
        ShownType("str | PathLike[str] | Iterable[str | PathLike[str] | Mapping[str, Any]]"),
        Written(metavar="PATH...|-", repeat=True),
    ]


@checked
def minimal_pairs(
    data: Pairs,
    model: Model = None,
    *,
    score: Annotated[str | Score | Iterable[str | Score], SEVERAL, Written(short="-s")] = DEFAULT,
    unit: Unit = "nats",
    long: Long = "refuse",
    out: Out = None,
    format: Format | None = None,
    engine: Engine = "local",
    progress: Progress | None = None,
) -> unmask.PairScores:
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
        format: With out, the format of its file: jsonl, csv or parquet [default: jsonl]. The
            command without out prints pairs, not accuracies: jsonl or csv.

    Returns:
        `PairScores`: a row for each pair, and the accuracies.

    >>> pair = {"sentence_good": "The keys are here.", "sentence_bad": "The keys is here."}
    >>> unmask.minimal_pairs([pair]).accuracy[-1]["accuracy"]
    1.0
    """
    from unmask.runs.folder import output_folder
    from unmask.scoring.minimal_pairs import compare_pairs
    from unmask.scoring.row_shape import RowShape
    from unmask.scoring.run import KIND, score_items
    from unmask.scoring.sentence_pairs import pairs_of, sentences_of

    # `checked` has made methods of the names.
    scores_once = each_once(cast("Sequence[Score]", score))
    refuse_without_folder(model, engine, out, format)
    folder = None if out is None else output_folder(out, KIND)
    pairs = list(pairs_of(data))
    if not pairs:
        raise InputError("has no minimal pair", argument="data", use="give at least one")
    scores = score_items(
        model,
        RowShape(scores_once, "texts", unit, long == "windows"),
        sentences_of(pairs),
        folder,
        "jsonl" if format is None else format,
        engine,
        progress=progress,
        warns=folder is not None,
    )
    return compare_pairs(pairs, scores)
