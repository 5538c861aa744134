"""A stream of texts to a stream of rows, chunk by chunk; with a folder, work that was stopped goes on where it ended.

A chunk is a few hundred texts, or as many as make CHUNK_PASSES passes; within it equal texts are scored once and texts of one
length side by side, so that no padding is computed. Memory holds one chunk. A folder keeps one part per chunk, named by its
first text; which texts are done is read from the parts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from unmask.errors import InputError, UnmaskError
from unmask.runs.engines import OnRay
from unmask.runs.folder import RunFolder, read_rows
from unmask.runs.progress import Progress
from unmask.scoring.computing import TEXTS, passes_of, score_texts
from unmask.scoring.output import schema, write_rows
from unmask.scoring.reading import Item
from unmask.scoring.rows import text_row, token_rows, word_rows
from unmask.scoring.settings import ScoreSettings
from unmask.scoring.tokens import Encoded, encode

if TYPE_CHECKING:
    import pyarrow

    from unmask.models.masked_lm import MaskedLM

CHUNK_TEXTS = {"cpu": 512, "cuda": 8192}
CHUNK_PASSES = {"cpu": 20_000, "cuda": 2_000_000}
"""What one chunk holds: some seconds of work, which is what an interrupt can lose."""


class Prepared(NamedTuple):
    """A text with its number, from 1, and its tokens, or the reason why it cannot be scored."""

    number: int
    item: Item
    encoded: Encoded | None
    reason: str | None


@dataclass(frozen=True)
class RowShape:
    """What the rows are: per text, word or token; in nats or bits; with each text's words and tokens inside its row."""

    kind: str = "texts"
    unit: str = "nats"
    tokens: bool = False

    def columns(self, settings: ScoreSettings) -> pyarrow.Schema:
        """Of the rows."""
        return schema(settings.scores, self.kind, self.tokens)


Rows = list[dict[str, Any]]


def score_chunk(
    model: MaskedLM,
    chunk: Sequence[Prepared],
    settings: ScoreSettings,
    shape: RowShape,
    told: Progress | None = None,
) -> Rows:
    """The rows of a chunk, in its order; every text has one at least, with the reason where it could not be scored."""
    scored = iter(score_texts(model, [text.encoded for text in chunk if text.encoded is not None], settings, told))
    rows: Rows = []
    for number, item, text, reason in chunk:
        scores = None if text is None else next(scored)
        whole = text_row(number, item, text, scores, settings.scores, shape.unit)
        whole["reason"] = reason if scores is None else scores.reason
        words = [] if text is None or scores is None else word_rows(item, text, scores, shape.unit)
        tokens = [] if text is None or scores is None else token_rows(item, text, scores, shape.unit)
        if shape.kind == "texts":
            rows.append(whole | ({"words": words, "tokens": tokens} if shape.tokens else {}))
        else:
            start, end = {"item": number, "id": item.id}, {"reason": whole["reason"]}
            rows += [start | row | end for row in (words if shape.kind == "words" else tokens)] or [start | end]
    return rows


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
        if chunk[-1].encoded is not None:
            passes += passes_of(chunk[-1].encoded, settings)
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
) -> Iterator[Rows]:
    """The rows chunk by chunk, in this process."""
    done = 0
    for chunk in chunks(model, enumerate(items, 1), settings):
        yield score_chunk(model, chunk, settings, shape, _told(progress, done, total))
        done += len(chunk)
        if progress:
            progress(done, total, TEXTS)


@dataclass(frozen=True)
class RayPool:
    """How chunks are scored on Ray: every worker loads the model by itself."""

    model: str | None
    device: str
    dtype: str
    workers: int | None
    rename: Mapping[str, str] | None = None


def run_in_folder(
    folder: RunFolder,
    model: MaskedLM,
    items: Sequence[Item] | Iterable[Item],
    settings: ScoreSettings,
    shape: RowShape,
    format: str,
    total: int,
    pool: RayPool | None = None,
    progress: Progress | None = None,
) -> None:
    """Score what the folder has no rows of yet, and write scores.jsonl, .csv or .parquet when all are there."""
    columns = shape.columns(settings)
    done = set(folder.rows(columns)["item"].to_pylist())
    already = len(done)
    pending = ((number, item) for number, item in enumerate(items, 1) if number not in done)
    work = chunks(model, pending, settings)
    finished = 0
    if progress:
        progress(already, total, TEXTS)
    if pool is None:
        for chunk in work:
            folder.store(
                score_chunk(model, chunk, settings, shape, _told(progress, already + finished, total)), columns, _name(chunk)
            )
            finished += len(chunk)
    else:
        waiting = list(work)
        engine = OnRay(partial(_worker, pool, settings, shape), pool.workers, pool.device.startswith("cuda"))
        failed: list[str] = []
        for answer in engine(waiting):
            if answer.result is None:
                failed.append(answer.failure or "no reason was given")
                continue
            folder.store(answer.result, columns, _name(waiting[answer.place]))
            finished += len(waiting[answer.place])
            if progress:
                progress(already + finished, total, TEXTS)
        if failed:
            raise UnmaskError(f"{len(failed)} of {len(waiting)} chunks failed ({failed[0]}): the same command tries them again")
    tables = (read_rows([part], columns) for part in folder.parts())
    write_rows(folder.path / f"scores.{format}", tables, columns, format)


def count_and_hash(items: Iterable[Item]) -> tuple[int, str]:
    """How many texts there are, and what identifies them."""
    whole, count = hashlib.sha256(), 0
    for count, item in enumerate(items, 1):  # noqa: B007
        whole.update(repr((item.text, item.target, item.id)).encode("utf-8", "surrogatepass"))
    return count, whole.hexdigest()[:16]


def _worker(pool: RayPool, settings: ScoreSettings, shape: RowShape) -> Callable[[list[Prepared]], Rows]:
    from unmask.models.masked_lm import MaskedLM

    model = MaskedLM.load(pool.model, device=pool.device, dtype=pool.dtype, rename=pool.rename)
    return lambda chunk: score_chunk(model, chunk, settings, shape)


def _told(progress: Progress | None, before: int, all_texts: int) -> Progress | None:
    """Counts the texts of a chunk among all; what is counted within a chunk is passed on."""

    def tell(done: int, total: int, what: str = TEXTS) -> None:
        if progress and what == TEXTS:
            progress(before + done, all_texts, what)
        elif progress:
            progress(done, total, what)

    return None if progress is None else tell


def _name(chunk: Sequence[Prepared]) -> str:
    return f"part-{chunk[0].number:09d}"
