"""`score`: texts through the model chunk by chunk, and the rows of its results.

Texts go through in chunks of a few hundred, or of as many as make CHUNK_PASSES passes; memory
holds one chunk. A folder keeps one part per chunk, named by its first text; the parts show
which texts are done, and work that was stopped continues where it ended.

    texts    item, id, text, length, unknown, one column per score and its further columns, reason
    words    item, id, word_number, word, start, end, length, NAME_surprisal for every score
             that is a sum over tokens, reason
    tokens   item, id, token_number, token, start, end, word_number, position, NAME_surprisal,
             reason
    nested   as texts, with the columns words and tokens, which hold the rows of the text's
             words and tokens

The user's columns keep their names: one of ours that has the same name is called unmask_NAME,
and a warning says so.

`item` counts the texts from 1, `word_number` the words of a text between spaces, from 1; start
and end are places in the text, in characters. length: tokens scored. A surprisal is minus the
token's share of the score, so that those of a text add up to minus its score; an energy's
shares are themselves, in a column of its name.

Two texts are aligned by the longest common runs of their tokens; a stretch that differs is put
side by side and filled up with gaps. Every token is in exactly one row, so the differences of a
score's shares add up to the difference of the scores.

Minimal pairs: how often the acceptable sentence has the better score,

    accuracy = (pairs with good better than bad + ties / 2) / pairs

with Wilson's 95 % interval, which stays between 0 and 1 for few pairs too. Ties are counted and
reported: identical sentences (BLiMP has some) tie by any score. A pair with a sentence that has
no score is left out of the accuracy, and counted.
"""

from __future__ import annotations

import csv
import hashlib
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from difflib import SequenceMatcher
from functools import cache, cached_property, partial
from itertools import chain, islice, zip_longest
from math import isnan, log, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from warnings import warn

import numpy as np

from unmask.common.checks import whole
from unmask.common.errors import InputError, UnmaskWarning, argument_name
from unmask.common.files import as_json, atomic_path, write_json
from unmask.common.intervals import wilson
from unmask.common.results import Result
from unmask.models.first_look import look_at_first
from unmask.models.load import Model, model_name
from unmask.models.masked_lm import MaskedLM
from unmask.models.sharing import shared_model
from unmask.models.text.text_tokenizer import TextTokenizer
from unmask.runs.engine import Workers, each
from unmask.runs.folder import RunFolder, on_a_thread, read_parts, read_rows
from unmask.runs.progress import Progress
from unmask.scoring.batch import TEXTS, TextScores, begin
from unmask.scoring.registry import DECODER, SCORES, Score, about, columns_of
from unmask.scoring.texts import (
    Encoded,
    Item,
    Prepared,
    SentencePair,
    own_name,
    prepare,
    spaced_words,
    word_of_site,
)

if TYPE_CHECKING:
    import pandas
    import pyarrow

KIND = "score"
CHUNK_TEXTS = {"cpu": 512, "cuda": 8192}
CHUNK_PASSES = {"cpu": 20_000, "cuda": 2_000_000}
"""Limits of one chunk: some seconds of work, which an interrupt can lose."""
FEWEST_READ, MOST_READ = 16, 1024
"""Texts that are tokenised at once: as many as the last chunk had, or as this one has so far; a
slow stream is not waited for.
"""
UNITS = {"nats": 1.0, "bits": log(2)}
PLACE = {"start": "int64", "end": "int64"}
WORD = {"word_number": "int64", "word": "string", **PLACE, "length": "int64"}
TOKEN = {
    "token_number": "int64",
    "token": "string",
    **PLACE,
    "word_number": "int64",
    "position": "int64",
}
Rows = list[dict[str, Any]]


