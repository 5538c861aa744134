"""Requests of the JSON interface: options of the verbs as their signatures declare them, within
the page's limits.

The page is for people on one machine: work that takes minutes belongs on the command line.
ENDPOINTS lists what it takes; names, defaults and help come from the signature of the verb.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Literal

from annotated_types import Interval, Len
from pydantic import BaseModel, ConfigDict, Field, create_model

import unmask
from unmask.common.border.options import options
from unmask.common.errors import InputError, in_python, written_by
from unmask.scoring.registry import DEFAULT as DEFAULT_SCORE

MOST_BYTES, MOST_BATCH_BYTES = 64 * 1024, 1_000_000
"""The most bytes of a request, and of a request with a list or file of texts."""
LONGEST_TEXT, MOST_TEXTS, MOST_ROWS = 2_000, 4, 2_000
"""Characters of a text; texts that are scored; texts, or minimal pairs, of a batch."""
MOST_BLANKS, MOST_CANDIDATES, MOST_COMPLETIONS, MOST_SCORES = 8, 1_024, 100, 6
MOST_CHAINS, MOST_SWEEPS, MOST_STEPS = 16, 500, 200_000
"""Steps of a chain's run: chains x sweeps x free tokens."""
MOST_PASSES, MOST_MUTANTS = 70_000, 20_000
"""Passes of a joint, or of dependence: an exact pair of a vocabulary of 30,000 tokens."""
MOST_JOBS, MOST_CELLS = 48, 40
"""At once, more are answered with 429; along each edge of a heat map."""

Text = Annotated[str, Len(1, LONGEST_TEXT)]
Content = Annotated[str, Len(1, MOST_BATCH_BYTES)]
Name = Annotated[str, Len(1, 40)]
Scores = Annotated[list[Name], Len(1, MOST_SCORES)]
Places = Annotated[list[Annotated[int, Interval(ge=1, le=100_000)]], Len(1, LONGEST_TEXT)]
Chosen = Annotated[list[Annotated[int, Interval(ge=0, le=LONGEST_TEXT)]], Len(2, LONGEST_TEXT)]
Candidates = Annotated[int, Interval(ge=2, le=MOST_CANDIDATES)]
CandidatesOrAll = Candidates | Literal["all"]
Completions = Annotated[int, Interval(ge=1, le=MOST_COMPLETIONS)]
REQUEST = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)
"""A request has only fields that are declared; every value has the declared type, and every
number is finite.
"""
NEEDED: Any = ...


class Pin(BaseModel):
    """A token held in one of two blanks."""

    model_config = REQUEST
    blank: int = Field(ge=0, le=1, description="0 for the first blank, 1 for the second")
    token: int = Field(ge=0, le=10_000_000, description="the token's id")


@dataclass(frozen=True)
class Endpoint:
    """An address of the JSON interface: the verb whose options it takes, if any, and an example
    for the documentation.

    types      the options that it takes, each with its type within the limits; None: the type
               in the signature
    defaults   defaults that differ from the signature's; NEEDED: the option has no default here
    more       fields that are not options of the verb, as pydantic declares them
    """

    verb: str
    types: Mapping[str, Any]
    example: Mapping[str, Any]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def function(self) -> Any:
        """The verb; None without one."""
        return getattr(unmask, self.verb) if self.verb else None


