"""Rows of numbers: one per text, per word or per token, in nats or bits; and as files of JSON Lines, CSV or Parquet.

    texts    item, id, text, length, unknown, one column per score and its further columns, reason
    words    item, id, word_number, word, start, end, length, NAME_surprisal for every score that is a sum over tokens, reason
    tokens   item, id, token_number, token, start, end, word_number, position, NAME_surprisal, reason

`item` counts the texts from 1, `word_number` the words of a text between spaces, from 1; start and end are places in the text,
in characters. length: tokens scored. A surprisal is minus the token's share of the score, so that those of a text add up to
minus its score; an energy's shares are themselves, in a column of its name.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, log, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unmask.errors import InputError
from unmask.models.text.text_tokenizer import TextTokenizer
from unmask.runs.files import as_json, atomic_path
from unmask.scoring.batch import ScoreSettings, TextScores
from unmask.scoring.registry import SCORES, columns_of, share_column
from unmask.scoring.texts import Encoded, Item, Prepared, spaced_words, word_of_site

if TYPE_CHECKING:
    import pyarrow

UNITS = {"nats": 1.0, "bits": log(2)}
WORD = {"word_number": "int64", "word": "string", "start": "int64", "end": "int64", "length": "int64"}
TOKEN = {
    "token_number": "int64",
    "token": "string",
    "start": "int64",
    "end": "int64",
    "word_number": "int64",
    "position": "int64",
}
TextRows = list[dict[str, Any]]


@dataclass(frozen=True)
class RowShape:
    """The kind of rows: per text, word or token; in nats or bits; with each text's words and tokens inside its row."""

    kind: str = "texts"
    unit: str = "nats"
    tokens: bool = False

    def columns(self, settings: ScoreSettings) -> pyarrow.Schema:
        """The columns of the rows."""
        import pyarrow as pa

        shares = [pa.field(share_column(name), pa.float64()) for name in settings.scores if SCORES[name].by_token]
        word, token = [*_fields(WORD), *shares], [*_fields(TOKEN), *shares]
        start, reason = _fields({"item": "int64", "id": "string"}), pa.field("reason", pa.string())
        if self.kind != "texts":
            return pa.schema([*start, *(word if self.kind == "words" else token), reason])
        whole = _fields({"text": "string", "length": "int64", "unknown": "int64"})
        columns = columns_of(settings.scores).items()
        scores = [pa.field(column, pa.bool_() if is_flag else pa.float64()) for column, is_flag in columns]
        inside = {"words": pa.list_(pa.struct(word)), "tokens": pa.list_(pa.struct(token))} if self.tokens else {}
        return pa.schema([*start, *whole, *scores, reason, *(pa.field(name, kind) for name, kind in inside.items())])

    @property
    def by_site(self) -> bool:
        """Whether the rows need each token's place and share, and not just the numbers of texts."""
        return self.kind != "texts" or self.tokens

    def table(
        self, words: TextTokenizer, chunk: Sequence[Prepared], scores: TextScores, settings: ScoreSettings
    ) -> pyarrow.Table:
        """The rows of texts as a table; `rows` says which."""
        import pyarrow as pa

        columns = self.columns(settings)
        if self.by_site:
            return pa.Table.from_pylist(self.rows(words, chunk, scores, settings), schema=columns)
        return pa.Table.from_pydict(self._cells(chunk, scores, settings), schema=columns)

    def rows(self, words: TextTokenizer, chunk: Sequence[Prepared], scores: TextScores, settings: ScoreSettings) -> TextRows:
        """The rows of texts, in their order; each has at least one, with the reason if it could not be scored."""
        cells = self._cells(chunk, scores, settings)
        if not self.by_site:
            return [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)]
        build = {"words": word_rows, "tokens": token_rows}
        wanted = list(build) if self.kind == "texts" else [self.kind]
        scored = iter(range(len(chunk)))
        rows: TextRows = []
        for (number, item, text, _), *row in zip(chunk, *cells.values(), strict=True):
            known = None if text is None else Shares(words, text, scores, next(scored), self.unit)
            parts = {kind: [] if known is None else build[kind](item, known) for kind in wanted}
            if self.kind == "texts":
                rows.append(dict(zip(cells, row, strict=True)) | parts)
                continue
            start, end = {"item": number, "id": item.id}, {"reason": row[-1]}
            rows += [start | part | end for part in parts[self.kind]] or [start | end]
        return rows

    def _cells(self, chunk: Sequence[Prepared], scores: TextScores, settings: ScoreSettings) -> dict[str, list[Any]]:
        """The columns of rows per text."""
        cells: dict[str, list[Any]] = {
            "item": [text.number for text in chunk],
            "id": [text.item.id for text in chunk],
            "text": [text.item.text for text in chunk],
            "length": [0 if text.encoded is None else len(text.encoded.sites) for text in chunk],
            "unknown": [0 if text.encoded is None else text.encoded.unknown for text in chunk],
        }
        scored = [place for place, text in enumerate(chunk) if text.encoded is not None]
        for column, is_flag in columns_of(settings.scores).items():
            values = np.full(len(chunk), nan)
            if scored:
                values[scored] = scores.values[column] / (1.0 if is_flag else UNITS[self.unit])
            cells[column] = [None if isnan(value) else bool(value) if is_flag else value for value in values.tolist()]
        cells["reason"] = [text.reason for text in chunk]
        for place, reason in scores.reasons.items():
            cells["reason"][scored[place]] = reason
        return cells


