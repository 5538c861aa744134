"""The scores that a user chooses: by name, by spelling, or as objects.

unmask.score(texts, ["pll", unmask.AnyOrder(orders=32), Mine()])
        unmask score FILE --score pll,any_order,my.py:Mine --orders 32
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import MISSING, fields
from typing import Any, TypeVar, cast

from unmask.common.border.marks import TakesMethod
from unmask.common.errors import InputError
from unmask.common.methods.method import Method
from unmask.scoring.scores.any_order import AnyOrder
from unmask.scoring.scores.pll import PLL
from unmask.scoring.scores.score import SCORES, Computation, Score

OfKind = TypeVar("OfKind", bound=Method)
DEFAULT = PLL.name
DEFAULT_OF_HARNESS = AnyOrder.name
"""A probability: answers of the LM Evaluation Harness are compared by it."""
SCORE = TakesMethod("unmask.scoring.scores.score:SCORES")
SEVERAL = TakesMethod(SCORE.registry, several=True)
"""Marks of arguments that take a score, or several: names with commas between them, objects, or
a list of both.
"""


def with_names() -> dict[str, type[Score]]:
    """The scores that a name alone gives: not the law of a decoder, which needs the decoder."""
    named = {}
    for name, score in SCORES.items():
        required = [one for one in fields(cast(Any, score)) if one.default is MISSING]
        if not required:
            named[name] = cast("type[Score]", score)
    return named


def each_once(scores: Iterable[OfKind]) -> tuple[OfKind, ...]:
    """The scores, each once.

    Raises for a score with two sets of options, whose columns would have the same names.
    """
    by_name: dict[str, OfKind] = {}
    for score in scores:
        if by_name.setdefault(score.name, score) != score:
            raise InputError(
                f"{score.name} was given twice, with different options",
                argument="score",
                use="give it once",
            )
    return tuple(by_name.values())


def sharing(scores: Iterable[Score]) -> list[list[Score]]:
    """The scores in groups that one call of their computation computes."""
    groups: dict[Computation, list[Score]] = {}
    for score in scores:
        groups.setdefault(score.computation, []).append(score)
    return list(groups.values())


def columns_of(scores: Iterable[Score]) -> list[str]:
    """The columns of these scores."""
    return [column for score in scores for column in score.columns]


def definitions(scores: Iterable[Score]) -> dict[str, dict[str, Any]]:
    """Of each score by name: its definition, whether it is a probability, and which values are
    better.
    """
    return {
        score.name: {
            "definition": score.definition,
            "probability": score.probability,
            "why": score.why,
            "better": "higher" if score.better > 0 else "lower",
        }
        for score in scores
    }
