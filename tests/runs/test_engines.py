from __future__ import annotations

import pytest

from unmask.errors import InputError
from unmask.runs.engines import Answer, Local


def halve(n: int) -> float:
    if n == 2:
        raise InputError("2 is refused: give another")
    if n == 3:
        raise ZeroDivisionError("three\nlines\nlong")
    return n / 2


def test_the_local_engine_answers_every_item_and_says_why_not():
    assert list(Local(halve)([1, 2, 3, 4])) == [
        Answer(0, 0.5),
        Answer(1, failure="2 is refused: give another"),
        Answer(2, failure="ZeroDivisionError: three"),
        Answer(3, 2.0),
    ]


def test_an_interrupt_goes_through():
    def interrupted(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(Local(interrupted)([1]))
