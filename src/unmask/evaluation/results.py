"""The columns of the results: one row a pair and construction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from unmask.evaluation.pairs import Pair

if TYPE_CHECKING:
    import pyarrow

COLUMNS: dict[str, str] = {
    "pair": "int64",
    "text_index": "int64",
    "text": "string",
    "first": "int64",
    "second": "int64",
    "first_token": "string",
    "second_token": "string",
    "tokens": "int64",
    "token_distance": "int64",
    "syntactic_distance": "int64",
    "construction": "string",
    "unary_nll_first": "float64",
    "unary_nll_second": "float64",
    "pair_nll": "float64",
    "a_kl": "float64",
    "g_kl": "float64",
    "compatibility": "float64",
    "objective": "float64",
    "steps": "int64",
    "seconds": "float64",
}
"""Column: Arrow type. NLL and KL are in nats at the gold tokens; `seconds` is the time of the whole pair."""

METRICS = ("unary_nll_first", "unary_nll_second", "pair_nll", "a_kl", "g_kl", "compatibility")
"""The numbers of a row that are always there and finite."""


def schema(pairs: Iterable[Pair]) -> pyarrow.Schema:
    """The columns above, and one for each further key of the pairs: of its own type if it has one, else JSON text."""
    import pyarrow

    kinds: dict[str, set[type]] = {}
    for pair in pairs:
        for key, value in pair.extra.items():
            kinds.setdefault(key, set()).add(type(value))
    carried = [(key, _arrow_type(found - {type(None)})) for key, found in kinds.items()]
    return pyarrow.schema([*COLUMNS.items(), *carried])


def _arrow_type(kinds: set[type]) -> str:
    if kinds == {bool}:
        return "bool"
    if kinds == {int}:
        return "int64"
    if kinds and kinds <= {int, float}:
        return "float64"
    return "string"


def rows_of(pair: Pair, tokens: Sequence[str], measured: Iterable[Mapping[str, Any]], seconds: float) -> list[dict[str, Any]]:
    """The rows of one pair: what `measured` says of each construction, beside what is known of the pair."""
    about = {
        "pair": pair.index,
        "text_index": pair.text_index,
        "text": pair.text,
        "first": pair.block[0],
        "second": pair.block[1],
        "first_token": tokens[0],
        "second_token": tokens[1],
        "tokens": len(pair.ids),
        "token_distance": pair.token_distance,
        "syntactic_distance": pair.syntactic_distance,
        "seconds": seconds,
        **pair.extra,
    }
    return [{**about, **row} for row in measured]


def as_table(rows: Sequence[Mapping[str, Any]], columns: pyarrow.Schema) -> pyarrow.Table:
    """Arrow table of the rows; a carried value of mixed type becomes JSON text."""
    import pyarrow

    def cell(value: Any, text: bool) -> Any:
        return json.dumps(value, ensure_ascii=False) if text and value is not None and not isinstance(value, str) else value

    data = {field.name: [cell(row.get(field.name), pyarrow.types.is_string(field.type)) for row in rows] for field in columns}
    return pyarrow.table(data, schema=columns)