def score_items(
    model: Model,
    shape: RowShape,
    items: Iterable[Item],
    out: Path | None = None,
    format: str = "jsonl",
    engine: str = "local",
    sink: Callable[[Mapping[str, Any]], None] | None = None,
    progress: Progress | None = None,
    warns: bool = True,
) -> Scores:
    """The scores of texts; rows go to the folder `out`, or else to `sink`, or else to memory.

    format    of the file that a folder gets at the end
    engine    local, ray, or ray:N
    warns     whether columns of ours that are renamed are the user's to know
    """
    once = isinstance(items, Iterator)
    total, identity = (0, "") if once else count_and_hash(items, is_kept=out is not None)
    leading = _up_to_a_text(items)
    if not leading:
        raise InputError("there is no text to score: give at least one")
    items = chain(leading, items) if once else items
    shape = shape.with_columns(leading[-1])
    if warns:
        _warn_of_renamed(shape.renamed)
    lm, workers, load = shared_model(model, engine)
    if out is None:
        in_memory: list[dict[str, Any]] = []
        take = in_memory.append if sink is None else sink
        device = lm.device.type
        work = chunks(lm, enumerate(items, 1), shape.scores, device)
        for chunk, numbers in scored(
            lm, work, shape, 0, total, progress, ahead=device == "cuda" and not once
        ):
            for row in shape.rows(lm.words, chunk, numbers):
                take(row)
        return Scores(shape, tuple(in_memory))
    options = {
        f"{score.name} {name}": value
        for score in shape.scores
        for name, value in asdict(score).items()
    }
    settings: dict[str, Any] = {
        "scores": [score.name for score in shape.scores],
        **options,
        "windows": shape.windows,
    }
    settings |= {
        "model": model_name(model),
        "weights": lm.fingerprint,
        "dtype": str(lm.dtype),
        "texts": identity,
    }
    settings |= {"rows": shape.kind, "unit": shape.unit, "written_as": format}
    with RunFolder(out, KIND, settings) as folder:
        run_in_folder(folder, lm, items, shape, format, total, workers, load, progress)
        return Scores(shape, folder=folder.path)


def _up_to_a_text(items: Iterable[Item]) -> list[Item]:
    """The items up to the first that is not empty: an empty line, or row, has no columns."""
    leading = []
    for item in items:
        leading.append(item)
        if item.text.strip() or item.columns:
            break
    return leading


def chunks(
    model: MaskedLM, items: Iterable[tuple[int, Item]], scores: Sequence[Score], device: str
) -> Iterator[list[Prepared]]:
    """Texts as tokens, in chunks of as much work as suits the device. The first look is here:
    warnings of workers are dropped.
    """
    most_texts, most_passes = CHUNK_TEXTS[device], CHUNK_PASSES[device]
    passes_by_sites = cache(lambda sites: sum(score.cost(sites) for score in scores))
    waiting, size = iter(items), FEWEST_READ
    chunk, passes = list[Prepared](), 0
    while block := list(islice(waiting, size)):
        texts = prepare(model.words, block)
        look_at_first(model, (text.encoded.ids for text in texts if text.encoded is not None))
        for text in texts:
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
        watched: Progress | None = of_texts
        if is_all or progress is None:
            watched = progress
        begun.append(
            (
                chunk,
                begin(model, texts, shape.scores, shape.windows, watched, shape.kind != "texts"),
            )
        )
        finished += len(chunk)
        if progress and not is_all:
            progress(finished, count, TEXTS)
        if len(begun) > ahead:
            before, read = begun.popleft()
            yield before, read()
    yield from ((chunk, read()) for chunk, read in begun)


