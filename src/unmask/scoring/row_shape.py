"""The rows of scored texts: what a row is, its columns, and its cells.

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
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isnan, log, nan
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from unmask.common.errors import InputError, argument_name
from unmask.common.files import as_json
from unmask.common.warn import warn
from unmask.models.text.text_tokenizer import TextTokenizer
from unmask.scoring.encoding import Encoded, Prepared, has_places, spaced_words, word_of_site
from unmask.scoring.items import Item, own_name
from unmask.scoring.registry import columns_of
from unmask.scoring.scores.score import SCORES, Score
from unmask.scoring.text_scores import TextScores

if TYPE_CHECKING:
    import pyarrow
    from jaxtyping import Float

UNITS = {"nats": 1.0, "bits": log(2)}
"""Nats in each unit."""
Type: TypeAlias = "str | Mapping[str, Type]"
"""Of a column: a name of pyarrow's, or of a list of records the types of their fields."""
OF_ALL = {"item": "int64", "id": "string"}
PLACE = {"start": "int64", "end": "int64"}
OF_TEXT = {"text": "string", "length": "int64", "unknown": "int64"}
OF_WORD = {"word_number": "int64", "word": "string", **PLACE, "length": "int64"}
OF_TOKEN = {
    "token_number": "int64",
    "token": "string",
    **PLACE,
    "word_number": "int64",
    "position": "int64",
}
ARROW_TYPES = {bool: "bool", int: "int64", float: "double"}
"""Of the user's columns, by the class of the first value; all others are text."""
Rows = list[dict[str, Any]]


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
        carried = tuple(
            (name, ARROW_TYPES.get(type(value), "string")) for name, value in first.columns.items()
        )
        return replace(self, carried=carried)

    # ---- names of columns ----

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
        return {name: row[self.own(name)] for name in self._types}

    @property
    def renamed(self) -> dict[str, str]:
        """Columns of ours that have another name because of the user's columns, and that name."""
        own_names = {name: self.own(name) for name in self._types}
        return {name: own for name, own in own_names.items() if own != name}

    def _with_own_names(self, values: dict[str, Any]) -> dict[str, Any]:
        """The values by the names that our columns have beside those of the user."""
        if not self._taken:
            return values
        return {self.own(name): value for name, value in values.items()}

    # ---- columns ----

    @cached_property
    def _types(self) -> dict[str, Type]:
        """The types of our columns, under the names that they have without columns of the user."""
        shares = {score.share_column: "double" for score in self.scores if score.by_token}
        of_word: dict[str, Type] = {**OF_WORD, **shares}
        of_token: dict[str, Type] = {**OF_TOKEN, **shares}
        if self.kind == "words":
            return {**OF_ALL, **of_word, "reason": "string"}
        if self.kind == "tokens":
            return {**OF_ALL, **of_token, "reason": "string"}
        numbers = dict.fromkeys(columns_of(self.scores), "double")
        of_text: dict[str, Type] = {**OF_ALL, **OF_TEXT, **numbers, "reason": "string"}
        if self.kind == "nested":
            of_text |= {"words": of_word, "tokens": of_token}
        return of_text

    @cached_property
    def types(self) -> dict[str, Type]:
        """The types of all columns, by name: those of the user follow the number and the name of
        the text.
        """
        ours = self._with_own_names(dict(self._types))
        before = {self.own(name): ours.pop(self.own(name)) for name in OF_ALL}
        return {**before, **dict(self.carried), **ours}

    @cached_property
    def columns(self) -> pyarrow.Schema:
        """The columns of the rows, in files."""
        from unmask.common.lazy import pyarrow as pa

        return pa.schema([(name, _arrow_type(kind)) for name, kind in self.types.items()])

    # ---- rows ----

    def table(
        self, words: TextTokenizer, chunk: Sequence[Prepared], scored: TextScores
    ) -> pyarrow.Table:
        """The rows of texts as a table; `rows` says which."""
        from unmask.common.lazy import pyarrow as pa

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
        rows: Rows = []
        place = 0  # of the next text that has tokens, among those of the chunk that have
        for prepared, row in zip(chunk, texts, strict=True):
            of_words: Rows = []
            of_tokens: Rows = []
            if prepared.encoded is not None:
                shares = self._shares(scored, place)
                place += 1
                of_words = _word_rows(words, prepared.item.text, prepared.encoded, shares)
                of_tokens = _token_rows(words, prepared.item.text, prepared.encoded, shares)
            if self.kind == "nested":
                rows.append(row | self._with_own_names({"words": of_words, "tokens": of_tokens}))
            elif self.kind == "words":
                rows += self._rows_of_parts(row, of_words)
            else:
                rows += self._rows_of_parts(row, of_tokens)
        return rows

    def _rows_of_parts(self, row: Mapping[str, Any], parts: Rows) -> Rows:
        """The rows of a text's words or tokens; one without any for a text that has none."""
        of_every_part = (self.own("item"), self.own("id"), *dict(self.carried))
        start = dict.fromkeys(self.types) | {name: row[name] for name in of_every_part}
        reason = {"reason": row[self.own("reason")]}
        return [start | self._with_own_names(part | reason) for part in parts or [{}]]

    def _cells(self, chunk: Sequence[Prepared], scored: TextScores) -> dict[str, list[Any]]:
        """The columns of rows per text."""
        self._warn_of_other_columns(chunk)
        cells: dict[str, list[Any]] = {
            self.own("item"): [text.number for text in chunk],
            self.own("id"): [text.item.id for text in chunk],
        }
        for name, kind in self.carried:
            cells[name] = [_as_column((text.item.columns or {}).get(name), kind) for text in chunk]
        cells[self.own("text")] = [text.item.text for text in chunk]
        cells[self.own("length")] = [_length(text) for text in chunk]
        cells[self.own("unknown")] = [_unknown(text) for text in chunk]
        # The numbers are those of the texts that have tokens.
        places = [place for place, text in enumerate(chunk) if text.encoded is not None]
        for column in columns_of(self.scores):
            values = np.full(len(chunk), nan)
            if places:
                values[places] = scored.values[column] / UNITS[self.unit]
            cells[self.own(column)] = _none_for_nan(values)
        reasons = [text.reason for text in chunk]
        for place, reason in scored.reasons.items():
            reasons[places[place]] = reason
        cells[self.own("reason")] = reasons
        return cells

    def _warn_of_other_columns(self, chunk: Sequence[Prepared]) -> None:
        """Warn of the user's columns that the first text did not have."""
        names = {name for text in chunk for name in text.item.columns or ()}
        others = names - self._taken
        if others:
            warn(
                f"{_listed(others)} not of the first text and left out: give every text the same"
                " columns"
            )

    def _shares(self, scored: TextScores, place: int) -> dict[str, list[float]]:
        """The shares of a text's sites by column, without scores that the text lacks."""
        shares = {}
        for score in self.scores:
            if score.name not in scored.shares or isnan(scored.values[score.name][place]):
                continue
            shares[score.share_column] = [
                -score.better * share / UNITS[self.unit]
                for share in scored.shares[score.name][place]
            ]
        return shares


