from __future__ import annotations

import operator
from functools import partial

import pytest

from unmask.errors import InputError, UnmaskError
from unmask.runs.engines import Answer, OnRay, answered, start_ray


def halve(n: int) -> float:
    if n == 2:
        raise InputError("2 is refused: give another")
    if n == 3:
        raise ZeroDivisionError("three\nlines\nlong")
    return n / 2


def test_every_item_is_answered_and_a_failure_says_why():
    assert [answered(halve, place, item) for place, item in enumerate([1, 2, 3, 4])] == [
        Answer(0, 0.5),
        Answer(1, failure="2 is refused: give another"),
        Answer(2, failure="ZeroDivisionError: three"),
        Answer(3, 2.0),
    ]


def test_an_interrupt_goes_through():
    def interrupted(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        answered(interrupted, 0, 1)


def test_ray_answers_every_item_once_and_says_why_not(ray_here):
    start_ray()
    reciprocal = partial(partial, operator.truediv, 1)
    answers = list(OnRay(reciprocal, workers=2)([1, 2, 0, 4]))
    assert sorted(answers, key=lambda answer: answer.place) == [
        Answer(0, 1.0),
        Answer(1, 0.5),
        Answer(2, failure="ZeroDivisionError: division by zero"),
        Answer(3, 0.25),
    ]
    assert list(OnRay(reciprocal)([])) == []


def test_a_worker_that_cannot_be_made_is_one_line(ray_here):
    start_ray()
    with pytest.raises(UnmaskError, match="Ray gave up .*: what was done is kept") as error:
        list(OnRay(partial(int, "no number"), workers=1)([1]))
    assert "\n" not in str(error.value)