def run_in_folder(
    folder: RunFolder,
    model: MaskedLM,
    items: Iterable[Item],
    shape: RowShape,
    format: str,
    total: int,
    workers: Workers | None,
    load: Callable[[], MaskedLM] | None,
    progress: Progress | None,
) -> None:
    """Score the texts that have no rows in the folder yet, and write scores.jsonl, .csv or
    .parquet when all are there.
    """
    columns = shape.columns
    marks = np.zeros(total + 1, dtype=bool)
    for part in read_parts(folder.path):
        marks[read_rows([part], columns)[shape.own("item")].to_numpy()] = True
    finished, has_rows = int(marks.sum()), marks.tobytes()
    pending = (
        (number, item)
        for number, item in enumerate(items, 1)
        if number > total or not has_rows[number]
    )
    device = model.device.type if workers is None else workers.device
    work = chunks(model, pending, shape.scores, device)
    if progress:
        progress(finished, total, TEXTS)
    sent: dict[int, tuple[int, int]] = {}

    def texts() -> Iterator[list[tuple[int, Item]]]:
        """The chunks for workers; `sent` has the number of each one's first text, and how many
        it has.
        """
        for place, chunk in enumerate(work):
            sent[place] = chunk[0].number, len(chunk)
            yield [(text.number, text.item) for text in chunk]

    with on_a_thread() as call:
        if workers is None or load is None:
            for chunk, numbers in scored(
                model, work, shape, finished, total, progress, device == "cuda"
            ):
                call(
                    folder.store,
                    shape.table(model.words, chunk, numbers),
                    columns,
                    f"part-{chunk[0].number:09d}",
                )
        else:
            for place, table in each(partial(_table, shape), texts(), workers, load):
                call(folder.store, table, columns, f"part-{sent[place][0]:09d}")
                finished += sent[place][1]
                if progress:
                    progress(finished, total, TEXTS)
    tables = (read_rows([part], columns) for part in read_parts(folder.path))
    write_rows(folder.path / f"scores.{format}", tables, columns, format)


def _table(shape: RowShape, model: MaskedLM, texts: list[tuple[int, Item]]) -> pyarrow.Table:
    ((chunk, numbers),) = scored(model, [prepare(model.words, texts)], shape)
    return shape.table(model.words, chunk, numbers)


def _refuse_surrogates(item: Item, number: int) -> None:
    """Raise for a text, or a column of its record, that no file can hold."""
    columns = item.columns or {}
    values = [value if isinstance(value, str) else as_json(value) for value in columns.values()]
    for part in (item.text, item.id or "", *columns, *values):
        try:
            part.encode()
        except UnicodeEncodeError:
            problem = (
                "half of a surrogate pair, which is not a character and cannot be kept in a folder"
            )
            raise InputError(f"text {number} has {problem}: correct it") from None


def count_and_hash(items: Iterable[Item], is_kept: bool = False) -> tuple[int, str]:
    """The number of texts, and a hash that identifies them; raises for a text that cannot be
    kept in a file if it `is_kept`.
    """
    whole, count = hashlib.sha256(), 0
    for count, item in enumerate(items, 1):
        if is_kept:
            _refuse_surrogates(item, count)
        columns = () if item.columns is None else (dict(item.columns),)
        whole.update(
            repr((item.text, item.target, item.id, *columns)).encode("utf-8", "surrogatepass")
        )
    return count, whole.hexdigest()[:16]


