"""Questions that the local page asks: what the server answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from same.calls import Call, call, model
from same.materials import PROTEIN

PAIR = "the [MASK] sat on the [MASK] ."
ONE = "the [MASK] sat ."
QUESTIONS: dict[str, list[dict[str, Any]]] = {
    "words": [{"text": PAIR}, {"text": "the zebra [WORD] on [GAP:1-2] ."}],
    "plan": [{"text": PAIR}, {"text": ONE, "joint": "chain"}, {"text": "a [GAP:1-2] ran ."}],
    "fill": [
        {"text": PAIR},
        {"text": ONE, "exact": True},
        {"text": PAIR, "joint": "balanced", "candidates": 5, "top": 3, "cells": 4},
        {"text": PAIR, "joint": "chain", "exact": True, "targets": ["cat", "mat"]},
    ],
    "fill/copy": [{"text": PAIR}, {"text": ONE, "joint": "mrf", "top": 3}],
    "dependence": [
        {"text": "the cat sat on ."},
        {"text": "the old man saw .", "candidates": 4, "joint": "mrf", "chosen": [1, 2]},
    ],
    "dependence/copy": [{"text": "the cat sat on ."}],
    "score": [
        {"texts": ["the cat sat .", "a dog ran ."]},
        {"texts": ["the man saw a dog ."], "score": ["any_order", "left_to_right"]},
    ],
    "batch": [
        {"content": "the cat sat .\na dog ran .\n", "name": "a.txt"},
        {
            "content": "text,n\nthe cat sat .,1\na dog ran .,2\n",
            "name": "a.csv",
            "score": ["energy_norm"],
        },
    ],
    "sample": [
        {"template": PAIR, "kernel": "mh", "chains": 2, "sweeps": 3, "seed": 1},
        {"template": PAIR, "kernel": "mask-predict", "chains": 2, "sweeps": 1, "seed": 2},
    ],
}
"""Of a model of words: paths of the server, and what is asked there."""


def calls() -> list[Call]:
    """All calls of this file."""
    return [*answered(), *not_answered()]


def answered() -> Iterator[Call]:
    """Answers, those of every question twice."""
    for path, asked in QUESTIONS.items():
        for number, body in enumerate(asked):
            yield call(f"page/{path}/{number}", "page", model=model("words"), path=path, body=body)
    for name in ("words", "letters"):
        yield call(f"page/about/{name}", "page", model=model(name), path="about")
    for changes in (1, 2):
        body = {"sequence": PROTEIN, "positions": [1, 3], "changes": changes}
        yield call(
            f"page/mutants/{changes}", "page", model=model("letters"), path="mutants", body=body
        )
    body = {"sequence": PROTEIN, "positions": [2]}
    yield call("page/mutants/copy", "page", model=model("letters"), path="mutants/copy", body=body)
    yield call(
        "page/letters/fill",
        "page",
        model=model("letters"),
        path="fill",
        body={"text": "A [MASK] D [MASK] F"},
    )


def not_answered() -> Iterator[Call]:
    """Questions that are refused: the status is part of the answer."""
    bad: dict[str, dict[str, Any]] = {
        "fill": {"text": "the cat sat ."},
        "score": {"texts": ["the cat sat ."], "score": ["perplexity"]},
        "sample": {"template": PAIR, "kernel": "metropolis"},
        "nothing": {},
    }
    for path, body in bad.items():
        yield call(f"page/bad/{path}", "page", model=model("words"), path=path, body=body)
