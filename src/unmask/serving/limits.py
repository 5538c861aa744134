"""What may be asked of the JSON interface: options of the verbs as their signatures declare them, within the page's own limits.

The page is for people on one machine: work that takes minutes belongs on the command line. QUESTIONS is the table of what it
takes; names, defaults and help come from the signature of the verb.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from math import comb
from typing import Annotated, Any

from annotated_types import Interval, Len
from pydantic import BaseModel, ConfigDict, Field, create_model

import unmask
from unmask.cloze import Cloze
from unmask.errors import InputError
from unmask.joints.registry import DEFAULT
from unmask.models.masked_lm import MaskedLM
from unmask.signature import options
from unmask.tables.candidates import plan_candidates
from unmask.tables.unary import pass_count

MOST_BYTES = 64 * 1024
"""Of a request's body."""
LONGEST_TEXT = 2_000
MOST_BLANKS = 8
MOST_TEXTS = 4
MOST_SCORES = 6
MOST_POSITIONS = 64
MOST_CANDIDATES = 1_024
MOST_COMPLETIONS = 100
MOST_CELLS = 40
"""Along each edge of a heat map."""
MOST_CHAINS = 16
MOST_SWEEPS = 500
MOST_STEPS = 200_000
"""Of a chain's run: chains x sweeps x free tokens."""
MOST_PASSES = 70_000
"""Of a joint: an exact pair of a vocabulary of 30,000 tokens."""
MOST_DEPENDENCE_PASSES = 40_000
MOST_MUTANTS = 20_000
MOST_JOBS = 48
"""At once; more are answered with 429."""
MOST_EXACT_TOKENS = 10
"""Of a text whose orders are enumerated; the orders of longer ones are sampled: a page waits for seconds."""

Text = Annotated[str, Len(1, LONGEST_TEXT)]
Name = Annotated[str, Len(1, 40)]
Candidates = Annotated[int, Interval(ge=2, le=MOST_CANDIDATES)]
Position = Annotated[int, Interval(ge=0, le=100_000)]
Positions = Annotated[list[Position], Len(1, MOST_POSITIONS)]
Completions = Annotated[int, Interval(ge=1, le=MOST_COMPLETIONS)]
REQUEST = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)
"""Of a request: only what is named, every value of its own type, every number finite."""
NEEDED: Any = ...


class Pin(BaseModel):
    """A token held in one of two blanks."""

    model_config = REQUEST
    blank: int = Field(ge=0, le=1, description="0 for the first blank, 1 for the second")
    token: int = Field(ge=0, le=10_000_000, description="the token's id")


@dataclass(frozen=True)
class Question:
    """A question of the page.

    verb       whose options it takes; empty for one of the page alone
    types      the options that it takes, each with its type within the limits; None: the type that the signature has
    example    a request, for the documentation
    defaults   of options that have another one here; NEEDED for those that have none
    more       fields of the page alone, as pydantic declares them
    """

    verb: str
    types: Mapping[str, Any]
    example: Mapping[str, Any]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def function(self) -> Callable[..., Any]:
        """The verb."""
        function: Callable[..., Any] = getattr(unmask, self.verb)
        return function


