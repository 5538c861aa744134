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
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.errors import InputError
from unmask.runs.files import as_json, atomic_path
from unmask.scoring.batch import ScoreSettings
from unmask.scoring.registry import SCORES, columns_of, share_column
from unmask.scoring.texts import Encoded, Item, spaced_words, word_of_site

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
class TextScores:
    """The numbers of one text, in nats; None where there is none, which `reason` explains.

    values    by column: the scores, and their further columns
    by_site   each site's share of the scores that are sums over sites
    """

    values: dict[str, float | None]
    by_site: dict[str, tuple[float, ...]]
    reason: str | None = None


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

    def rows(
        self, number: int, item: Item, text: Encoded | None, scores: TextScores | None, names: Sequence[str], reason: str | None
    ) -> TextRows:
        """The rows of one text, at least one; `reason` says why it has no scores."""
        if scores is not None:
            reason = scores.reason
        start: dict[str, Any] = {"item": number, "id": item.id}

        def parts(kind: str) -> TextRows:
            build = word_rows if kind == "words" else token_rows
            return [] if text is None or scores is None else build(item, text, scores, self.unit)

        if self.kind != "texts":
            return [start | part | {"reason": reason} for part in parts(self.kind)] or [start | {"reason": reason}]
        row = start | {
            "text": item.text,
            "length": 0 if text is None else len(text.sites),
            "unknown": 0 if text is None else text.unknown,
        }
        for column, is_flag in columns_of(names).items():
            value = None if scores is None else scores.values[column]
            row[column] = None if value is None else bool(value) if is_flag else value / UNITS[self.unit]
        row["reason"] = reason
        return [row | ({kind: parts(kind) for kind in ("words", "tokens")} if self.tokens else {})]


def token_rows(item: Item, encoded: Encoded, scores: TextScores, unit: str) -> TextRows:
    """One row per token that is scored."""
    numbers = word_of_site(encoded, item.text)
    rows = []
    for place, (t, word) in enumerate(zip(encoded.sites, numbers, strict=True)):
        start, end = encoded.spans[t]
        rows.append(
            {
                "token_number": place + 1,
                "token": encoded.shown[t],
                "start": start,
                "end": end,
                "word_number": word + 1,
                "position": t,
                **_shares(scores, place, unit),
            }
        )
    return rows


def word_rows(item: Item, encoded: Encoded, scores: TextScores, unit: str) -> TextRows:
    """One row per word between spaces; words around a target have none."""
    spans, numbers = spaced_words(item.text), word_of_site(encoded, item.text)
    known = any(end for _, end in encoded.spans)
    places_of: dict[int, list[int]] = {}
    for place, number in enumerate(numbers):
        places_of.setdefault(number, []).append(place)
    rows = []
    for word, places in places_of.items():
        start, end = spans[word] if known else (0, 0)
        shares = [_shares(scores, place, unit) for place in places]
        rows.append(
            {
                "word_number": word + 1,
                "word": item.text[start:end] if known else encoded.shown[encoded.sites[places[0]]],
                "start": start,
                "end": end,
                "length": len(places),
                **{column: sum(share[column] for share in shares) for column in shares[0]},
            }
        )
    return rows


def _shares(scores: TextScores, place: int, unit: str) -> dict[str, float]:
    """The shares of one site, by column."""
    by_site = scores.by_site.items()
    return {share_column(name): -SCORES[name].better * shares[place] / UNITS[unit] for name, shares in by_site}


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
