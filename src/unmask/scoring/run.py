"""A stream of texts to a stream of rows, chunk by chunk; with a folder, work that was stopped continues where it ended.

A chunk is a few hundred texts, or as many as make CHUNK_PASSES passes. Within it equal texts are scored once, and texts of one
length side by side, so that no padding is computed. Memory holds one chunk. A folder keeps one part per chunk, named by its
first text; the parts show which texts are done.
"""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np

from unmask.errors import InputError
from unmask.runs.engines import results
from unmask.runs.folder import RunFolder, read_rows
from unmask.runs.progress import Progress
from unmask.scoring.batch import ScoreSettings
from unmask.scoring.registry import passes_of
from unmask.scoring.rows import RowShape, TextRows, write_rows
from unmask.scoring.texts import Item, Prepared, encode_each
from unmask.scoring.together import TEXTS, TextScores, begin

if TYPE_CHECKING:
    import pyarrow

    from unmask.models.masked_lm import MaskedLM
    from unmask.models.workers import Workers

CHUNK_TEXTS = {"cpu": 512, "cuda": 8192}
CHUNK_PASSES = {"cpu": 20_000, "cuda": 2_000_000}
"""Limits of one chunk: some seconds of work, which an interrupt can lose."""
FEWEST_READ, MOST_READ = 16, 1024
"""Texts that are tokenised at once: as many as the last chunk had, or as this one has so far; a slow stream is not waited for."""


def prepared(model: MaskedLM, numbered: Sequence[tuple[int, Item]]) -> list[Prepared]:
    """Texts with their tokens, or with the reasons why they have none."""
    with _no_collection():
        encoded = encode_each(model.words, [item for _, item in numbered])
        return [
            Prepared(number, item, None, str(text)) if isinstance(text, InputError) else Prepared(number, item, text, None)
            for (number, item), text in zip(numbered, encoded, strict=True)
        ]


