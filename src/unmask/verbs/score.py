"""`score`: sentences in, numbers out, by named definitions; for files of any size, and for minimal pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from unmask.errors import InputError
from unmask.models.load import Model, is_shared
from unmask.runs.progress import Progress
from unmask.scoring.registry import DEFAULT, SEVERAL, Score, chosen
from unmask.signature import Written, checked
from unmask.verbs.shared import Engine, PathLike

if TYPE_CHECKING:
    from unmask.scoring.score import PairScores, Scores

    Texts = str | Path | Iterable[str | Mapping[str, Any]]
    Pairs = PathLike | Iterable[PathLike | Mapping[str, Any]]
else:  # lists of any length, iterators, data frames
    Texts = Annotated[Any, Written(metavar="FILE|-|SENTENCE...", repeat=True)]
    Pairs = Annotated[Any, Written(metavar="PATH", repeat=True)]


@checked
def score(
    texts: Texts | None = None,
    score: Annotated[str | Score | Iterable[str | Score], SEVERAL, Written(short="-s")] = DEFAULT,
    *,
    model: Model = None,
    minimal_pairs: Pairs | None = None,
    rows: Literal["texts", "words", "tokens", "nested"] = "texts",
    unit: Literal["nats", "bits"] = "nats",
    long: Literal["refuse", "windows"] = "refuse",
    field: str | None = None,
    out: PathLike | None = None,
    format: Literal["jsonl", "csv", "parquet"] = "jsonl",
    engine: Engine = "local",
    sink: Callable[[Mapping[str, Any]], None] | None = None,
    progress: Progress | None = None,
) -> Scores | PairScores:
    """Score sentences: pseudo-likelihoods, chain rules over orders, energies.

    With out, rows are kept in that folder as they come, the same call continues after an interrupt, and at the end there is
    scores.jsonl, scores.csv or scores.parquet (format); for pairs also accuracy.json.

    Parameters:
        texts: A file with one text per line, .jsonl, .csv, .tsv or .fasta; - for standard input; or sentences themselves, of
            which two are compared token by token. In Python a Path is a file, everything else texts: one, several, mappings, a
            data frame.
        score: Names: pll, pll_word, energy_raw, energy_norm, left_to_right, right_to_left, any_order, decoder:NAME@PASSES. In
            Python also entries, such as unmask.AnyOrder(orders=32).
        minimal_pairs: Minimal pairs instead of texts: .jsonl or .csv with sentence_good and sentence_bad; or a folder.
        rows: What a row is; nested: a text with its words and tokens.
        unit: nats or bits.
        long: Texts longer than the model: refuse (a row with a reason) or windows.
        field: The column of a table or frame, or the key of JSON lines, that holds the text; with it, standard input has JSON
            lines [default: text, or sentence].
        out: Folder of the run; the same command continues one that was stopped.
        format: jsonl, csv, or (with out) parquet.
        engine: local, ray (a cluster: a worker per GPU, or per two CPUs), or ray:4 with another number of workers.
        sink: Called with each row as it comes; rows are then not kept in memory.

    >>> scores = unmask.score(["The cats sit here.", "The cats sits here."], ["pll", unmask.AnyOrder(orders=32)])
    >>> scores.rows[0]["pll"] > scores.rows[1]["pll"]
    True
    """
    from unmask.runs.folder import run_output
    from unmask.scoring.score import KIND, RowShape, check_format, compare_pairs, score_items
    from unmask.scoring.texts import items_again, pairs_of, sentences_of

    shape = RowShape(chosen(score), rows, unit, long == "windows")
    if (texts is None) == (minimal_pairs is None):
        both = "neither texts nor minimal_pairs were given" if texts is None else "texts and minimal_pairs were both given"
        raise InputError(f"{both}: give one of the two")
    if minimal_pairs is not None and (rows != "texts" or sink is not None):
        raise InputError("minimal pairs are compared by whole sentences: leave out rows")
    if is_shared(model, engine) and out is None:
        raise InputError("workers need an out folder, where their rows are kept: give out (--out)")
    if field is not None and minimal_pairs is not None:
        raise InputError(f"field {field} names the column of texts, and pairs have two: leave it out")
    check_format(format, rows, on_stream=False)
    folder = run_output(KIND, out)
    if minimal_pairs is not None:
        pairs = list(pairs_of(minimal_pairs))
        return compare_pairs(pairs, score_items(model, shape, sentences_of(pairs), folder, format, engine, None, progress))
    assert texts is not None
    items = items_again(texts, field, keep=out is not None)
    return score_items(model, shape, items, folder, format, engine, sink, progress)