def _arrow_type(kind: Type) -> pyarrow.DataType:
    """The type of a column in files."""
    from unmask.common.lazy import pyarrow as pa

    if isinstance(kind, str):
        return pa.type_for_alias(kind)
    return pa.list_(pa.struct([(name, _arrow_type(one)) for name, one in kind.items()]))


def _none_for_nan(values: Float[np.ndarray, " n"]) -> list[float | None]:
    """Numbers as a column holds them: a text without one has None."""
    return [None if isnan(value) else value for value in values.tolist()]


def _length(text: Prepared) -> int:
    """How many tokens of a text are scored."""
    if text.encoded is None:
        return 0
    return len(text.encoded.sites)


def _unknown(text: Prepared) -> int:
    """How many of these the model does not know."""
    if text.encoded is None:
        return 0
    return text.encoded.unknown


def _as_column(value: Any, kind: str) -> Any:
    """A value of the user's table as its column holds it."""
    if kind != "string" or value is None or isinstance(value, str):
        return value
    return as_json(value, indent=None)


def _token_rows(
    words: TextTokenizer, text: str, encoded: Encoded, shares: Mapping[str, Sequence[float]]
) -> Rows:
    """One row per token that is scored."""
    rows = []
    words_of_sites = word_of_site(encoded, text)
    for site, t in enumerate(encoded.sites):
        start, end = encoded.tokens.spans[t]
        row = {
            "token_number": site + 1,
            "token": words.token(encoded.ids[t]),
            "start": start,
            "end": end,
            "word_number": words_of_sites[site] + 1,
            "position": t,
        }
        for column, values in shares.items():
            row[column] = values[site]
        rows.append(row)
    return rows


def _word_rows(
    words: TextTokenizer, text: str, encoded: Encoded, shares: Mapping[str, Sequence[float]]
) -> Rows:
    """One row per word between spaces; words around a target have none.

    Without places of tokens in the text, every token is a word.
    """
    spans = spaced_words(text)
    sites_of: dict[int, list[int]] = {}
    for site, number in enumerate(word_of_site(encoded, text)):
        sites_of.setdefault(number, []).append(site)
    rows = []
    for number, sites in sites_of.items():
        if has_places(encoded):
            start, end = spans[number]
            word = text[start:end]
        else:
            start = end = 0
            word = words.token(encoded.ids[encoded.sites[sites[0]]])
        row = {
            "word_number": number + 1,
            "word": word,
            "start": start,
            "end": end,
            "length": len(sites),
        }
        for column, values in shares.items():
            row[column] = sum(values[site] for site in sites)
        rows.append(row)
    return rows


def warn_of_renamed(renamed: Mapping[str, str]) -> None:
    """Warn of columns of ours that have another name because the user's texts have a column of
    that name.
    """
    if not renamed:
        return
    if len(renamed) == 1:
        columns = "a column"
        ours = "ours of this name is"
    else:
        columns = "columns"
        ours = "ours of these names are"
    warn(
        f"the texts have {columns} {', '.join(renamed)}, kept as given: {ours} called"
        f" {', '.join(renamed.values())}"
    )


def _listed(names: Collection[str]) -> str:
    """The user's columns, as the subject of a sentence."""
    listed = ", ".join(sorted(names))
    if len(names) == 1:
        return f"column {listed} of the texts is"
    return f"columns {listed} of the texts are"


def check_rows(scores: Sequence[Score], rows: str) -> None:
    """Refuse rows of words or tokens for a score that has no value per token."""
    if rows not in ("words", "tokens"):
        return
    without = [score.name for score in scores if not score.by_token]
    if not without:
        return
    with_tokens = [name for name, score in SCORES.items() if score.by_token]  # type: ignore[attr-defined]
    known = ", ".join(with_tokens)
    raise InputError(
        f"{', '.join(without)} has no value per token, and {argument_name('rows', rows)} has"
        " nothing else",
        argument="score",
        use=f"give {argument_name('rows')} texts or nested, or scores that have one ({known})",
    )