class Shares(NamedTuple):
    """One of the texts that were scored, at `place` among them, and its tokens."""

    words: TextTokenizer
    text: Encoded
    scores: TextScores
    place: int
    unit: str

    def at(self, site: int) -> dict[str, float]:
        """The shares of a site, by column; none of a score that the text lacks."""
        return {
            share_column(name): -SCORES[name].better * shares[self.place][site] / UNITS[self.unit]
            for name, shares in self.scores.shares.items()
            if not isnan(self.scores.values[name][self.place])
        }

    def token(self, t: int) -> str:
        """The readable token at a position."""
        return self.words.token(self.text.ids[t])


def token_rows(item: Item, known: Shares) -> TextRows:
    """One row per token that is scored."""
    encoded, spans = known.text, known.text.tokens.spans
    numbers = word_of_site(encoded, item.text)
    rows = []
    for place, (t, word) in enumerate(zip(encoded.sites, numbers, strict=True)):
        start, end = spans[t]
        rows.append(
            {
                "token_number": place + 1,
                "token": known.token(t),
                "start": start,
                "end": end,
                "word_number": word + 1,
                "position": t,
                **known.at(place),
            }
        )
    return rows


def word_rows(item: Item, known: Shares) -> TextRows:
    """One row per word between spaces; words around a target have none."""
    encoded = known.text
    spans, numbers = spaced_words(item.text), word_of_site(encoded, item.text)
    placed = any(end for _, end in encoded.tokens.spans)
    places_of: dict[int, list[int]] = {}
    for place, number in enumerate(numbers):
        places_of.setdefault(number, []).append(place)
    rows = []
    for word, places in places_of.items():
        start, end = spans[word] if placed else (0, 0)
        shares = [known.at(place) for place in places]
        rows.append(
            {
                "word_number": word + 1,
                "word": item.text[start:end] if placed else known.token(encoded.sites[places[0]]),
                "start": start,
                "end": end,
                "length": len(places),
                **{column: sum(share[column] for share in shares) for column in shares[0]},
            }
        )
    return rows


def write_rows(path: Path, tables: Iterable[pyarrow.Table], columns: pyarrow.Schema, format: str) -> None:
    """Write tables one after the other as one file; at most one of them is in memory."""
    with atomic_path(path) as temporary:
        if format == "parquet":
            from pyarrow import parquet

            with parquet.ParquetWriter(temporary, columns, write_page_checksum=True) as writer:
                for table in tables:
                    writer.write_table(table.select(columns.names))
            return
        with open(temporary, "w", encoding="utf-8", newline="") as file:
            write = LineWriter(file, columns.names, format)
            for table in tables:
                for row in table.to_pylist():
                    write(row)


class LineWriter:
    """Writes rows as lines of JSON, or of CSV under a heading, to a stream."""

    def __init__(self, stream: Any, names: Sequence[str], format: str) -> None:
        self._stream, self._csv = stream, None
        if format == "csv":
            self._csv = csv.DictWriter(stream, names, lineterminator="\n")
            self._csv.writeheader()

    def __call__(self, row: Mapping[str, Any]) -> None:
        """Write one more row."""
        if self._csv is not None:
            self._csv.writerow(row)
        else:
            self._stream.write(as_json(row, indent=None) + "\n")


def check_format(format: str, tokens: bool, on_stream: bool) -> None:
    """Refuse rows that a format cannot hold."""
    if format == "csv" and tokens:
        raise InputError("tokens within rows do not fit into CSV: ask for rows words or tokens, or for jsonl or parquet")
    if format == "parquet" and on_stream:
        raise InputError("Parquet cannot be printed: give an --out folder, or print jsonl or csv")


def _fields(types: Mapping[str, str]) -> list[Any]:
    import pyarrow as pa

    return [pa.field(name, pa.type_for_alias(alias)) for name, alias in types.items()]
