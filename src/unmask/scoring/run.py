"""A run of `score`: texts go through the model chunk by chunk, and their rows go to memory, to a
function, or to a folder.

Texts go through in chunks of a few hundred, or of as many as make CHUNK_PASSES passes; memory
holds one chunk. A folder keeps one part per chunk, named by its first text; the parts show
which texts are done, and work that was stopped continues where it ended.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unmask.common.errors import InputError
from unmask.common.files import as_json
from unmask.common.methods.method import Method
from unmask.common.methods.stored import stored_form
from unmask.models.first_look import look_at_first
from unmask.models.load import Model, model_name
from unmask.models.masked_lm import MaskedLM
from unmask.models.sharing import shared_model
from unmask.runs.engine import Workers, each
from unmask.runs.folder import RunFolder, on_a_thread, read_parts, read_rows
from unmask.runs.progress import Progress
from unmask.scoring.encoding import Prepared, prepare
from unmask.scoring.items import Item
from unmask.scoring.row_files import write_rows
from unmask.scoring.row_shape import RowShape, warn_of_renamed
from unmask.scoring.scored_rows import Missing, ScoredRows
from unmask.scoring.scores.score import Score
from unmask.scoring.text_scores import TEXTS, TextScores, begin

if TYPE_CHECKING:
    import pyarrow

KIND = "score"
CHUNK_TEXTS = {"cpu": 512, "cuda": 8192}
CHUNK_PASSES = {"cpu": 20_000, "cuda": 2_000_000}
"""Limits of one chunk: some seconds of work, which an interrupt can lose."""
FEWEST_READ = 16
MOST_READ = 1024
"""Texts that are tokenised at once: as many as the last chunk had, or as this one has so far; a
slow stream is not waited for.
"""
HASH_DIGITS = 16
"""Of the hash that identifies the texts of a run."""
Numbered = tuple[int, Item]
"""An item with its number, from 1."""


def score_items(
    model: Model,
    shape: RowShape,
    items: Iterable[Item],
    *,
    out: Path | None = None,
    format: str = "jsonl",
    engine: str = "local",
    sink: Callable[[Mapping[str, Any]], None] | None = None,
    progress: Progress | None = None,
    warns: bool = True,
) -> ScoredRows:
    """The scores of texts; rows go to the folder `out`, or else to `sink`, or else to memory.

    format    of the file that a folder gets at the end
    engine    local, ray, or ray:N
    warns     whether columns of ours that are renamed are the user's to know
    """
    is_read_once = isinstance(items, Iterator)
    if is_read_once:  # a stream has no number of texts before its end, and no folder
        total = 0
        identity = ""
    else:
        total, identity = count_and_hash(items, is_kept=out is not None)
    leading = _up_to_a_text(items)
    if not leading:
        raise InputError("there is no text to score: give at least one")
    if is_read_once:
        items = chain(leading, items)
    shape = shape.with_columns(leading[-1])
    if warns:
        warn_of_renamed(shape.renamed)
    lm, workers, load = shared_model(model, engine)
    if out is None:
        # Numbers of a stream are not waited for: its next text may come much later.
        ahead = lm.device.type == "cuda" and not is_read_once
        return _scored_in_memory(
            lm, shape, items, total=total, sink=sink, progress=progress, ahead=ahead
        )
    settings = {
        **_stored_scores(shape.scores),
        "windows": shape.windows,
        "model": model_name(model),
        "weights": lm.fingerprint,
        "dtype": str(lm.dtype),
        "texts": identity,
        "rows": shape.kind,
        "unit": shape.unit,
        "written_as": format,
    }
    with RunFolder(out, KIND, settings) as folder:
        file = folder.path / f"scores.{format}"
        run_in_folder(
            folder,
            lm,
            items,
            shape,
            file=file,
            total=total,
            workers=workers,
            load=load,
            progress=progress,
        )
        return ScoredRows(shape, folder=folder.path, file=file)


def _scored_in_memory(
    model: MaskedLM,
    shape: RowShape,
    items: Iterable[Item],
    total: int,
    sink: Callable[[Mapping[str, Any]], None] | None,
    progress: Progress | None,
    ahead: bool,
) -> ScoredRows:
    """The scores of texts whose rows go to `sink`, or else to memory."""
    in_memory: list[dict[str, Any]] = []
    take = in_memory.append if sink is None else sink
    missing = Missing()
    item = shape.own("item")
    reason = shape.own("reason")
    work = chunks(model, enumerate(items, 1), shape.scores, model.device.type)
    for chunk, numbers in scored(
        model, work, shape, finished=0, count=total, progress=progress, ahead=ahead
    ):
        for row in shape.rows(model.words, chunk, numbers):
            missing.note(row[item], row[reason])
            take(row)
    return ScoredRows(shape, tuple(in_memory), noted=missing)


def _stored_scores(scores: Sequence[Score]) -> dict[str, Any]:
    """The scores as a run's settings have them: names, options, and the hash of own code."""
    stored: dict[str, Any] = {"scores": [score.name for score in scores]}
    for score in scores:
        entries = stored_form(score)
        del entries["name"]
        for name, value in entries.items():
            option = getattr(score, name, None)
            if isinstance(option, Method):  # a decoder, which may be a user's own code, too
                value = stored_form(option)
            stored[f"{score.name} {name}"] = value
    return stored