@contextmanager
def _no_collection() -> Iterator[None]:
    """Inside, Python does not look for cycles: many small objects that have none would have it look at all objects, often."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


def chunks(model: MaskedLM, items: Iterable[tuple[int, Item]], settings: ScoreSettings, device: str) -> Iterator[list[Prepared]]:
    """Texts as tokens, in chunks of as much work as suits the device."""
    most_texts, most_passes = CHUNK_TEXTS[device], CHUNK_PASSES[device]
    passes_by_sites = cache(lambda sites: passes_of(sites, settings.scores, settings))
    waiting, size = iter(items), FEWEST_READ
    chunk: list[Prepared] = []
    passes = 0
    while block := list(islice(waiting, size)):
        for text in prepared(model, block):
            chunk.append(text)
            passes += 0 if text.encoded is None else passes_by_sites(len(text.encoded.sites))
            if len(chunk) >= most_texts or passes >= most_passes:
                yield chunk
                size, chunk, passes = len(chunk), [], 0
        size = max(FEWEST_READ, min(MOST_READ, max(size, len(chunk))))
    if chunk:
        yield chunk


def scored(
    model: MaskedLM,
    work: Iterable[list[Prepared]],
    settings: ScoreSettings,
    shape: RowShape,
    progress: Callable[[int], Progress | None] = lambda _: None,
    ahead: bool = False,
) -> Iterator[tuple[list[Prepared], TextScores]]:
    """The chunks with their scores; `progress(n)` reports texts after the n that went before.

    ahead   ask for the passes of a chunk before the numbers of the one before are read: a GPU is busy with them while the
            caller uses those numbers, and while the next chunk is read
    """
    behind: tuple[list[Prepared], Callable[[], TextScores]] | None = None
    done = 0
    for chunk in work:
        texts = [text.encoded for text in chunk if text.encoded is not None]
        begun = begin(model, texts, settings, progress(done), shape.by_site)
        done += len(chunk)
        if behind is not None:
            yield behind[0], behind[1]()
        behind = chunk, begun
        if not ahead:
            yield chunk, begun()
            behind = None
    if behind is not None:
        yield behind[0], behind[1]()


def stream(
    model: MaskedLM,
    items: Iterable[Item],
    settings: ScoreSettings,
    shape: RowShape,
    total: int = 0,
    progress: Progress | None = None,
) -> Iterator[TextRows]:
    """The rows chunk by chunk, in this process."""
    work = chunks(model, enumerate(items, 1), settings, model.device.type)
    done = 0
    ahead = model.device.type == "cuda" and not isinstance(items, Iterator)
    for chunk, scores in scored(model, work, settings, shape, _among(progress, 0, total), ahead):
        yield shape.rows(model.words, chunk, scores, settings)
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
    workers: Workers | None = None,
    progress: Progress | None = None,
) -> None:
    """Score the texts that have no rows in the folder yet, and write scores.jsonl, .csv or .parquet when all are there."""
    columns = shape.columns(settings)
    marks = np.zeros(total + 1, dtype=bool)
    for part in folder.parts():
        marks[read_rows([part], columns)["item"].to_numpy()] = True
    already, done = int(marks.sum()), marks.tobytes()
    pending = ((number, item) for number, item in enumerate(items, 1) if number > total or not done[number])
    device = model.device.type if workers is None else workers.device
    work = chunks(model, pending, settings, device)
    finished = 0
    if progress:
        progress(already, total, TEXTS)
    with _Writer(folder, columns) as write:
        if workers is None:
            for chunk, scores in scored(model, work, settings, shape, _among(progress, already, total), device == "cuda"):
                write(shape.table(model.words, chunk, scores, settings), chunk[0].number)
        else:
            for table, first, texts in _on_ray(workers, work, settings, shape):
                write(table, first)
                finished += texts
                if progress:
                    progress(already + finished, total, TEXTS)
    tables = (read_rows([part], columns) for part in folder.parts())
    write_rows(folder.path / f"scores.{format}", tables, columns, format)


class _Writer:
    """Keeps one part after the other, while the next is computed."""

    def __init__(self, folder: RunFolder, columns: pyarrow.Schema) -> None:
        self.folder, self.columns = folder, columns
        self._thread = ThreadPoolExecutor(1)
        self._last: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __call__(self, table: pyarrow.Table, first: int) -> None:
        """Keep the rows of the texts from number `first` on; raises what went wrong with the part before."""
        self._wait()
        self._last = self._thread.submit(self.folder.store, table, self.columns, f"part-{first:09d}")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._thread.shutdown()
        if error is None:
            self._wait()

    def _wait(self) -> None:
        if self._last is not None:
            self._last.result()


def _on_ray(
    workers: Workers, work: Iterable[list[Prepared]], settings: ScoreSettings, shape: RowShape
) -> Iterator[tuple[pyarrow.Table, int, int]]:
    """Tables as they come, the number of each one's first text, and how many texts it has."""
    sent: dict[int, tuple[int, int]] = {}

    def texts() -> Iterator[list[tuple[int, Item]]]:
        for place, chunk in enumerate(work):
            sent[place] = chunk[0].number, len(chunk)
            yield [(text.number, text.item) for text in chunk]

    for place, table in results(workers.pool(partial(_worker, settings, shape))(texts())):
        yield table, *sent[place]


def count_and_hash(items: Iterable[Item]) -> tuple[int, str]:
    """The number of texts, and a hash that identifies them."""
    whole, count = hashlib.sha256(), 0
    for count, item in enumerate(items, 1):  # noqa: B007
        whole.update(repr((item.text, item.target, item.id)).encode("utf-8", "surrogatepass"))
    return count, whole.hexdigest()[:16]


def _worker(settings: ScoreSettings, shape: RowShape, lm: MaskedLM) -> Callable[[list[tuple[int, Item]]], pyarrow.Table]:
    def table(texts: list[tuple[int, Item]]) -> pyarrow.Table:
        chunk = prepared(lm, texts)
        ((_, scores),) = scored(lm, [chunk], settings, shape)
        return shape.table(lm.words, chunk, scores, settings)

    return table


def _among(progress: Progress | None, before: int, all_texts: int) -> Callable[[int], Progress | None]:
    """Counts the texts of a chunk among all texts; other counts are passed on."""

    def after(done_before: int) -> Progress | None:
        def report(done: int, total: int, what: str = TEXTS) -> None:
            assert progress is not None
            if what == TEXTS:
                progress(before + done_before + done, all_texts, what)
            else:
                progress(done, total, what)

        return None if progress is None else report

    return after
