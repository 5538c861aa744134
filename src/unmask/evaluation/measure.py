"""Pairs: from texts with two blanks to the numbers of every construction, and the rows that keep them.

The joints run over the model's regular tokens, or over every output column, as in the paper: `support`.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any

import torch

from unmask.cloze import Cloze
from unmask.errors import InputError, UnmaskError
from unmask.evaluation.pairs import Pair
from unmask.joints.deriving import derive_blocks
from unmask.joints.metrics import metrics_of_blocks
from unmask.joints.triton.rehearsal import Launch, rehearse
from unmask.models.batching import halving, triton_wanted
from unmask.models.conditional_model import ConditionalModel
from unmask.models.masked_lm import MaskedLM, as_model
from unmask.tables.unary import tables_of

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
    "converged": "bool",
    "seconds": "float64",
}
"""Column: Arrow type. NLL and KL are in nats at the gold tokens; `seconds` is the time of the whole pair,
or its share of that of the pairs that were measured with it."""

METRICS = ("unary_nll_first", "unary_nll_second", "pair_nll", "a_kl", "g_kl", "compatibility")
"""The numbers of a row that are always there and finite."""

Row = dict[str, Any]


class Measurer:
    """Measures pairs with one model: called with a pair, gives its rows, one per construction."""

    def __init__(self, model: MaskedLM, constructions: Sequence[str], steps: int | None, support: Sequence[int] | None) -> None:
        """`steps` of Arnold-Gokhale, None to converge; `support`: the token ids of the joints, None for every output column."""
        self.model, self.constructions, self.steps = model, tuple(constructions), steps
        self.support = None if support is None else torch.tensor(support)
        self.rehearsal: Thread | None = None

    @property
    def tokens(self) -> int:
        """How many tokens each blank of a joint has."""
        return self.model.vocab_size if self.support is None else len(self.support)

    def rehearse(self) -> None:
        """Begin to compile and load what a GPU needs, where there is one, beside whatever comes before the first pair."""
        device = self.model.device
        if self.rehearsal is None and device.type == "cuda" and triton_wanted(torch.empty(0, device=device)):
            self.rehearsal = rehearse(self.tokens, device, self._launches)

    def end_rehearsal(self) -> None:
        """Wait until all is there."""
        if self.rehearsal is not None:
            self.rehearsal.join()

    def _launches(self) -> Iterator[Launch]:
        """What passes and tables need beside the joints."""
        from unmask.tables import filling

        yield partial(first_pass, self.model)
        if self.model.encoder is not None:
            yield from self.model.encoder.layers[0].launches()
        yield partial(filling.rehearse, self.model.vocab_size, self.tokens, self.model.device)

    def __call__(self, pair: Pair) -> list[Row]:
        (measured,) = self.together([pair])
        return self.rows(pair, measured)

    def together(self, pairs: Sequence[Pair]) -> list[list[Row]]:
        """The numbers of several pairs, measured at once; `rows` makes them the rows of each."""
        start = time.perf_counter()
        clozes = [pair.cloze(self.model.mask_id) for pair in pairs]
        self.end_rehearsal()
        measured = measure_pairs(self.model, clozes, self.constructions, self.steps, self.support)
        seconds = (time.perf_counter() - start) / len(pairs)
        return [[{**row, "seconds": seconds} for row in of_pair] for of_pair in measured]

    def rows(self, pair: Pair, measured: Sequence[Row]) -> list[Row]:
        """One row per construction; numbers that are not finite are an error."""
        for row in measured:
            for metric in METRICS:
                if not math.isfinite(row[metric]):
                    raise UnmaskError(f"{metric} of {row['construction']} is {row[metric]}")
        about = about_pair(pair, self.model.decode(pair.gold), 0.0)
        return [{**about, **row} for row in measured]


def first_pass(model: MaskedLM) -> None:
    """A pass over a text of blanks: libraries are loaded when a GPU first needs them."""
    tokens = min(16, model.max_length or 16)
    model.logits(torch.full((1, tokens), model.mask_id), torch.tensor([[0, tokens - 1]]))


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


def measure_pair(
    model: ConditionalModel,
    cloze: Cloze,
    constructions: Sequence[str],
    arnold_gokhale_steps: int | None = None,
    support: torch.Tensor | None = None,
) -> list[Row]:
    """One row per construction: the terms of U-PPL and P-PPL, A-KL, G-KL, compatibility, and steps and objective."""
    return measure_pairs(model, [cloze], constructions, arnold_gokhale_steps, support)[0]


@torch.inference_mode()
def measure_pairs(
    model: ConditionalModel,
    clozes: Sequence[Cloze],
    constructions: Sequence[str],
    arnold_gokhale_steps: int | None = None,
    support: torch.Tensor | None = None,
) -> list[list[Row]]:
    """The same for several pairs, of any texts: first the tables of all, then their joints side by side, then the numbers.

    Where memory runs out for the joints or the numbers, those of half the pairs follow the other half's.
    """
    golds = [cloze.gold for cloze in clozes if cloze.gold is not None]
    if len(golds) < len(clozes):
        raise InputError("the pair's own tokens are not known: give the text without blanks, and the positions")
    over = [None if support is None else [support, support]] * len(clozes)
    blocks = tables_of(model, clozes, over, supports=over)
    options: dict[str, dict[str, object]] = {"arnold_gokhale": {"steps": arnold_gokhale_steps}} if arnold_gokhale_steps else {}
    derived = halving(lambda some: derive_blocks(some, constructions, options), blocks)
    with_gold = list(zip(derived, golds, strict=True))
    found = halving(lambda some: metrics_of_blocks([joints for joints, _ in some], [gold for _, gold in some]), with_gold)
    return [
        [
            {
                "construction": of.construction,
                "unary_nll_first": of.unary_nll[0],
                "unary_nll_second": of.unary_nll[1],
                "pair_nll": of.joint_nll,
                "a_kl": of.a_kl,
                "g_kl": of.g_kl,
                "compatibility": metrics.compatibility,
                "objective": of.objective,
                "steps": joint.report.get("steps"),
                "converged": joint.report.get("converged"),
            }
            for of, joint in zip(metrics.joints, joints, strict=True)
        ]
        for metrics, joints in zip(found, derived, strict=True)
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
