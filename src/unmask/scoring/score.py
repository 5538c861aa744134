"""Texts through the model, chunk by chunk, and rows into a list, a function or a folder.

Texts go through in chunks of a few hundred, or of as many as make CHUNK_PASSES passes; memory holds one chunk. A folder keeps one
part per chunk, named by its first text; the parts show which texts are done, and work that was stopped continues where it ended.
"""

from __future__ import annotations

import gc
import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unmask.errors import InputError
from unmask.models.load import Model, as_model, model_name, model_on_ray
from unmask.models.masked_lm import MaskedLM
from unmask.runs.engine import Workers, each
from unmask.runs.files import write_json
from unmask.runs.folder import RunFolder, read_rows
from unmask.runs.progress import Progress
from unmask.scoring.batch import TEXTS, TextScores, begin
from unmask.scoring.registry import Score, passes_of
from unmask.scoring.results import PairScores, Rows, RowShape, Scores, compare_pairs, write_rows
from unmask.scoring.texts import Item, Prepared, SentencePair, encode_each

if TYPE_CHECKING:
    import pyarrow

KIND = "score"
NO_TEXT = "there is no text to score: give at least one"
CHUNK_TEXTS = {"cpu": 512, "cuda": 8192}
CHUNK_PASSES = {"cpu": 20_000, "cuda": 2_000_000}
"""Limits of one chunk: some seconds of work, which an interrupt can lose."""
FEWEST_READ, MOST_READ = 16, 1024
"""Texts that are tokenised at once: as many as the last chunk had, or as this one has so far; a slow stream is not waited for."""


@dataclass(frozen=True)
class Run:
    """Scores of texts: the model, what a row is, and where rows go.

    windows   whether texts longer than the model are scored in windows
    folder    where rows are kept; None: in memory
    format    of the file that a folder gets at the end
    on_ray    whether `workers` processes (None: as many as fit) of a Ray cluster do the work
    """

    model: Model
    shape: RowShape
    windows: bool = False
    folder: Path | None = None
    format: str = "jsonl"
    on_ray: bool = False
    workers: int | None = None


def score_items(
    run: Run,
    items: Iterable[Item],
    pairs: Sequence[SentencePair] | None = None,
    sink: Callable[[Mapping[str, Any]], None] | None = None,
    progress: Progress | None = None,
) -> Scores | PairScores:
    """The scores of texts, or of the sentences of pairs; rows go to `sink`, or else to memory, unless there is a folder."""
    shape, once = run.shape, isinstance(items, Iterator)
    total, identity = (0, "") if once else count_and_hash(items)
    if not total and not once:
        raise InputError(NO_TEXT)
    model, workers, load = model_on_ray(run.model, run.workers) if run.on_ray else (as_model(run.model), None, None)
    if run.folder is None:
        in_memory: list[dict[str, Any]] = []
        take = in_memory.append if sink is None else sink
        parts = stream(model, items, shape, run.windows, total, progress)
        if (first := next(parts, None)) is None:
            raise InputError(NO_TEXT)
        for part in chain([first], parts):
            for row in part:
                take(row)
        scores = Scores(shape, tuple(in_memory))
    else:
        options = {f"{score.name} {name}": value for score in shape.scores for name, value in asdict(score).items()}
        settings: dict[str, Any] = {"scores": [score.name for score in shape.scores], **options, "windows": run.windows}
        settings |= {"model": model_name(run.model), "weights": model.fingerprint, "dtype": str(model.dtype), "texts": identity}
        settings |= {"rows": shape.kind, "unit": shape.unit, "written_as": run.format}
        with RunFolder(run.folder, KIND, settings, model=model.fingerprint, same_content={"model": "weights"}) as folder:
            run_in_folder(folder, model, items, shape, run.windows, run.format, total, workers, load, progress)
            scores = Scores(shape, folder=folder.path)
    if pairs is None:
        return scores
    compared = compare_pairs(pairs, scores.rows, shape)
    if scores.folder is not None:
        write_json(scores.folder / "accuracy.json", {"unit": shape.unit, "accuracy": compared.accuracy})
    return compared


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


def chunks(model: MaskedLM, items: Iterable[tuple[int, Item]], scores: Sequence[Score], device: str) -> Iterator[list[Prepared]]:
    """Texts as tokens, in chunks of as much work as suits the device."""
    most_texts, most_passes = CHUNK_TEXTS[device], CHUNK_PASSES[device]
    passes_by_sites = cache(lambda sites: passes_of(sites, scores))
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
    shape: RowShape,
    windows: bool,
    progress: Callable[[int], Progress | None] = lambda _: None,
    ahead: bool = False,
) -> Iterator[tuple[list[Prepared], TextScores]]:
    """The chunks with their numbers; `progress(n)` reports texts after the n that went before.

    ahead   ask for the passes of a chunk before the numbers of the one before are read: a GPU is busy with them while the
            caller uses those numbers, and while the next chunk is read
    """
    begun: deque[tuple[list[Prepared], Callable[[], TextScores]]] = deque()
    done = 0
    for chunk in work:
        texts = [text.encoded for text in chunk if text.encoded is not None]
        begun.append((chunk, begin(model, texts, shape.scores, windows, progress(done), shape.by_site)))
        done += len(chunk)
        if len(begun) > ahead:
            before, read = begun.popleft()
            yield before, read()
    yield from ((chunk, read()) for chunk, read in begun)


