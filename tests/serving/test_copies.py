"""Copies of the page's questions: lines that can be run, and print numbers."""

from __future__ import annotations

import pytest

pytest.importorskip("fastapi")
from unmask.serving.copies import Copies

FILL = {"text": "A [MASK].", "joint": None, "candidates": None, "exact": False, "top": 3, "cells": 14, "pin": None}


def test_defaults_are_left_out_and_the_model_goes_along():
    copy = Copies(None, {}).of("fill", FILL)
    assert copy["python"] == 'import unmask\n\nprint(unmask.fill("A [MASK].", top=3).to_frame().to_string())'
    assert copy["command"] == "unmask fill 'A [MASK].' --top 3"
    copy = Copies("bert", {"device": "cpu"}).of("fill", {**FILL, "exact": True})
    loaded = 'model=unmask.load("bert", device="cpu")'
    assert f'unmask.fill("A [MASK].", exact=True, top=3, {loaded}).to_frame()' in copy["python"]
    assert copy["command"] == "unmask fill 'A [MASK].' --exact --top 3 --model bert --device cpu"


def test_a_start_is_passed_by_a_pipe():
    values = {"template": "A [MASK].", "init": "It's.", "kernel": "mh", "temperature": 0.5, "chains": 2, "seed": 0}
    copy = Copies(None, {}).of("sample", values)
    assert 'kernel=unmask.MH(temperature=0.5), chains=2, start=unmask.Start(init=["It\'s."])).last' in copy["python"]
    assert copy["command"].startswith("printf '%s\\n' 'It'\"'\"'s.' | unmask sample 'A [MASK].' --init -")