def _up_to_a_text(items: Iterable[Item]) -> list[Item]:
    """The items up to the first that is not empty: an empty line, or row, has no columns."""
    leading = []
    for item in items:
        leading.append(item)
        if item.text.strip() or item.columns:
            break
    return leading


def chunks(
    model: MaskedLM, items: Iterable[Numbered], scores: Sequence[Score], device: str
) -> Iterator[list[Prepared]]:
    """Texts as tokens, in chunks of as much work as suits the device. The first look is here:
    warnings of workers are dropped.
    """
    most_texts = CHUNK_TEXTS[device]
    most_passes = CHUNK_PASSES[device]

    @cache
    def passes_of(sites: int) -> int:
        return sum(score.cost(sites) for score in scores)

    unread = iter(items)
    size = FEWEST_READ
    chunk: list[Prepared] = []
    passes = 0
    while block := list(islice(unread, size)):
        texts = prepare(model.words, block)
        look_at_first(model, (text.encoded.ids for text in texts if text.encoded is not None))
        for text in texts:
            chunk.append(text)
            if text.encoded is not None:
                passes += passes_of(len(text.encoded.sites))
            if len(chunk) >= most_texts or passes >= most_passes:
                yield chunk
                size = len(chunk)
                chunk = []
                passes = 0
        size = max(size, len(chunk))
        size = min(size, MOST_READ)
        size = max(size, FEWEST_READ)
    if chunk:
        yield chunk


