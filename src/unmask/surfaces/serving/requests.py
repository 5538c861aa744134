"""Requests of the JSON interface: options of the verbs as their signatures declare them.

ENDPOINTS says which options a question takes. An option has a type of its own here only where the
page takes less than the verb, which checks its own bounds as well. Defaults, choices, conditions
and help are the verb's. The page has no such facts of its own: it gets them from `controls`.
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
    HIGHEST_POSITION,
    LONGEST_TEXT,
    MOST_BATCH_BYTES,
    MOST_CELLS,
    MOST_CHAINS,
    MOST_COMPLETIONS,
    MOST_DRAWN_TEXTS,
    MOST_SCORES,
    MOST_SWEEPS,
    MOST_TEXTS,
)

Text = Annotated[str, Len(1, LONGEST_TEXT)]
ReadAs = Literal["lines", "csv", "tsv", "jsonl", "fasta"]
Content = Annotated[str, Len(1, MOST_BATCH_BYTES)]
"""At most so many characters, for the document. The server counts the bytes of the whole request,
which has more bytes than its text has characters.
"""
Name = Annotated[str, Len(1, 40)]
Scores = Annotated[list[Name], Len(1, MOST_SCORES)]
Position = Annotated[int, Interval(ge=1, le=HIGHEST_POSITION)]
Positions = Annotated[list[Position], Len(1, LONGEST_TEXT)]  # at most one per character
Candidates = Annotated[int, Interval(ge=1, le=10**7)] | Literal["all"]
BlankNumber = Annotated[str, Field(pattern="^[1-9][0-9]{0,3}$")]  # a key of JSON is a text
GivenWords = dict[BlankNumber, Text]
Completions = Annotated[int, Interval(ge=1, le=MOST_COMPLETIONS)]
Seed = Annotated[int, Interval(ge=0, le=2**53 - 1)]
"""JavaScript reads two integers as one from here on: 2**53 and 2**53 + 1."""
REQUEST = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)
"""A request has only fields that are declared; every value has the declared type, and every
number is finite.
"""


class ToldNumbers(BaseModel):
    """Numbers that the answer of a model told, by what they are of."""

    model_config = REQUEST

    by: Text
    values: dict[str, float | Literal["Infinity", "-Infinity", "NaN"] | None]


TYPED = "[MASK], [WORD], [GAP:2-5], <mask> or ___"
BLANKED = "She plays the [MASK] [MASK]."
DEFAULT_IN_HELP = re.compile(r"\[default: (.*?)\]")


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """A question.

    verb       the verb whose options it takes; None of a helper of the page
    types      the options that it takes, each with its type within the limits of the page; None:
               the type in the signature
    example    a request, for the documentation
    needed     options that a request has to give, though the verb has a default
    more       fields that are not options of the verb: type and `Field` of each, as pydantic's
               `create_model` takes them
    offered    numbers that the page suggests for an option; any other is taken, too
    """

    verb: str | None
    types: Mapping[str, Any]
    example: Mapping[str, Any]
    needed: tuple[str, ...] = ()
    more: Mapping[str, Any] = field(default_factory=dict)
    offered: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def function(self) -> Any:
        """The verb."""
        assert self.verb is not None, "a helper of the page has no verb"
        return getattr(unmask, self.verb)

    @property
    def options(self) -> dict[str, Option]:
        """The options that it takes, by name."""
        if self.verb is None:
            return {}
        declared = {option.name: option for option in options(self.function)}
        return {name: declared[name] for name in self.types}


ENDPOINTS: dict[str, Endpoint] = {
    "words": Endpoint(
        verb=None,
        types={},
        example={"text": BLANKED},
        more={"text": (Text, Field(description=f"Text, with {TYPED}."))},
    ),
    "fill": Endpoint(
        verb="fill",
        types={
            "text": Text,
            "construction": Name,
            "candidates": Candidates,
            "positions": Positions,
            "given": GivenWords,
            "top": Completions,
        },
        example={"text": BLANKED, "candidates": 64, "cells": 14},
        more={
            "cells": (
                Annotated[int, Interval(ge=2, le=MOST_CELLS)] | None,
                Field(None, description="Tokens along each edge of the map of two blanks."),
            ),
        },
        offered={"candidates": (64, 128, 256)},
    ),
    "compare": Endpoint(
        verb="compare",
        types={"text": Text, "candidates": Candidates, "positions": Positions, "top": Completions},
        example={"text": BLANKED, "candidates": 64},
        offered={"candidates": (64, 128, 256)},
    ),
    "dependence": Endpoint(
        verb="dependence",
        types={
            "text": Text,
            "positions": Positions,
            "construction": Name,
            "others": None,
            "candidates": None,
        },
        example={"text": "The doctor told her patient to rest.", "candidates": 32},
        offered={"candidates": (8, 16, 32, 64, 128, 256)},
    ),
    "mutants": Endpoint(
        verb="mutants",
        types={
            "sequence": Text,
            "positions": Positions,
            "changes": Annotated[int, Interval(ge=1, le=2)],
            "construction": Name,
        },
        example={"sequence": "EVQLVESGGGLVQPGG", "positions": [3, 5], "changes": 2},
        needed=("positions",),
    ),
    "differences": Endpoint(
        verb=None,
        types={},
        example={
            "models": ["one", "another"],
            "told": [
                {"by": "log-probability", "values": {"She plays the guitar well.": -1.25}},
                {"by": "log-probability", "values": {"She plays the guitar well.": -1.5}},
            ],
        },
        more={
            "models": (
                Annotated[list[Text], Len(2, 2)],
                Field(description="The names of two models."),
            ),
            "told": (
                Annotated[list[ToldNumbers], Len(2, 2)],
                Field(description="What an answer of each told: its `drawn.told`."),
            ),
        },
    ),
    "score": Endpoint(
        verb="score",
        types={"texts": Annotated[list[Text], Len(1, MOST_TEXTS)], "score": Scores, "unit": None},
        example={
            "texts": ["The keys are on the table.", "The keys is on the table."],
            "score": [DEFAULT_SCORE],
        },
        needed=("texts",),
    ),
    "batch": Endpoint(
        verb="score",
        types={"score": Scores},
        example={"content": "The keys are on the table.\nThe keys is on the table.\n"},
        more={
            "content": (
                Content,
                Field(
                    description="Texts, one per line; or what a .csv, .tsv, .jsonl or .fasta holds."
                ),
            ),
            "name": (
                Text | None,
                Field(None, description="Of the file: its ending says how it is read."),
            ),
            "read_as": (
                ReadAs | None,
                Field(None, description="How it is read, whatever its name and first line say."),
            ),
        },
    ),
    "sample": Endpoint(
        verb="sample",
        types={
            "template": Text,
            "start": Text,
            "kernel": Name,
            "energy": Name,
            "energy_temperature": Annotated[float, Interval(gt=0, le=100)],
            "chains": Annotated[int, Interval(ge=1, le=MOST_CHAINS)],
            "sweeps": Annotated[int, Interval(ge=1, le=MOST_SWEEPS)],
            "seed": Seed,
        },
        example={
            "template": "The old [MASK] [MASK] by the river.",
            "kernel": "mh",
            "chains": 2,
            "sweeps": 5,
        },
        needed=("template",),
    ),
    "generate": Endpoint(
        verb="generate",
        types={
            "template": Text,
            "decoder": Name,
            "n_texts": Annotated[int, Interval(ge=1, le=MOST_DRAWN_TEXTS)],
            "seed": Seed,
        },
        example={
            "template": "The old [MASK] [MASK] by the river.",
            "decoder": "verified",
            "n_texts": 4,
        },
        needed=("template",),
    ),
}


@cache
def request(name: str) -> type[BaseModel]:
    """The body of a request, a model of pydantic."""
    endpoint = ENDPOINTS[name]
    members: dict[str, Any] = {}
    for key, option in endpoint.options.items():
        annotation = endpoint.types[key] or option.annotation
        condition = written_by(in_python, option.condition)  # "" if it goes beside everything
        description = option.help + condition
        is_needed = option.required or key in endpoint.needed
        if is_needed:
            members[key] = (annotation, Field(description=description))
            continue
        # The default is for the schema alone: the function `given` leaves out what a request does
        # not have, and the verb then has its own.
        usual = Field(_default_in_json(option), description=description)
        members[key] = (annotation | None, usual)
    config = ConfigDict(**REQUEST, json_schema_extra={"examples": [dict(endpoint.example)]})
    body: type[BaseModel] = create_model(
        f"{name.title()}Request", __config__=config, **members, **endpoint.more
    )
    return body


def given(body: BaseModel) -> dict[str, Any]:
    """The fields that a request gives, without those that are null."""
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
    """What the page has to know of an option, whose type in a request is `narrowed` unless that is
    None.

    default    null where the verb chooses; `usual` says in words what it then chooses
    choices    [value, label, meaning] of each value, where they can be listed
    closed     whether `choices` are all values; False if they are suggestions, or if there are none
    numbers    whether a value may be a number
    range      the bounds of a number, as an <input> has them, and in words
    parameter  of an option of methods: the option that names the method; of any other: its name
    readers    the names of the methods that have the option; empty of any other
    """
    usual = DEFAULT_IN_HELP.search(option.help)
    annotation = option.annotation if narrowed is None else narrowed
    types = kinds(annotation)
    both = [*marks(annotation), *marks(option.annotation)]  # those of the verb hold as well
    bounds = [one for one in both if isinstance(one, Interval)]
    choices = _methods(option)
    for kind in types:
        if get_origin(kind) is Literal:
            choices += [(str(value), str(value), "") for value in get_args(kind)]
    suggestions = [(str(value), f"{value:,}", "") for value in offered]
    is_whole = float not in types
    return {
        "name": option.name,
        "label": option.name.replace("_", " ").capitalize(),
        "help": option.help,
        "default": _default_in_json(option),
        "usual": usual[1] if usual else "",
        "choices": [*suggestions, *choices],
        "closed": bool(choices) and not suggestions,
        "numbers": int in types or float in types,
        "range": _range(bounds, is_whole),
        "parameter": option.parameter,
        "readers": list(option.readers),
    }


def _default_in_json(option: Option) -> Any:
    """The default as JSON has it; None where the verb chooses, or it is an object."""
    value = option.default
    return value if isinstance(value, str | int | float | bool) else None


def _methods(option: Option) -> list[tuple[str, str, str]]:
    """Name, label and meaning of the methods that an option takes by their name alone."""
    taken = mark(option.annotation, TakesMethod)
    if taken is None:
        return []
    classes: dict[str, Any] = taken.classes
    methods = []
    for name, method in classes.items():
        if _needs_no_option(method):
            label = getattr(method, "label", name)
            methods.append((name, label, method.meaning()))
    return methods


def _needs_no_option(method: Any) -> bool:
    """Whether all fields of a method have defaults."""
    for one in fields(method):
        if one.default is MISSING and one.default_factory is MISSING:
            return False
    return True


def _range(bounds: list[Interval], is_whole: bool) -> dict[str, Any] | None:
    """The narrowest of some bounds; None unless there is one at each end."""
    at_least = [bound.ge for bound in bounds if bound.ge is not None]
    above = [bound.gt for bound in bounds if bound.gt is not None]
    at_most = [bound.le for bound in bounds if bound.le is not None]
    below = [bound.lt for bound in bounds if bound.lt is not None]
    lower: list[Any] = [*at_least, *above]
    upper: list[Any] = [*at_most, *below]
    if not lower or not upper:
        return None
    least = max(lower)
    most = min(upper)
    # An <input> knows closed ends alone: what lies at an open one is refused by the server.
    # Where a closed bound and an open one are the same number, the open one holds.
    start = f"above {least:,}" if least in above else f"{least:,}"
    end = f"below {most:,}" if most in below else f"{most:,}"
    step = 1 if is_whole else "any"
    return {"min": least, "max": most, "step": step, "said": f"{start} to {end}"}