def stream(
    model: MaskedLM, items: Iterable[Item], shape: RowShape, windows: bool, total: int = 0, progress: Progress | None = None
) -> Iterator[Rows]:
    """The rows chunk by chunk, in this process."""
    work = chunks(model, enumerate(items, 1), shape.scores, model.device.type)
    done = 0
    ahead = model.device.type == "cuda" and not isinstance(items, Iterator)
    for chunk, numbers in scored(model, work, shape, windows, _among(progress, 0, total), ahead):
        yield shape.rows(model.words, chunk, numbers)
        done += len(chunk)
        if progress:
            progress(done, total, TEXTS)


def run_in_folder(
    folder: RunFolder,
    model: MaskedLM,
    items: Iterable[Item],
    shape: RowShape,
    windows: bool,
    format: str,
    total: int,
    workers: Workers | None = None,
    load: Callable[[], MaskedLM] | None = None,
    progress: Progress | None = None,
) -> None:
    """Score the texts that have no rows in the folder yet, and write scores.jsonl, .csv or .parquet when all are there."""
    columns = shape.columns
    marks = np.zeros(total + 1, dtype=bool)
    for part in folder.parts():
        marks[read_rows([part], columns)["item"].to_numpy()] = True
    already, done = int(marks.sum()), marks.tobytes()
    pending = ((number, item) for number, item in enumerate(items, 1) if number > total or not done[number])
    device = model.device.type if workers is None else workers.device
    work = chunks(model, pending, shape.scores, device)
    finished = already
    if progress:
        progress(already, total, TEXTS)
    with _writing(folder, columns) as write:
        if workers is None:
            for chunk, numbers in scored(model, work, shape, windows, _among(progress, already, total), device == "cuda"):
                write(shape.table(model.words, chunk, numbers), chunk[0].number)
        else:
            for table, first, texts in _on_ray(workers, load, work, shape, windows):
                write(table, first)
                finished += texts
                if progress:
                    progress(finished, total, TEXTS)
    tables = (read_rows([part], columns) for part in folder.parts())
    write_rows(folder.path / f"scores.{format}", tables, columns, format)


@contextmanager
def _writing(folder: RunFolder, columns: pyarrow.Schema) -> Iterator[Callable[[pyarrow.Table, int], None]]:
    """A function that keeps the rows of the texts from a number on, while the next are computed.

    It raises what went wrong with the part before.
    """
    waiting: list[Future[None]] = []

    def write(table: pyarrow.Table, first: int) -> None:
        while waiting:
            waiting.pop().result()
        waiting.append(thread.submit(folder.store, table, columns, f"part-{first:09d}"))

    with ThreadPoolExecutor(1) as thread:
        yield write
        for last in waiting:
            last.result()


def _on_ray(
    workers: Workers,
    load: Callable[[], MaskedLM] | None,
    work: Iterable[list[Prepared]],
    shape: RowShape,
    windows: bool,
) -> Iterator[tuple[pyarrow.Table, int, int]]:
    """Tables as they come, the number of each one's first text, and how many texts it has."""
    sent: dict[int, tuple[int, int]] = {}

    def texts() -> Iterator[list[tuple[int, Item]]]:
        for place, chunk in enumerate(work):
            sent[place] = chunk[0].number, len(chunk)
            yield [(text.number, text.item) for text in chunk]

    for place, table in each(partial(_table, shape, windows), texts(), workers, load):
        yield table, *sent[place]


def _table(shape: RowShape, windows: bool, model: MaskedLM, texts: list[tuple[int, Item]]) -> pyarrow.Table:
    ((chunk, numbers),) = scored(model, [prepared(model, texts)], shape, windows)
    return shape.table(model.words, chunk, numbers)


def _among(progress: Progress | None, before: int, all_texts: int) -> Callable[[int], Progress | None]:
    """Counts the texts of a chunk among all texts; other counts are passed on."""
    if progress is None:
        return lambda _: None

    def report(done_before: int, done: int, total: int, what: str = TEXTS) -> None:
        counts = (before + done_before + done, all_texts) if what == TEXTS else (done, total)
        progress(*counts, what)

    return partial(partial, report)


def count_and_hash(items: Iterable[Item]) -> tuple[int, str]:
    """The number of texts, and a hash that identifies them."""
    whole, count = hashlib.sha256(), 0
    for count, item in enumerate(items, 1):  # noqa: B007
        whole.update(repr((item.text, item.target, item.id)).encode("utf-8", "surrogatepass"))
    return count, whole.hexdigest()[:16]