BLANKED = "She plays the [MASK] [MASK]."
QUESTIONS = {
    "words": Question(
        "",
        {},
        {"text": BLANKED},
        more={"text": (Text, Field(description="Text, with [MASK], [WORD], [GAP:2-5], <mask> or ___."))},
    ),
    "fill": Question(
        "fill",
        {"text": Text, "joint": Name, "candidates": Candidates, "exact": None, "top": Completions},
        {"text": BLANKED, "top": 3},
    ),
    "joint": Question(
        "compare",
        {"text": Text, "joint": Name, "candidates": Candidates, "exact": None, "top": Completions, "positions": Positions},
        {"text": BLANKED, "candidates": 64, "cells": 14},
        {"joint": DEFAULT},
        {
            "cells": (int, Field(14, ge=2, le=MOST_CELLS, description="Tokens along each edge of the map.")),
            "pin": (
                Pin | None,
                Field(None, description="A token held in one of two blanks: the map has the other's distribution."),
            ),
        },
    ),
    "dependence": Question(
        "dependence",
        {"text": Text, "joint": Name, "others": None, "candidates": Candidates},
        {"text": "The doctor told her patient to rest.", "candidates": 32},
        {"text": NEEDED, "candidates": 32},
    ),
    "mutants": Question(
        "mutants",
        {
            "sequence": Text,
            "positions": Annotated[list[Annotated[int, Interval(ge=1, le=100_000)]], Len(1, LONGEST_TEXT)],
            "changes": Annotated[int, Interval(ge=1, le=2)],
            "joint": Name,
        },
        {"sequence": "EVQLVESGGGLVQPGG", "positions": [3, 5], "changes": 2},
        {"positions": NEEDED, "changes": 1},
    ),
    "score": Question(
        "score",
        {"texts": Annotated[list[Text], Len(1, MOST_TEXTS)], "score": Annotated[list[Name], Len(1, MOST_SCORES)], "unit": None},
        {"texts": ["The keys are on the table.", "The keys is on the table."], "score": ["pll"]},
        {"texts": NEEDED, "score": ["pll"]},
    ),
    "conditionals": Question(
        "conditionals",
        {
            "text": Text,
            "positions": Positions,
            "masking": None,
            "top": Annotated[int, Interval(ge=0, le=MOST_COMPLETIONS)],
            "words": Annotated[list[Annotated[str, Len(1, 60)]], Len(0, 50)],
        },
        {"text": "She drank a cup of [MASK].", "top": 5, "words": ["tea"]},
        {"words": []},
    ),
    "sample": Question(
        "sample",
        {
            "template": Text,
            "init": Text,
            "kernel": Name,
            "energy": None,
            "temperature": Annotated[float, Interval(gt=0, le=100)],
            "chains": Annotated[int, Interval(ge=1, le=MOST_CHAINS)],
            "sweeps": Annotated[int, Interval(ge=1, le=MOST_SWEEPS)],
            "seed": Annotated[int, Interval(ge=0, le=2**53)],
        },
        {"template": "The old [MASK] [MASK] by the river.", "kernel": "mh", "chains": 2, "sweeps": 5},
        {"template": NEEDED, "temperature": None, "chains": 1, "sweeps": 20},
    ),
}


@cache
def request(name: str) -> type[BaseModel]:
    """The body of a question, a model of pydantic."""
    question = QUESTIONS[name]
    known = {option.name: option for option in options(question.function)} if question.verb else {}
    members: dict[str, Any] = {}
    for own, kind in question.types.items():
        option = known[own]
        kind = option.annotation if kind is None else kind
        default = question.defaults.get(own, NEEDED if option.required else option.default)
        members[own] = (kind | None if default is None else kind, Field(default, description=option.help))
    config = ConfigDict(**REQUEST, json_schema_extra={"examples": [dict(question.example)]})
    made: type[BaseModel] = create_model(f"{name.title()}Request", __config__=config, **members, **question.more)
    return made


def limits() -> dict[str, int]:
    """The numbers above, by name."""
    return {name.lower(): value for name, value in globals().items() if name.isupper() and isinstance(value, int)}


def joint_candidates(model: MaskedLM, cloze: Cloze, candidates: int | None, exact: bool) -> int | None:
    """The candidates of each blank as `fill` will be given them; refuses a joint that is too large to be served."""
    plan = plan_candidates(model, cloze, candidates, exact)
    what = f"{len(plan.sizes)} blanks of {plan.size:,} candidates take"
    _refuse_more(pass_count(plan.sizes), MOST_PASSES, what, "passes", "fewer candidates")
    return None if exact else plan.size if len(cloze.block) > 1 else None


def check_blanks(blanks: int) -> None:
    """Refuse too many blanks."""
    if blanks > MOST_BLANKS:
        raise InputError(f"the text has {blanks} blanks, and the page takes {MOST_BLANKS}: blank fewer words")


def check_dependence(positions: int, candidates: int) -> None:
    """Refuse a dependence of too many pairs."""
    passes = positions * (positions - 1) // 2 * pass_count([candidates, candidates])
    what = f"{positions} tokens with {candidates} candidates take"
    _refuse_more(passes, MOST_DEPENDENCE_PASSES, what, "passes", "fewer candidates, a shorter text")


def check_mutants(positions: int, changes: int, alphabet: int) -> None:
    """Refuse too many mutants."""
    what = f"{changes} changes among {positions} residues are"
    _refuse_more(comb(positions, changes) * (alphabet - 1) ** changes, MOST_MUTANTS, what, "mutants", "fewer residues")


def check_chains(chains: int, sweeps: int, free: int) -> None:
    """Refuse a run of too many steps."""
    what = f"{chains} chains of {sweeps} sweeps over {free} tokens are"
    _refuse_more(chains * sweeps * max(1, free), MOST_STEPS, what, "steps", "fewer chains or sweeps")


def _refuse_more(count: int, most: int, what: str, unit: str, less: str) -> None:
    if count > most:
        raise InputError(f"{what} {count:,} {unit}, and the page takes {most:,}: ask for {less}, or use the command line")