OF_FILL: dict[str, Any] = {
    "text": Text,
    "construction": Name,
    "candidates": CandidatesOrAll,
}
TYPED = "[MASK], [WORD], [GAP:2-5], <mask> or ___"
BLANKED = "She plays the [MASK] [MASK]."
ENDPOINTS: dict[str, Endpoint] = {
    "words": Endpoint(
        "", {}, {"text": BLANKED}, more={"text": (Text, Field(description=f"Text, with {TYPED}."))}
    ),
    "plan": Endpoint("fill", OF_FILL, {"text": BLANKED}),
    "fill": Endpoint(
        "fill",
        {**OF_FILL, "top": Completions},
        {"text": BLANKED, "candidates": 64, "cells": 14},
        more={
            "targets": (
                Annotated[list[Text], Len(1, MOST_BLANKS)] | None,
                Field(None, description="The words that stand in the blanks, one for each."),
            ),
            "cells": (
                int,
                Field(
                    14,
                    ge=2,
                    le=MOST_CELLS,
                    description="Tokens along each edge of the map of two blanks.",
                ),
            ),
            "pin": (
                Pin | None,
                Field(
                    None,
                    description="A token held in one of two blanks; the map has the other's law.",
                ),
            ),
        },
    ),
    "dependence": Endpoint(
        "dependence",
        {"text": Text, "construction": Name, "others": None, "candidates": Candidates},
        {"text": "The doctor told her patient to rest.", "candidates": 32},
        {"text": NEEDED},
        {
            "chosen": (
                Chosen | None,
                Field(
                    None,
                    description="Numbers of the words measured, from 0, as `words` counts them.",
                ),
            )
        },
    ),
    "mutants": Endpoint(
        "mutants",
        {
            "sequence": Text,
            "positions": Places,
            "changes": Annotated[int, Interval(ge=1, le=2)],
            "construction": Name,
        },
        {"sequence": "EVQLVESGGGLVQPGG", "positions": [3, 5], "changes": 2},
        {"positions": NEEDED, "changes": 1},
    ),
    "score": Endpoint(
        "score",
        {"texts": Annotated[list[Text], Len(1, MOST_TEXTS)], "score": Scores, "unit": None},
        {
            "texts": ["The keys are on the table.", "The keys is on the table."],
            "score": [DEFAULT_SCORE],
        },
        {"texts": NEEDED, "score": [DEFAULT_SCORE]},
    ),
    "batch": Endpoint(
        "score",
        {"score": Scores},
        {"content": "The keys are on the table.\nThe keys is on the table.\n"},
        {"score": [DEFAULT_SCORE]},
        {
            "content": (
                Content,
                Field(
                    description="Texts, one per line; or what a .csv, .tsv, .jsonl or .fasta holds."
                ),
            ),
            "name": (
                Text,
                Field("list.txt", description="Of the file: its ending says how it is read."),
            ),
        },
    ),
    "sample": Endpoint(
        "sample",
        {
            "template": Text,
            "start": Text,
            "kernel": Name,
            "energy": Literal["norm", "raw"],
            "energy_temperature": Annotated[float, Interval(gt=0, le=100)],
            "chains": Annotated[int, Interval(ge=1, le=MOST_CHAINS)],
            "sweeps": Annotated[int, Interval(ge=1, le=MOST_SWEEPS)],
            "seed": Annotated[int, Interval(ge=0, le=2**53)],
        },
        {
            "template": "The old [MASK] [MASK] by the river.",
            "kernel": "mh",
            "chains": 2,
            "sweeps": 5,
        },
        {
            "template": NEEDED,
            "start": None,
            "energy_temperature": None,
            "chains": 1,
            "sweeps": None,
        },
    ),
    "generate": Endpoint(
        "generate",
        {
            "template": Text,
            "decoder": Name,
            "n_texts": Annotated[int, Interval(ge=1, le=MOST_CHAINS)],
            "seed": Annotated[int, Interval(ge=0, le=2**53)],
        },
        {"template": "The old [MASK] [MASK] by the river.", "decoder": "verified", "n_texts": 4},
        {"template": NEEDED, "n_texts": 4},
    ),
}


@cache
def request(name: str) -> type[BaseModel]:
    """The body of a request, a model of pydantic."""
    endpoint = ENDPOINTS[name]
    declared = (
        {option.name: option for option in options(endpoint.function)} if endpoint.verb else {}
    )
    members: dict[str, Any] = {}
    for key, kind in endpoint.types.items():
        option = declared[key]
        kind = option.annotation if kind is None else kind
        default = endpoint.defaults.get(key, NEEDED if option.required else option.default)
        members[key] = (
            kind | None if default is None else kind,
            Field(default, description=option.help + written_by(in_python, option.condition)),
        )
    config = ConfigDict(**REQUEST, json_schema_extra={"examples": [dict(endpoint.example)]})
    body: type[BaseModel] = create_model(
        f"{name.title()}Request", __config__=config, **members, **endpoint.more
    )
    return body


def limits() -> dict[str, int]:
    """The numbers above, by name."""
    return {
        name.lower(): value
        for name, value in globals().items()
        if name.isupper() and isinstance(value, int)
    }


def refuse_more(count: int, most: int, what: str, less: str) -> None:
    """Refuse work beyond a limit; `what` ends with its unit, after the number."""
    if count > most:
        raise InputError(f"{what.format(f'{count:,}')}, and the page takes {most:,}: {less}")