@dataclass(frozen=True)
class RowShape:
    """The scores of rows, what a row is (texts, words, tokens or nested), and its unit (nats or
    bits).

    windows   whether texts longer than the model are scored in windows
    carried   columns of the user's table that come back, and the type of each
    """

    scores: tuple[Score, ...]
    kind: str = "texts"
    unit: str = "nats"
    windows: bool = False
    carried: tuple[tuple[str, str], ...] = ()

    def with_columns(self, first: Item) -> RowShape:
        """The same with the other columns of the record of the first text that has one."""
        if not first.columns:
            return self
        types = {bool: "bool", int: "int64", float: "double"}
        carried = tuple(
            (name, types.get(type(value), "string")) for name, value in first.columns.items()
        )
        return replace(self, carried=carried)

    def own(self, column: str) -> str:
        """The name of a column of ours, which is another where the user has a column of that
        name.
        """
        return own_name(column, self._taken)

    @cached_property
    def _taken(self) -> frozenset[str]:
        """Names of the user's columns."""
        return frozenset(name for name, _ in self.carried)

    def ours(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Our columns of a row, under the names that they have without columns of the user."""
        if not self.carried:  # all are ours; a look at the columns would import pyarrow
            return dict(row)
        return {name: row[self.own(name)] for name in self._own_columns}

    @property
    def renamed(self) -> dict[str, str]:
        """Columns of ours that have another name because of the user's columns, and that name."""
        if not self.carried:  # none is; a look at the columns would import pyarrow
            return {}
        return {name: own for name in self._own_columns if (own := self.own(name)) != name}

    @cached_property
    def _own_columns(self) -> list[str]:
        return replace(self, carried=()).columns.names

    @cached_property
    def columns(self) -> pyarrow.Schema:
        """The columns of the rows."""
        import pyarrow as pa

        def typed(types: Mapping[str, str]) -> list[Any]:
            return [pa.field(name, pa.type_for_alias(alias)) for name, alias in types.items()]

        def own(fields: Iterable[Any]) -> list[Any]:
            return [field.with_name(self.own(field.name)) for field in fields]

        shares = [
            pa.field(score.share_column, pa.float64()) for score in self.scores if score.by_token
        ]
        word, token = [*typed(WORD), *shares], [*typed(TOKEN), *shares]
        start = [*own(typed({"item": "int64", "id": "string"})), *typed(dict(self.carried))]
        reason = pa.field("reason", pa.string())
        if self.kind in ("words", "tokens"):
            return pa.schema([*start, *own([*(word if self.kind == "words" else token), reason])])
        whole = typed({"text": "string", "length": "int64", "unknown": "int64"})
        scores = [pa.field(column, pa.float64()) for column in columns_of(self.scores)]
        inside = (
            {"words": pa.list_(pa.struct(word)), "tokens": pa.list_(pa.struct(token))}
            if self.kind == "nested"
            else {}
        )
        lists = [pa.field(name, kind) for name, kind in inside.items()]
        return pa.schema([*start, *own([*whole, *scores, reason, *lists])])

    def table(
        self, words: TextTokenizer, chunk: Sequence[Prepared], scored: TextScores
    ) -> pyarrow.Table:
        """The rows of texts as a table; `rows` says which."""
        import pyarrow as pa

        try:
            if self.kind != "texts":
                return pa.Table.from_pylist(self.rows(words, chunk, scored), schema=self.columns)
            return pa.Table.from_pydict(self._cells(chunk, scored), schema=self.columns)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise InputError(
                f"a column of the texts has values of several types ({error}): write them as text"
            ) from None

    def rows(self, words: TextTokenizer, chunk: Sequence[Prepared], scored: TextScores) -> Rows:
        """The rows of texts, in their order; each has at least one, with the reason if it could
        not be scored.
        """
        cells = self._cells(chunk, scored)
        texts = [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)]
        if self.kind == "texts":
            return texts
        rows, place = Rows(), -1
        for prepared, row in zip(chunk, texts, strict=True):
            parts: dict[str, Rows] = {"words": [], "tokens": []}
            if prepared.encoded is not None:
                place += 1
                text = words, prepared.item.text, prepared.encoded, self._shares(scored, place)
                parts = {"words": _word_rows(*text), "tokens": _token_rows(*text)}
            if self.kind == "nested":
                rows.append(row | self._with_own_names(parts))
            else:
                start = {
                    name: row[name]
                    for name in (self.own("item"), self.own("id"), *dict(self.carried))
                }
                empty = dict.fromkeys(self.columns.names) | start
                reason = {"reason": row[self.own("reason")]}
                rows += [
                    empty | self._with_own_names(part | reason) for part in parts[self.kind] or [{}]
                ]
        return rows

    def _with_own_names(self, values: dict[str, Any]) -> dict[str, Any]:
        return (
            values if not self._taken else {self.own(name): value for name, value in values.items()}
        )

    def _cells(self, chunk: Sequence[Prepared], scored: TextScores) -> dict[str, list[Any]]:
        """The columns of rows per text."""
        names = {name for text in chunk for name in text.item.columns or ()}
        if others := names - self._taken:
            warn(
                f"{_listed(others)} not of the first text and left out: give every text the same"
                " columns",
                UnmaskWarning,
                2,
            )
        cells: dict[str, list[Any]] = {
            self.own("item"): [text.number for text in chunk],
            self.own("id"): [text.item.id for text in chunk],
            **{
                name: [_as_column((text.item.columns or {}).get(name), kind) for text in chunk]
                for name, kind in self.carried
            },
            self.own("text"): [text.item.text for text in chunk],
            self.own("length"): [
                0 if text.encoded is None else len(text.encoded.sites) for text in chunk
            ],
            self.own("unknown"): [
                0 if text.encoded is None else text.encoded.unknown for text in chunk
            ],
        }
        places = [place for place, text in enumerate(chunk) if text.encoded is not None]
        for column in columns_of(self.scores):
            values = np.full(len(chunk), nan)
            if places:
                values[places] = scored.values[column] / UNITS[self.unit]
            cells[self.own(column)] = [None if isnan(value) else value for value in values.tolist()]
        reasons = [text.reason for text in chunk]
        for place, reason in scored.reasons.items():
            reasons[places[place]] = reason
        cells[self.own("reason")] = reasons
        return cells

    def _shares(self, scored: TextScores, place: int) -> dict[str, list[float]]:
        """The shares of a text's sites by column, without scores that the text lacks."""
        return {
            score.share_column: [
                -score.better * share / UNITS[self.unit]
                for share in scored.shares[score.name][place]
            ]
            for score in self.scores
            if score.name in scored.shares and not isnan(scored.values[score.name][place])
        }


