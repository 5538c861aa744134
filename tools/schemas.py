"""JSON schemas of what `unmask COMMAND --json` prints, one file per command in docs/schemas.

    python tools/schemas.py     writes them again

The shapes are types: dataclasses of the library where they are printed as they are, typed dictionaries below where an answer
chooses what it prints. `schema` turns a type into JSON Schema (draft 2020-12).
"""

from __future__ import annotations

import json
import types
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict, Union, get_args, get_origin, get_type_hints, is_typeddict

from unmask.answers.checking import Check
from unmask.answers.comparison import Description
from unmask.sampling.run.diagnostics import Diagnosis
from unmask.training.validation import Validation

FOLDER = Path(__file__).parents[1] / "docs" / "schemas"
PLAIN = {str: "string", int: "integer", bool: "boolean", type(None): "null"}
NUMBERS = {
    "number": {"anyOf": [{"type": "number"}, {"enum": ["Infinity", "-Infinity", "NaN"]}]},
    "number_or_null": {"anyOf": [{"$ref": "#/$defs/number"}, {"type": "null"}]},
}
"""Numbers: JSON has no infinities, so they are words (`unmask.runs.files.plain`)."""


class Completion(TypedDict):
    """One filling of the blanks."""

    tokens: list[str]
    text: str
    gold: bool
    log_prob: float
    product_log_prob: float


class Filling(TypedDict):
    """The joint of the blanks over candidate sets."""

    text: str
    joint: str
    candidates_mass: float
    warning: NotRequired[str]
    completions: list[Completion]


class ByLength(TypedDict):
    """A filling's log-probability with so many tokens in each blank."""

    tokens: list[int]
    log_prob: float


class ChainCompletion(Completion):
    """One filling under the chain rule averaged over all orders."""

    parts: list[str]
    standard_error: float
    lengths: NotRequired[list[ByLength]]


class Reading(TypedDict):
    """A number of tokens in each blank."""

    lengths: list[int]
    weight: float
    mass: float


class Answer(TypedDict):
    """A given answer among all fillings."""

    answer: str
    tokens: list[str]
    text: str
    log_prob: float
    standard_error: float
    rank: list[int] | None
    odds: float


class ChainFilling(TypedDict):
    """The best fillings over the whole vocabulary, and what is certain about them."""

    text: str
    joint: Literal["chain"]
    mass: float
    bound: float
    certain: int
    passes: int
    stopped: str
    completions: list[ChainCompletion]
    lengths: NotRequired[list[Reading]]
    answers: NotRequired[list[Answer]]


class ComparedCompletion(TypedDict):
    """One filling under every construction."""

    tokens: list[str]
    text: str
    gold: bool
    log_probs: dict[str, float]
    orders_log_prob: float


class Comparison(TypedDict):
    """All constructions side by side."""

    text: str
    candidates_mass: float
    warning: NotRequired[str]
    compatibility: float
    joints: dict[str, Description]
    ranked_by: str
    completions: list[ComparedCompletion]


class Dependence(TypedDict):
    """Mutual information of every pair of positions, in nats."""

    text: str
    tokens: list[str]
    positions: list[int]
    joint: str
    others: Literal["masked", "text"]
    candidates: int
    passes: int
    matrix: list[list[float | None]]
    candidates_mass: list[list[float | None]]


class Mutant(TypedDict):
    """One mutant."""

    mutant: str
    changes: int
    log_prob: float
    effect: float
    singles: float
    epistasis: float
    interaction: float


class Mutants(TypedDict):
    """Mutants of a sequence."""

    sequence: str
    joint: str
    alphabet: list[str]
    mutants: list[Mutant]


class MeasuredScore(TypedDict):
    """A score against the measured values."""

    score: str
    value: float
    low: float
    high: float
    best_in: float
    within: NotRequired[float]
    within_low: NotRequired[float]
    within_high: NotRequired[float]


class Behind(TypedDict):
    """How far the best score is above another."""

    score: str
    value: float
    low: float
    high: float


class Measured(TypedDict):
    """Measured variants against every score."""

    sequence: str
    variants: int
    places: list[int]
    joint: str
    column: str
    better: Literal["higher", "lower"]
    statistic: Literal["spearman", "auc"]
    sentence: str
    scores: list[MeasuredScore]
    behind: list[Behind]
    notes: list[str]


class Definition(TypedDict):
    """What a score is."""

    definition: str
    probability: bool
    why: str
    better: Literal["higher", "lower"]


class Scores(TypedDict):
    """Scores of texts; the columns of a row depend on the scores."""

    scores: dict[str, Definition]
    unit: Literal["nats", "bits"]
    rows: list[dict[str, Any]]


class PairScores(TypedDict):
    """Minimal pairs."""

    scores: dict[str, Definition]
    unit: Literal["nats", "bits"]
    accuracy: list[dict[str, Any]]
    pairs: list[dict[str, Any]]


