"""A stream of texts to a stream of rows, chunk by chunk; with a folder, work that was stopped continues where it ended.

A chunk is a few hundred texts, or as many as make CHUNK_PASSES passes. Within it equal texts are scored once, and texts of one
length side by side, so that no padding is computed. Memory holds one chunk. A folder keeps one part per chunk, named by its
first text; the parts show which texts are done.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import isnan
from typing import TYPE_CHECKING, NamedTuple

from unmask.errors import InputError, UnmaskError
from unmask.runs.engines import OnRay
from unmask.runs.folder import RunFolder, read_rows
from unmask.runs.progress import Progress
from unmask.scoring.batch import Scored, ScoreSettings, score_batch
from unmask.scoring.registry import passes_of
from unmask.scoring.rows import RowShape, TextRows, TextScores, write_rows
from unmask.scoring.texts import Encoded, Item, batch_of, encode

if TYPE_CHECKING:
    from unmask.models.conditional_model import ConditionalModel
    from unmask.models.masked_lm import MaskedLM
    from unmask.models.workers import WorkersModel

CHUNK_TEXTS = {"cpu": 512, "cuda": 8192}
CHUNK_PASSES = {"cpu": 20_000, "cuda": 2_000_000}
"""Limits of one chunk: some seconds of work, which an interrupt can lose."""
TEXTS = "texts"
"""The unit of progress."""


class Prepared(NamedTuple):
    """A text with its number, from 1, and its tokens, or the reason why it cannot be scored."""

    number: int
    item: Item
    encoded: Encoded | None
    reason: str | None


def score_chunk(
    model: MaskedLM,
    chunk: Sequence[Prepared],
    settings: ScoreSettings,
    shape: RowShape,
    progress: Progress | None = None,
) -> TextRows:
    """The rows of a chunk, in its order; every text has at least one, with the reason if it could not be scored."""
    scored = iter(score_texts(model, [text.encoded for text in chunk if text.encoded is not None], settings, progress))
    rows: TextRows = []
    for number, item, text, reason in chunk:
        scores = None if text is None else next(scored)
        rows += shape.rows(number, item, text, scores, settings.scores, reason)
    return rows


def score_texts(
    model: ConditionalModel,
    texts: Sequence[Encoded],
    settings: ScoreSettings,
    progress: Progress | None = None,
) -> list[TextScores]:
    """The scores of each text; equal texts get the same numbers. `progress`: texts done, and long work within."""
    places: dict[tuple[tuple[int, ...], tuple[int, ...]], list[int]] = {}
    for place, text in enumerate(texts):
        places.setdefault((text.ids, text.sites), []).append(place)
    shapes: dict[tuple[int, int], list[int]] = {}
    for equal in places.values():
        shapes.setdefault((len(texts[equal[0]].ids), len(texts[equal[0]].sites)), []).append(equal[0])
    found: dict[int, TextScores] = {}
    done = 0
    for _, members in sorted(shapes.items()):
        scored = score_batch(model, batch_of([texts[place] for place in members]), settings, progress)
        for place, scores in zip(members, _by_text(scored, len(members)), strict=True):
            equal = places[texts[place].ids, texts[place].sites]
            found.update(dict.fromkeys(equal, scores))
            done += len(equal)
        if progress:
            progress(done, len(texts), TEXTS)
    return [found[place] for place in range(len(texts))]


def _by_text(scored: Mapping[str, Scored], n: int) -> Iterator[TextScores]:
    """The numbers of a batch, text by text."""
    columns: dict[str, list[float | None]] = {}
    shares: dict[str, list[list[float]]] = {}
    for name, score in scored.items():
        for column, values in {name: score.values, **{f"{name}_{end}": more for end, more in score.extra.items()}}.items():
            columns[column] = [None if isnan(value) else value for value in values.tolist()]
        if score.by_site is not None:
            shares[name] = score.by_site.tolist()
    for row in range(n):
        reasons = dict.fromkeys(score.reasons[row] for score in scored.values() if row in score.reasons)
        values_here = {name: column[row] for name, column in columns.items()}
        by_site = {name: tuple(share[row]) for name, share in shares.items() if values_here[name] is not None}
        yield TextScores(values_here, by_site, "; ".join(reasons) or None)


def prepared(model: MaskedLM, number: int, item: Item) -> Prepared:
    """The text as tokens."""
    try:
        return Prepared(number, item, encode(model.words, item), None)
    except InputError as error:
        return Prepared(number, item, None, str(error))


def chunks(model: MaskedLM, items: Iterable[tuple[int, Item]], settings: ScoreSettings) -> Iterator[list[Prepared]]:
    """Prepared texts in chunks of bounded work."""
    most_texts, most_passes = CHUNK_TEXTS[model.device.type], CHUNK_PASSES[model.device.type]
    chunk: list[Prepared] = []
    passes = 0
    for number, item in items:
        chunk.append(prepared(model, number, item))
        if (text := chunk[-1].encoded) is not None:
            passes += passes_of(len(text.sites), settings.scores, settings)
        if len(chunk) >= most_texts or passes >= most_passes:
            yield chunk
            chunk, passes = [], 0
    if chunk:
        yield chunk


def stream(
    model: MaskedLM,
    items: Iterable[Item],
    settings: ScoreSettings,
    shape: RowShape,
    total: int = 0,
    progress: Progress | None = None,
) -> Iterator[TextRows]:
    """The rows chunk by chunk, in this process."""
    done = 0
    for chunk in chunks(model, enumerate(items, 1), settings):
        yield score_chunk(model, chunk, settings, shape, _among_all(progress, done, total))
        done += len(chunk)
        if progress:
            progress(done, total, TEXTS)


def run_in_folder(
    folder: RunFolder,
    model: MaskedLM,
    items: Sequence[Item] | Iterable[Item],
    settings: ScoreSettings,
    shape: RowShape,
    format: str,
    total: int,
    model_of_workers: WorkersModel | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> None:
    """Score the texts that have no rows in the folder yet, and write scores.jsonl, .csv or .parquet when all are there."""
    columns = shape.columns(settings)
    done = set(folder.rows(columns)["item"].to_pylist())
    already = len(done)
    pending = ((number, item) for number, item in enumerate(items, 1) if number not in done)
    work = chunks(model, pending, settings)
    finished = 0
    if progress:
        progress(already, total, TEXTS)
    if model_of_workers is None:
        for chunk in work:
            rows = score_chunk(model, chunk, settings, shape, _among_all(progress, already + finished, total))
            folder.store(rows, columns, _name(rows))
            finished += len(chunk)
    else:
        engine = OnRay(partial(_worker, model_of_workers, settings, shape), workers, model_of_workers.gpu)
        failed: list[str] = []
        answers = 0
        for answers, answer in enumerate(engine(work), 1):  # noqa: B007
            if answer.result is None:
                failed.append(answer.failure or "no reason was given")
                continue
            folder.store(answer.result, columns, _name(answer.result))
            finished += len({row["item"] for row in answer.result})
            if progress:
                progress(already + finished, total, TEXTS)
        if failed:
            raise UnmaskError(f"{len(failed)} of {answers} chunks failed ({failed[0]}): the same command tries them again")
    tables = (read_rows([part], columns) for part in folder.parts())
    write_rows(folder.path / f"scores.{format}", tables, columns, format)


def count_and_hash(items: Iterable[Item]) -> tuple[int, str]:
    """The number of texts, and a hash that identifies them."""
    whole, count = hashlib.sha256(), 0
    for count, item in enumerate(items, 1):  # noqa: B007
        whole.update(repr((item.text, item.target, item.id)).encode("utf-8", "surrogatepass"))
    return count, whole.hexdigest()[:16]


def _worker(model: WorkersModel, settings: ScoreSettings, shape: RowShape) -> Callable[[list[Prepared]], TextRows]:
    lm = model.load()
    return lambda chunk: score_chunk(lm, chunk, settings, shape)


def _among_all(progress: Progress | None, before: int, all_texts: int) -> Progress | None:
    """Counts the texts of a chunk among all texts; other counts are passed on."""

    def report(done: int, total: int, what: str = TEXTS) -> None:
        if progress and what == TEXTS:
            progress(before + done, all_texts, what)
        elif progress:
            progress(done, total, what)

    return None if progress is None else report


def _name(rows: TextRows) -> str:
    return f"part-{rows[0]['item']:09d}"