def _warn_of_renamed(renamed: Mapping[str, str]) -> None:
    """Warn of columns of ours that have another name because the user's texts have a column of
    that name.
    """
    if renamed:
        columns = "columns" if len(renamed) > 1 else "a column"
        names, others = ", ".join(renamed), ", ".join(renamed.values())
        ours = "ours of these names are" if len(renamed) > 1 else "ours of this name is"
        warn(
            f"the texts have {columns} {names}, kept as given: {ours} called {others}",
            UnmaskWarning,
            stacklevel=4,
        )


def _listed(names: Collection[str]) -> str:
    columns, are = ("columns", "are") if len(names) > 1 else ("column", "is")
    return f"{columns} {', '.join(sorted(names))} of the texts {are}"


def _as_column(value: Any, kind: str) -> Any:
    """A value of the user's table as its column holds it."""
    return (
        value
        if kind != "string" or value is None or isinstance(value, str)
        else as_json(value, indent=None)
    )


def _token_rows(
    words: TextTokenizer, text: str, encoded: Encoded, shares: Mapping[str, Sequence[float]]
) -> Rows:
    """One row per token that is scored."""
    return [
        {
            "token_number": site + 1,
            "token": words.token(encoded.ids[t]),
            "start": encoded.tokens.spans[t][0],
            "end": encoded.tokens.spans[t][1],
            "word_number": word + 1,
            "position": t,
            **{column: values[site] for column, values in shares.items()},
        }
        for site, (t, word) in enumerate(
            zip(encoded.sites, word_of_site(encoded, text), strict=True)
        )
    ]


def _word_rows(
    words: TextTokenizer, text: str, encoded: Encoded, shares: Mapping[str, Sequence[float]]
) -> Rows:
    """One row per word between spaces; words around a target have none."""
    spans, placed = spaced_words(text), any(end for _, end in encoded.tokens.spans)
    sites_of: dict[int, list[int]] = {}
    for site, number in enumerate(word_of_site(encoded, text)):
        sites_of.setdefault(number, []).append(site)
    rows = []
    for word, sites in sites_of.items():
        start, end = spans[word] if placed else (0, 0)
        rows.append(
            {
                "word_number": word + 1,
                "word": (
                    text[start:end] if placed else words.token(encoded.ids[encoded.sites[sites[0]]])
                ),
                "start": start,
                "end": end,
                "length": len(sites),
                **{
                    column: sum(values[site] for site in sites) for column, values in shares.items()
                },
            }
        )
    return rows


def write_rows(
    path: Path, tables: Iterable[pyarrow.Table], columns: pyarrow.Schema, format: str
) -> None:
    """Write tables one after the other as one file; at most one of them is in memory."""
    with atomic_path(path) as temporary:
        if format == "parquet":
            from pyarrow import parquet

            with parquet.ParquetWriter(temporary, columns, write_page_checksum=True) as writer:
                for table in tables:
                    writer.write_table(table.select(columns.names))
            return
        with open(temporary, "w", encoding="utf-8", newline="") as file:
            write = LineWriter(file, format)
            for table in tables:
                for row in table.to_pylist():
                    write(row)