class Sample(TypedDict):
    """The last text of a chain."""

    chain: int
    sweep: int
    text: str
    energy: float | None
    log_prob: float | None
    passes: int


class SampleRun(TypedDict):
    """A run of chains, or decoded texts."""

    settings: dict[str, Any]
    samples: list[Sample]
    diagnosis: Diagnosis


class WithInterval(TypedDict):
    """A number and its 95 % interval, null with fewer than two pairs."""

    value: float
    low: float | None
    high: float | None


class Row(TypedDict):
    """One construction of Table 1."""

    construction: str
    u_ppl: WithInterval
    p_ppl: WithInterval
    a_kl: WithInterval
    g_kl: WithInterval
    difference: NotRequired[WithInterval]
    steps: float | None
    objective: float | None
    not_converged: int


class Evaluation(TypedDict):
    """Table 1; besides these, where and when it was made."""

    pairs: int
    compatibility: WithInterval | None
    constructions: list[Row]
    settings: dict[str, Any]
    failed: int
    skipped_texts: dict[str, int]
    median_seconds_a_pair: float | None


class FrontierPoint(TypedDict):
    """A decoder at a number of passes, or at one token per pass (asked: null)."""

    decoder: str
    asked: int | None
    passes: float
    nats: WithInterval
    difference: WithInterval
    best: bool


class Frontier(TypedDict):
    """Nats per token against passes; besides these, where and when it was made."""

    texts: int
    best: str
    points: list[FrontierPoint]
    settings: dict[str, Any]
    skipped_texts: dict[str, int]


class Profile(TypedDict):
    """Dependence by distance."""

    by_distance: list[float]
    fingerprint: str
    texts: int
    about: dict[str, Any]


class TrainingRun(TypedDict):
    """A trained model."""

    out: str
    status: Literal["finished", "interrupted", "paused"]
    step: int
    steps: int
    validation: Validation
    learned: bool | None
    parameters: int
    tokens: int
    epochs: float
    settings: dict[str, Any]


class Study(TypedDict):
    """One study of the lab; its numbers depend on the study."""

    study: str
    title: str


SHAPES: dict[str, Any] = {
    "check": Check,
    "compare": Comparison,
    "dependence": Dependence | Profile,
    "diagnose": Diagnosis,
    "evaluate": Evaluation,
    "fill": Filling | ChainFilling,
    "frontier": Frontier,
    "lab": Study | dict[str, Study],
    "mutants": Mutants | Measured,
    "sample": SampleRun,
    "score": Scores | PairScores,
    "train": TrainingRun,
}
"""Command to what it prints."""
OPEN = (Evaluation, Frontier, Study)
"""Shapes with further keys."""
MAY_BE_NULL = (Diagnosis,)
"""Shapes that print null for a number that cannot be computed."""


def schema(shape: Any, null: bool = False) -> dict[str, Any]:
    """A type as JSON Schema; with `null`, numbers may be null."""
    origin, inside = get_origin(shape), get_args(shape)
    if shape is float:
        return {"$ref": "#/$defs/number_or_null" if null else "#/$defs/number"}
    if shape in PLAIN:
        return {"type": PLAIN[shape]}
    if shape is Any:
        return {}
    if origin is Literal:
        return {"enum": list(inside)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [schema(part, null) for part in inside]}
    if origin is NotRequired:
        return schema(inside[0], null)
    if origin is tuple and inside[-1] is not Ellipsis:
        return {"type": "array", "prefixItems": [schema(part, null) for part in inside], "items": False}
    if origin in (list, tuple):
        return {"type": "array", "items": schema(inside[0], null)}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema(inside[1], null)}
    return _object(shape, null or shape in MAY_BE_NULL)


def _object(shape: Any, null: bool) -> dict[str, Any]:
    hints = get_type_hints(shape, include_extras=True)
    if is_typeddict(shape):
        required = sorted(name for name, hint in hints.items() if get_origin(hint) is not NotRequired)
    elif is_dataclass(shape):
        hints = {field.name: hints[field.name] for field in fields(shape)}
        omitted = shape is Description
        required = sorted(field.name for field in fields(shape) if not (omitted and field.default is not MISSING))
    else:
        raise TypeError(f"{shape} has no schema")
    return {
        "type": "object",
        "description": (shape.__doc__ or "").split("\n")[0],
        "properties": {name: schema(hint, null) for name, hint in hints.items()},
        "required": required,
        "additionalProperties": shape in OPEN,
    }


def document(command: str) -> dict[str, Any]:
    """The schema of one command."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"unmask {command} --json"}
    found = schema(SHAPES[command])
    used = json.dumps(found)
    defined = {name: kind for name, kind in NUMBERS.items() if name == "number" or f'#/$defs/{name}"' in used}
    return head | found | ({"$defs": defined} if "#/$defs/" in used else {})


def written(command: str) -> str:
    """The text of the command's file."""
    return json.dumps(document(command), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for command in SHAPES:
        (FOLDER / f"{command}.json").write_text(written(command), encoding="utf-8")
