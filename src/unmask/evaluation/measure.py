"""One pair: from a text with two blanks to the numbers of every construction, and the rows that keep them.

The joints run over the model's regular tokens, or over every output column, as in the paper: `support`.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from unmask.cloze import Cloze
from unmask.errors import InputError, UnmaskError
from unmask.evaluation.pairs import Pair
from unmask.joints import derive_all
from unmask.joints.metrics import block_metrics
from unmask.models.conditional_model import ConditionalModel
from unmask.models.given import as_model
from unmask.models.masked_lm import MaskedLM
from unmask.tables.unary import unary_tables

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

Row = dict[str, Any]


class Measurer:
    """Measures pairs with one model: called with a pair, gives its rows, one per construction."""

    def __init__(self, model: MaskedLM, constructions: Sequence[str], steps: int | None, support: Sequence[int] | None) -> None:
        """`steps` of Arnold-Gokhale, None to converge; `support`: the token ids of the joints, None for every output column."""
        self.model, self.constructions, self.steps = model, tuple(constructions), steps
        self.support = None if support is None else torch.tensor(support)

    def __call__(self, pair: Pair) -> list[Row]:
        start = time.perf_counter()
        measured = measure_pair(self.model, pair.cloze(self.model.mask_id), self.constructions, self.steps, self.support)
        for row in measured:
            for metric in METRICS:
                if not math.isfinite(row[metric]):
                    raise UnmaskError(f"{metric} of {row['construction']} is {row[metric]}")
        about = about_pair(pair, self.model.decode(pair.gold), time.perf_counter() - start)
        return [{**about, **row} for row in measured]


def load_measurer(
    model: str | None,
    device: str,
    dtype: str,
    rename: Mapping[str, str] | None,
    constructions: Sequence[str],
    steps: int | None,
    support: Sequence[int] | None,
) -> Measurer:
    """A measurer with a model of its own, for a process that has none yet."""
    return Measurer(as_model(model, device, dtype, rename), constructions, steps, support)


@torch.inference_mode()
def measure_pair(
    model: ConditionalModel,
    cloze: Cloze,
    constructions: Sequence[str],
    arnold_gokhale_steps: int | None = None,
    support: torch.Tensor | None = None,
) -> list[Row]:
    """One row per construction: the terms of U-PPL and P-PPL, A-KL, G-KL, compatibility, and steps and objective."""
    if cloze.gold is None:
        raise InputError("the pair's own tokens are not known: give the text without blanks, and the positions")
    tables = unary_tables(model, cloze, None if support is None else [support, support])
    options: dict[str, dict[str, object]] = {"arnold_gokhale": {"steps": arnold_gokhale_steps}} if arnold_gokhale_steps else {}
    joints = derive_all(tables, constructions, options)
    found = block_metrics(joints, cloze.gold)
    return [
        {
            "construction": of.construction,
            "unary_nll_first": of.unary_nll[0],
            "unary_nll_second": of.unary_nll[1],
            "pair_nll": of.joint_nll,
            "a_kl": of.a_kl,
            "g_kl": of.g_kl,
            "compatibility": found.compatibility,
            "objective": of.objective,
            "steps": joint.report.get("steps"),
        }
        for of, joint in zip(found.joints, joints, strict=True)
    ]


def about_pair(pair: Pair, tokens: Sequence[str], seconds: float) -> Row:
    """What every row of a pair says: all but the numbers of a construction."""
    return {
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


def schema(pairs: Iterable[Pair]) -> pyarrow.Schema:
    """The columns above, and one for each further key of the pairs: of its own type if it has one, else JSON text."""
    import pyarrow

    values: dict[str, list[object]] = {}
    for pair in pairs:
        for key, value in pair.extra.items():
            values.setdefault(key, []).append(value)
    return pyarrow.schema([*COLUMNS.items(), *((key, _arrow_type(found)) for key, found in values.items())])


def _arrow_type(values: Iterable[object]) -> str:
    found = [value for value in values if value is not None]
    kinds = {type(value) for value in found}
    if kinds == {bool}:
        return "bool"
    if kinds == {int}:
        return "int64" if all(-(2**63) <= value < 2**63 for value in found) else "string"  # type: ignore[operator]
    if kinds and kinds <= {int, float}:
        return "float64" if all(isinstance(v, float) or abs(v) <= 2**53 for v in found) else "string"  # type: ignore[arg-type]
    return "string"


def as_table(rows: Sequence[Mapping[str, Any]], columns: pyarrow.Schema) -> pyarrow.Table:
    """Arrow table of the rows; a carried value of mixed type becomes JSON text."""
    import pyarrow

    def cell(value: Any, text: bool) -> Any:
        return json.dumps(value, ensure_ascii=False) if text and value is not None and not isinstance(value, str) else value

    data = {field.name: [cell(row.get(field.name), pyarrow.types.is_string(field.type)) for row in rows] for field in columns}
    return pyarrow.table(data, schema=columns)