class LineWriter:
    """Writes rows as lines of JSON, or of CSV under a heading from the first row, to a stream."""

    def __init__(self, stream: Any, format: str) -> None:
        self._stream, self._format = stream, format
        self._csv: csv.DictWriter[str] | None = None

    def __call__(self, row: Mapping[str, Any]) -> None:
        """Write one more row."""
        if self._format != "csv":
            self._stream.write(as_json(row, indent=None) + "\n")
            return
        if self._csv is None:
            self._csv = csv.DictWriter(self._stream, list(row), lineterminator="\n")
            self._csv.writeheader()
        self._csv.writerow(row)


def check_rows(scores: Sequence[Score], rows: str) -> None:
    """Refuse rows of words or tokens for a score that has no value per token."""
    if rows not in ("words", "tokens"):
        return
    without = [score.name for score in scores if not score.by_token]
    if without:
        known = ", ".join(
            [*(name for name, score in SCORES.items() if score.by_token), f"{DECODER}NAME@PASSES"]
        )
        raise InputError(
            f"{', '.join(without)} has no value per token, and {argument_name('rows', rows)} has"
            " nothing else",
            argument="score",
            use=f"give {argument_name('rows')} texts or nested, or scores that have one ({known})",
        )


def check_format(format: str, rows: str, on_stream: bool) -> None:
    """Refuse rows that a format cannot hold."""
    if format == "csv" and rows == "nested":
        raise InputError(
            "csv cannot hold nested rows",
            argument="format",
            use=f"give {argument_name('rows')} words or tokens, or jsonl or parquet",
        )
    if format == "parquet" and on_stream:
        raise InputError(
            "parquet cannot be printed",
            argument="format",
            use=f"give {argument_name('out')} for a folder, or print jsonl or csv",
        )


class _OfScores(Result):
    """A result with the scores and the unit of a shape."""

    shape: RowShape

    @property
    def scores(self) -> dict[str, dict[str, Any]]:
        """The definition of each score by name, and whether it is a probability."""
        return about(self.shape.scores)

    @property
    def unit(self) -> str:
        """nats or bits."""
        return self.shape.unit

    @property
    def headline(self) -> str:
        """The scores, whether each is a probability, and the unit."""
        names = [
            f"{score.name} ({'' if score.probability else 'not '}a probability)"
            for score in self.shape.scores
        ]
        return f"{', '.join(names)}, in {self.unit}"


