"""`score`: numbers of texts, words or tokens under named definitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import unmask
from unmask.common.border.calls import checked
from unmask.common.border.marks import Only, ShownType, Written
from unmask.models.load import Model
from unmask.runs.progress import Progress
from unmask.scoring.registry import DEFAULT, SEVERAL, each_once
from unmask.scoring.scores.score import Score
from unmask.verbs import Engine, Out
from unmask.verbs.score_options import Format, Long, Unit, refuse_without_folder

Sink = Callable[[Mapping[str, Any]], None]
if TYPE_CHECKING:
    ScoredTexts = str | Path | Iterable[str | Mapping[str, Any]]
else:  # lists of any length, iterators, data frames
    ScoredTexts = Annotated[
        Any,
        ShownType("str | Path | Iterable[str | Mapping[str, Any]]"),
        Written(metavar="TEXT...|-", repeat=True),
    ]


@checked
def score(
    texts: ScoredTexts,
    score: Annotated[str | Score | Iterable[str | Score], SEVERAL, Written(short="-s")] = DEFAULT,
    *,
    model: Model = None,
    rows: Literal["texts", "words", "tokens", "nested"] = "texts",
    unit: Unit = "nats",
    long: Long = "refuse",
    field: str | None = None,
    out: Out = None,
    format: Format | None = None,
    engine: Engine = "local",
    sink: Annotated[Sink | None, Only(without=("out",))] = None,
    progress: Progress | None = None,
) -> unmask.Scores:
    """Score sentences: pseudo-likelihoods, chain rules over orders, energies.

    With out, rows are kept in that folder as they come, the same call continues after an
    interrupt, and at the end there is scores.jsonl, scores.csv or scores.parquet (format).

    Parameters:
        texts: Sentences, of which two are compared token by token; - for standard input. In
            Python a Path is a file with one text per line, .jsonl, .csv, .tsv or .fasta, and
            everything else texts: one, several, mappings, a data frame.
        score: Names: {names}; or a class of your own,
            my.py:Mine. In Python also objects, such as unmask.AnyOrder(orders=32).
        rows: A row per text (texts), word (words) or token (tokens), or a text with its words
            and tokens (nested).
        unit: nats or bits.
        long: Texts longer than the model: refuse (a row with a reason) or windows.
        field: The column of a table or frame, or the key of JSON lines, that holds the text;
            with it, standard input has JSON lines [default: text, or sentence].
        format: With out, the format of its file: jsonl, csv or parquet [default: jsonl]. The
            command without out prints rows: jsonl or csv.
        sink: Called with each row as it comes; rows are then not kept in memory.

    Returns:
        `Scores`, a row for each text, word or token.

    >>> texts = ["The cats sit here.", "The cats sits here."]
    >>> scores = unmask.score(texts, ["pll", unmask.AnyOrder(orders=32)])
    >>> scores.rows[0]["pll"] > scores.rows[1]["pll"]
    True
    """
    from unmask.runs.folder import output_folder
    from unmask.scoring.items import items_again
    from unmask.scoring.row_files import check_format
    from unmask.scoring.row_shape import RowShape, check_rows
    from unmask.scoring.run import KIND, score_items

    # `checked` has made methods of the names.
    scores_once = each_once(cast("Sequence[Score]", score))
    written_as = "jsonl" if format is None else format
    check_rows(scores_once, rows)
    check_format(written_as, rows, on_stream=False)
    refuse_without_folder(model, engine, out, format)
    return score_items(
        model,
        RowShape(scores_once, rows, unit, long == "windows"),
        items_again(texts, field, keep=out is not None),
        None if out is None else output_folder(out, KIND),
        written_as,
        engine,
        sink,
        progress,
    )
