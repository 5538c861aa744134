"""Requests of the JSON interface: options of the verbs as their signatures declare them.

ENDPOINTS says which options a question takes. Their defaults, bounds, choices, conditions and
help are those of the verb; a limit of the page can only be narrower. `controls` are the same
facts for the page, which has none of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin

from annotated_types import Interval, Len
from pydantic import BaseModel, ConfigDict, Field, create_model

import unmask
from unmask.common.border.marks import TakesMethod, kinds, mark, marks
from unmask.common.border.options import Option, options
from unmask.common.errors import in_python, written_by
from unmask.scoring.registry import DEFAULT as DEFAULT_SCORE
from unmask.surfaces.serving.limits import (
    LONGEST_TEXT,
    MOST_BATCH_BYTES,
    MOST_CELLS,
    MOST_CHAINS,
    MOST_COMPLETIONS,
    MOST_SCORES,
    MOST_SWEEPS,
    MOST_TEXTS,
)

Text = Annotated[str, Len(1, LONGEST_TEXT)]
Content = Annotated[str, Len(1, MOST_BATCH_BYTES)]
Name = Annotated[str, Len(1, 40)]
Scores = Annotated[list[Name], Len(1, MOST_SCORES)]
Places = Annotated[list[Annotated[int, Interval(ge=1, le=100_000)]], Len(1, LONGEST_TEXT)]
Candidates = Annotated[int, Interval(ge=1, le=10**7)] | Literal["all"]
Given = dict[Annotated[str, Field(pattern="^[1-9][0-9]*$")], Text]  # JSON has texts for keys
Completions = Annotated[int, Interval(ge=1, le=MOST_COMPLETIONS)]
Seed = Annotated[int, Interval(ge=0, le=2**53)]  # JavaScript knows no larger integers
REQUEST = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)
"""A request has only fields that are declared; every value has the declared type, and every
number is finite.
"""
TYPED = "[MASK], [WORD], [GAP:2-5], <mask> or ___"
BLANKED = "She plays the [MASK] [MASK]."
DEFAULT_IN_HELP = re.compile(r"\[default: (.*?)\]")


@dataclass(frozen=True)
class Endpoint:
    """A question: the verb whose options it takes, if any, and an example for the documentation.

    types      the options that it takes, each with its type within the limits; None: the type
               in the signature
    needed     options without which the page does not ask, though the verb has a default
    more       fields that are not options of the verb, as pydantic declares them
    offered    numbers that the page offers for an option, beside its own choices
    """

    verb: str
    types: Mapping[str, Any]
    example: Mapping[str, Any]
    needed: tuple[str, ...] = ()
    more: Mapping[str, Any] = field(default_factory=dict)
    offered: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def function(self) -> Any:
        """The verb."""
        return getattr(unmask, self.verb)

    @property
    def options(self) -> dict[str, Option]:
        """The options that it takes, by name."""
        if not self.verb:
            return {}
        declared = {option.name: option for option in options(self.function)}
        return {name: declared[name] for name in self.types}


ENDPOINTS: dict[str, Endpoint] = {
    "words": Endpoint(
        "",
        {},
        {"text": BLANKED},
        more={"text": (Text, Field(description=f"Text, with {TYPED}."))},
    ),
    "fill": Endpoint(
        "fill",
        {
            "text": Text,
            "construction": Name,
            "candidates": Candidates,
            "positions": Places,
            "given": Given,
            "top": Completions,
        },
        {"text": BLANKED, "candidates": 64, "cells": 14},
        more={
            "cells": (
                Annotated[int, Interval(ge=2, le=MOST_CELLS)] | None,
                Field(None, description="Tokens along each edge of the map of two blanks."),
            ),
        },
        offered={"candidates": (64, 128, 256)},
    ),
    "compare": Endpoint(
        "compare",
        {"text": Text, "candidates": Candidates, "positions": Places, "top": Completions},
        {"text": BLANKED, "candidates": 64},
        offered={"candidates": (64, 128, 256)},
    ),
    "dependence": Endpoint(
        "dependence",
        {
            "text": Text,
            "positions": Places,
            "construction": Name,
            "others": None,
            "candidates": None,
        },
        {"text": "The doctor told her patient to rest.", "candidates": 32},
        offered={"candidates": (8, 16, 32, 64, 128, 256)},
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
        needed=("positions",),
    ),
    "score": Endpoint(
        "score",
        {"texts": Annotated[list[Text], Len(1, MOST_TEXTS)], "score": Scores, "unit": None},
        {
            "texts": ["The keys are on the table.", "The keys is on the table."],
            "score": [DEFAULT_SCORE],
        },
        needed=("texts",),
    ),
    "batch": Endpoint(
        "score",
        {"score": Scores},
        {"content": "The keys are on the table.\nThe keys is on the table.\n"},
        more={
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
            "energy": Name,
            "energy_temperature": Annotated[float, Interval(gt=0, le=100)],
            "chains": Annotated[int, Interval(ge=1, le=MOST_CHAINS)],
            "sweeps": Annotated[int, Interval(ge=1, le=MOST_SWEEPS)],
            "seed": Seed,
        },
        {
            "template": "The old [MASK] [MASK] by the river.",
            "kernel": "mh",
            "chains": 2,
            "sweeps": 5,
        },
        needed=("template",),
    ),
    "generate": Endpoint(
        "generate",
        {
            "template": Text,
            "decoder": Name,
            "n_texts": Annotated[int, Interval(ge=1, le=MOST_CHAINS)],
            "seed": Seed,
        },
        {"template": "The old [MASK] [MASK] by the river.", "decoder": "verified", "n_texts": 4},
        needed=("template",),
    ),
}


@cache
def request(name: str) -> type[BaseModel]:
    """The body of a request, a model of pydantic."""
    endpoint = ENDPOINTS[name]
    members: dict[str, Any] = {}
    for key, option in endpoint.options.items():
        kind = endpoint.types[key] or option.annotation
        described = option.help + written_by(in_python, option.condition)
        is_needed = option.required or key in endpoint.needed
        if is_needed:
            members[key] = (kind, Field(..., description=described))
        else:  # what is left out is left to the verb
            members[key] = (kind | None, Field(_usual(option), description=described))
    config = ConfigDict(**REQUEST, json_schema_extra={"examples": [dict(endpoint.example)]})
    body: type[BaseModel] = create_model(
        f"{name.title()}Request", __config__=config, **members, **endpoint.more
    )
    return body


def given(body: BaseModel) -> dict[str, Any]:
    """The options of the verb that a request gives, without those that are null."""
    values = body.model_dump(exclude_unset=True)
    return {name: value for name, value in values.items() if value is not None}


def controls(name: str) -> list[dict[str, Any]]:
    """The options of a question as the page offers them, from the signature of the verb."""
    endpoint = ENDPOINTS[name]
    return [
        _control(option, endpoint.types[key], endpoint.offered.get(key, ()))
        for key, option in endpoint.options.items()
    ]


def _control(option: Option, narrowed: Any, offered: tuple[int, ...]) -> dict[str, Any]:
    """What the page has to know of an option.

    default    null where the verb chooses; `usual` says in words what it then chooses
    choices    [value, label, meaning] of each value, where they can be listed
    closed     nothing but the choices is taken
    range      the bounds of a number, as an <input> has them
    parameter  the option whose methods have it, and `readers` their names; empty for any method
    """
    found = DEFAULT_IN_HELP.search(option.help)
    annotation = option.annotation if narrowed is None else narrowed
    types = kinds(annotation)
    literals: list[Any] = []
    for kind in types:
        if get_origin(kind) is Literal:
            literals += get_args(kind)
    choices = _methods(option) + [(str(value), str(value), "") for value in literals]
    bounds = [one for one in [*marks(narrowed), *marks(option.annotation)] if _is_bounds(one)]
    return {
        "name": option.name,
        "label": option.name.replace("_", " ").capitalize(),
        "help": option.help,
        "default": _usual(option),
        "usual": found[1] if found else "",
        "choices": [(str(value), f"{value:,}", "") for value in offered] + choices,
        "closed": bool(choices) and not offered,
        "range": _range(bounds, is_whole=float not in types),
        "parameter": option.parameter,
        "readers": list(option.readers),
    }


def _usual(option: Option) -> Any:
    """The default as JSON has it; None where the verb chooses, or it is an object."""
    value = option.default
    return value if isinstance(value, str | int | float | bool) else None


def _methods(option: Option) -> list[tuple[str, str, str]]:
    """Name, label and meaning of the methods that an option takes by their name alone."""
    taken = mark(option.annotation, TakesMethod)
    if taken is None:
        return []
    classes: dict[str, Any] = taken.classes
    methods = [(name, cls) for name, cls in classes.items() if _has_name_alone(cls)]
    return [(name, getattr(cls, "label", name), cls.meaning()) for name, cls in methods]


def _has_name_alone(cls: Any) -> bool:
    """Whether a method can be given by its name, and needs no option."""
    return all(one.default is not MISSING for one in fields(cls))


def _is_bounds(one: Any) -> bool:
    return isinstance(one, Interval)


def _range(bounds: list[Interval], is_whole: bool) -> dict[str, Any] | None:
    """The narrowest of some bounds; None without any."""
    lower: list[Any] = []
    upper: list[Any] = []
    for one in bounds:
        lower += [value for value in (one.ge, one.gt) if value is not None]
        upper += [value for value in (one.le, one.lt) if value is not None]
    if not lower or not upper:
        return None
    return {"min": max(lower), "max": min(upper), "step": 1 if is_whole else "any"}