@dataclass(frozen=True, repr=False)
class Scores(_OfScores):
    """The rows of a call of `unmask.score`, one per text, word or token, as mappings; a
    notebook shows them as a table.

    `len`, `for` and `[place]` are those of `rows`. The rows of a run folder are read from it
    when they are first used.

    shape       the scores, what a row is, and its unit
    in_memory   the rows, where there is no folder
    folder      where the run is kept, if it is

    >>> scores = unmask.score(["The keys are here.", "The keys is here."], rows="nested")
    >>> len(scores), scores[0]["pll"] > scores[1]["pll"]
    (2, True)
    >>> most = max(scores.difference(), key=lambda row: row["pll_difference"])
    >>> most["first_token"], most["second_token"]
    ('are', 'is')
    """

    KEYS: ClassVar[tuple[str, ...]] = ("scores", "unit", "rows")

    shape: RowShape
    in_memory: tuple[dict[str, Any], ...] = ()
    folder: Path | None = None

    @cached_property
    def rows(self) -> Rows:
        """All rows, in the order of the texts."""
        if self.folder is None:
            return list(self.in_memory)
        return [
            dict(row) for row in read_rows(read_parts(self.folder), self.shape.columns).to_pylist()
        ]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def __getitem__(self, row: int) -> dict[str, Any]:
        return self.rows[row]

    def __repr__(self) -> str:
        return (
            f"Scores({', '.join(score.name for score in self.shape.scores)}; {len(self)}"
            f" {self.shape.kind})"
        )

    def reasons(self) -> Iterator[tuple[int, str | None]]:
        """The number of each row's text, and why a number is missing (None: none is); a
        folder's rows are not kept in memory.
        """
        item, reason = self.shape.own("item"), self.shape.own("reason")
        if self.folder is None:
            yield from ((row[item], row[reason]) for row in self.rows)
            return
        for part in read_parts(self.folder):
            table = read_rows([part], self.shape.columns)
            yield from zip(table[item].to_pylist(), table[reason].to_pylist(), strict=True)

    def _of_text(self, place: int) -> dict[str, Any]:
        """The row of one of the texts, counted from 0; raises if rows are of words or tokens,
        or there is no such text.
        """
        if self.shape.kind in ("words", "tokens"):
            raise InputError(
                f"rows are of {self.shape.kind}, and texts are compared",
                use=f"give score {argument_name('rows', 'nested')}",
            )
        if not self.rows:
            raise InputError("there are no rows in memory: they went to sink")
        if len(self.rows) == 1 and place == 1:
            raise InputError("there is one text, and two are compared: give two texts to score")
        return self.rows[whole("the number of a text", place, 0, len(self.rows) - 1)]

    def _value(self, row: Mapping[str, Any], score: Score) -> float | None:
        value: float | None = row[self.shape.own(score.name)]
        return value

    def by_token(self, first: int = 0, second: int = 1) -> list[Score]:
        """The scores that are sums over tokens, and that both texts have: those of `difference`."""
        texts = (self._of_text(first), self._of_text(second))
        sums = [score for score in self.shape.scores if score.by_token]
        return [
            score for score in sums if all(self._value(row, score) is not None for row in texts)
        ]

    def difference(self, first: int = 0, second: int = 1) -> Rows:
        """Two texts token by token, and how much more of each score the first's token has;
        needs `rows="nested"`.

        Rows have first_token and second_token (None for a gap), and NAME_difference for each
        score of `by_token`.
        """
        texts = [self._of_text(place) for place in (first, second)]
        for place, row in zip((first, second), texts, strict=True):
            if self.shape.kind != "nested":
                raise InputError(
                    "the rows hold no tokens", use=f"give score {argument_name('rows', 'nested')}"
                )
            if all(self._value(row, score) is None for score in self.shape.scores):
                reason = row[self.shape.own("reason")]
                raise InputError(
                    f"text {place + 1} has no score ({reason}): give two texts that have"
                )
        left, right = (text[self.shape.own("tokens")] for text in texts)
        scores, rows = self.by_token(first, second), []
        runs = SequenceMatcher(
            None,
            [token["token"] for token in left],
            [token["token"] for token in right],
            autojunk=False,
        )
        for _, a, b, c, d in runs.get_opcodes():
            for sides in zip_longest(left[a:b], right[c:d]):
                row = dict(
                    zip(
                        ("first_token", "second_token"),
                        (side and side["token"] for side in sides),
                        strict=True,
                    )
                )
                for score in scores:
                    shares = [0.0 if side is None else side[score.share_column] for side in sides]
                    row[f"{score.name}_difference"] = score.better * (shares[1] - shares[0])
                rows.append(row)
        return rows

    def to_frame(self) -> pandas.DataFrame:
        """One row per text, word or token; half of a surrogate pair, which pandas cannot hold,
        is escaped.
        """
        import pandas

        names = self.shape.columns.names
        try:
            return pandas.DataFrame(self.rows, columns=names)
        except UnicodeEncodeError:
            escaped = [{name: _writable(value) for name, value in row.items()} for row in self.rows]
            return pandas.DataFrame(escaped, columns=names)