def scored(
    model: MaskedLM,
    work: Iterable[list[Prepared]],
    shape: RowShape,
    finished: int = 0,
    count: int = 0,
    progress: Progress | None = None,
    ahead: bool = False,
) -> Iterator[tuple[list[Prepared], TextScores]]:
    """The chunks with their numbers.

    `progress` gets how much of the whole run is done: passes where one chunk is all of it,
    otherwise texts, `finished` ones included, of `count` in all (0: not known).

    ahead   ask for the passes of a chunk before the numbers of the chunk before it are read: a
            GPU is busy with them while the caller uses those numbers, and while the next chunk
            is read
    """
    begun: deque[tuple[list[Prepared], Callable[[], TextScores]]] = deque()

    def of_texts(done: int, total: int, what: str = "") -> None:
        """Passes of a chunk as texts of the run."""
        assert progress is not None
        progress(finished + len(chunk) * done // max(1, total), count, TEXTS)

    for chunk in work:
        texts = [text.encoded for text in chunk if text.encoded is not None]
        is_all = finished == 0 and len(chunk) == count
        if progress is None or is_all:
            progress_of_chunk = progress
        else:
            progress_of_chunk = of_texts
        read = begin(
            model,
            texts,
            shape.scores,
            windows=shape.windows,
            progress=progress_of_chunk,
            shares=shape.kind != "texts",
        )
        begun.append((chunk, read))
        finished += len(chunk)
        if progress is not None and not is_all:
            progress(finished, count, TEXTS)
        if len(begun) > ahead:  # 1 of them waits if `ahead`, none otherwise
            chunk_before, read_before = begun.popleft()
            yield chunk_before, read_before()
    for chunk_before, read_before in begun:
        yield chunk_before, read_before()


def run_in_folder(
    folder: RunFolder,
    model: MaskedLM,
    items: Iterable[Item],
    shape: RowShape,
    *,
    file: Path,
    total: int,
    workers: Workers | None,
    load: Callable[[], MaskedLM] | None,
    progress: Progress | None,
) -> None:
    """Score the texts that have no rows in the folder yet, and write the file (.jsonl, .csv or
    .parquet) when all are there.
    """
    columns = shape.columns
    has_rows = _texts_with_rows(folder, shape, total)
    finished = sum(has_rows)
    pending = (
        (number, item)
        for number, item in enumerate(items, 1)
        if number > total or not has_rows[number]
    )
    if progress:
        progress(finished, total, TEXTS)
    with on_a_thread() as call:

        def store(table: pyarrow.Table, first: int) -> None:
            call(folder.store, table, columns, f"part-{first:09d}")

        if workers is None or load is None:
            device = model.device.type
            work = chunks(model, pending, shape.scores, device)
            for chunk, numbers in scored(
                model,
                work,
                shape,
                finished=finished,
                count=total,
                progress=progress,
                ahead=device == "cuda",
            ):
                store(shape.table(model.words, chunk, numbers), chunk[0].number)
        else:
            work = chunks(model, pending, shape.scores, workers.device)
            for first, count, table in _from_workers(shape, work, workers, load):
                store(table, first)
                finished += count
                if progress:
                    progress(finished, total, TEXTS)
    tables = (read_rows([part], columns) for part in read_parts(folder.path))
    write_rows(file, tables, columns)


def _texts_with_rows(folder: RunFolder, shape: RowShape, total: int) -> bytes:
    """For each number of a text whether the folder has its rows: 1 or 0; 0 is no text's number."""
    marks = np.zeros(total + 1, dtype=bool)
    for part in read_parts(folder.path):
        numbers = read_rows([part], shape.columns)[shape.own("item")]
        marks[numbers.to_numpy()] = True
    return marks.tobytes()


def _from_workers(
    shape: RowShape,
    work: Iterable[list[Prepared]],
    workers: Workers,
    load: Callable[[], MaskedLM],
) -> Iterator[tuple[int, int, pyarrow.Table]]:
    """Chunks that workers have scored, as they come: the number of the first text, how many texts
    there are, and the table of their rows.
    """
    sent: dict[int, tuple[int, int]] = {}
    """By the place of a chunk: the number of its first text, and how many it has."""

    def texts() -> Iterator[list[Numbered]]:
        for place, chunk in enumerate(work):
            sent[place] = chunk[0].number, len(chunk)
            yield [(text.number, text.item) for text in chunk]

    for place, table in each(partial(_table, shape), texts(), workers, load):
        first, count = sent[place]
        yield first, count, table


def _table(shape: RowShape, model: MaskedLM, texts: list[Numbered]) -> pyarrow.Table:
    """The rows of one chunk, in a worker."""
    ((chunk, numbers),) = scored(model, [prepare(model.words, texts)], shape)
    return shape.table(model.words, chunk, numbers)


def count_and_hash(items: Iterable[Item], is_kept: bool = False) -> tuple[int, str]:
    """The number of texts, and a hash that identifies them; raises for a text that cannot be
    kept in a file if it `is_kept`.
    """
    digest = hashlib.sha256()
    count = 0
    for count, item in enumerate(items, 1):
        if is_kept:
            _refuse_surrogates(item, count)
        parts: tuple[Any, ...] = (item.text, item.target, item.id)
        if item.columns is not None:
            parts = (*parts, dict(item.columns))
        digest.update(repr(parts).encode("utf-8", "surrogatepass"))
    return count, digest.hexdigest()[:HASH_DIGITS]


def _refuse_surrogates(item: Item, number: int) -> None:
    """Raise for a text, or a column of its record, that no file can hold."""
    columns = item.columns or {}
    written = []
    for value in columns.values():
        written.append(value if isinstance(value, str) else as_json(value))
    for part in (item.text, item.id or "", *columns, *written):
        try:
            part.encode()
        except UnicodeEncodeError:
            raise InputError(
                f"text {number} has half of a surrogate pair, which is not a character and cannot"
                " be kept in a folder: correct it"
            ) from None