def _writable(value: Any) -> Any:
    """A text with halves of surrogate pairs escaped; any other value as it is."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


@dataclass(frozen=True, repr=False)
class PairScores(_OfScores):
    """Minimal pairs with the scores of both sentences, from `unmask.score` with `pairs`.

    shape     the scores and their unit
    rows      one row per pair: set, phenomenon, sentence_good, sentence_bad, and for each score
              good_NAME, bad_NAME and NAME_correct: 1 if the good sentence has the better score,
              0.5 for a tie, 0 if the bad one has, None if one has none
    renamed   columns of ours that have another name, because the user has a column of this one

    >>> pair = {"sentence_good": "The keys are here.", "sentence_bad": "The keys is here."}
    >>> unmask.score(minimal_pairs=[pair]).accuracy[-1]["accuracy"]
    1.0
    """

    KEYS: ClassVar[tuple[str, ...]] = ("scores", "unit", "accuracy", "pairs=rows")
    ROWS: ClassVar[str] = "accuracy"

    shape: RowShape
    rows: Rows
    renamed: Mapping[str, str] = field(default_factory=dict)

    def _own(self, row: Mapping[str, Any], column: str) -> Any:
        """The value of one of our columns."""
        return row[self.renamed.get(column, column)]

    @cached_property
    def accuracy(self) -> Rows:
        """Per score: over each set, each phenomenon, and all pairs: accuracy, its interval,
        pairs, ties, unscored.
        """
        rows = []
        for name in (score.name for score in self.shape.scores):
            for level in ("set", "phenomenon"):
                groups: dict[str, list[float | None]] = {}
                for row in self.rows:
                    if (group := self._own(row, level)) is not None:
                        groups.setdefault(group, []).append(self._own(row, f"{name}_correct"))
                rows += [
                    {"score": name, "level": level, "name": key, **share(answers)}
                    for key, answers in groups.items()
                ]
            everything = [self._own(row, f"{name}_correct") for row in self.rows]
            rows.append({"score": name, "level": "all", "name": "all", **share(everything)})
        return rows

    def reasons(self) -> Iterator[tuple[int, str | None]]:
        """The number of each pair, from 1, and why one of its sentences lacks a number (None:
        none does).
        """
        return enumerate((self._own(row, "reason") for row in self.rows), 1)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        overall = [
            f"{row['score']} {row['accuracy']:.1%}"
            for row in self.accuracy
            if row["level"] == "all" and row["pairs"]
        ]
        return f"PairScores({len(self)} pairs; {', '.join(overall)})"


def compare_pairs(pairs: Sequence[SentencePair], scores: Scores) -> PairScores:
    """Pairs and the scores of their sentences: good, bad, good, bad, ...; a run folder gets
    their accuracy.
    """
    own, compared = scores.shape.own, list[dict[str, Any]]()
    taken = {name for pair in pairs for name in pair.columns}
    renamed: dict[str, str] = {}
    for pair, good, bad in zip(pairs, scores.rows[::2], scores.rows[1::2], strict=True):
        row: dict[str, Any] = {"set": pair.set, "phenomenon": pair.phenomenon}
        row |= {"sentence_good": pair.good.text, "sentence_bad": pair.bad.text}
        for score in scores.shape.scores:
            name = score.name
            of_good, of_bad = good[own(name)], bad[own(name)]
            row |= {f"good_{name}": of_good, f"bad_{name}": of_bad}
            row[f"{name}_correct"] = _correct(of_good, of_bad, score.better, pair.good == pair.bad)
        row["reason"] = good[own("reason")] or bad[own("reason")]
        renamed |= {name: own_name(name, taken) for name in row if name in taken}
        compared.append(
            {**pair.columns, **{own_name(name, taken): value for name, value in row.items()}}
        )
    _warn_of_renamed(renamed)
    result = PairScores(scores.shape, compared, renamed)
    if scores.folder is not None:
        write_json(
            scores.folder / "accuracy.json", {"unit": result.unit, "accuracy": result.accuracy}
        )
    return result


def _correct(good: float | None, bad: float | None, better: int, same: bool) -> float | None:
    if good is None or bad is None:
        return None
    return 0.5 if same or good == bad else float(better * good > better * bad)


def share(answers: Sequence[float | None]) -> dict[str, Any]:
    """Accuracy of answers 1, 0.5 and 0 with Wilson's interval; None is a pair without a score."""
    known = [answer for answer in answers if answer is not None]
    n, ties = len(known), sum(answer == 0.5 for answer in known)
    low, high = wilson(sum(known), n) if n else (None, None)
    accuracy = {"accuracy": sum(known) / n if n else None, "low": low, "high": high}
    return {**accuracy, "pairs": n, "ties": ties, "unscored": len(answers) - n}
