from __future__ import annotations

import operator
import os
import signal
from functools import partial
from pathlib import Path

import pytest

from unmask.errors import InputError
from unmask.runs.engines import LOST, Answer, OnRay, answered, start_ray


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


def counting(log: Path):
    """Work that counts one further; it notes what it did, and at 3 its process dies once, at 7 always."""

    def count(item: tuple[int, int]) -> int:
        number = item[0] + 1
        if number == 7 or (number == 3 and not (log / "died").exists()):
            (log / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        with open(log / "done", "a") as file:
            file.write(f"{number}\n")
        return number

    return count


def left(item: tuple[int, int], number: int) -> tuple[int, int] | None:
    return (number, item[1]) if number < item[1] else None


def test_a_worker_that_dies_is_replaced_and_work_goes_on_after_its_last_answer(ray_here, tmp_path):
    answers = list(OnRay(partial(counting, tmp_path), workers=1, rest=left)([(0, 5)]))
    assert [(answer.result, answer.more) for answer in answers] == [(1, True), (2, True), (3, True), (4, True), (5, False)]
    assert (tmp_path / "done").read_text().split() == list("12345") and (tmp_path / "died").exists()


def test_an_item_that_kills_every_worker_fails_and_the_others_do_not(ray_here, tmp_path):
    (tmp_path / "died").touch()
    answers = list(OnRay(partial(counting, tmp_path), workers=1, rest=left)([(6, 8), (1, 2)]))
    assert answers == [Answer(0, failure=f"{LOST} workers died over it, one after the other"), Answer(1, 2)]


def test_items_are_read_as_workers_take_them_and_workers_last_as_long_as_the_block(ray_here):
    read = []

    def items():
        for n in range(1, 9):
            read.append(n)
            yield n

    with OnRay(partial(partial, int), workers=1) as engine:
        first = next(answers := engine(items()))
        assert first == Answer(0, 1) and len(read) < 4
        assert [answer.result for answer in answers] == [2, 3, 4, 5, 6, 7, 8]
        (worker,) = engine._idle
        assert [answer.result for answer in engine([9])] == [9] and engine._idle == [worker]
    assert not engine._idle


def test_a_worker_that_cannot_be_made_is_one_line(ray_here):
    with pytest.raises(InputError, match=r"a Ray worker cannot begin \(ValueError: .*\): every machine .* needs unmask") as error:
        list(OnRay(partial(int, "no number"), workers=1)([1]))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("address", "why"), [("127.0.0.1:1", "Connection refused"), ("nowhere", "Invalid address")])
def test_a_cluster_that_cannot_be_reached_is_one_line(monkeypatch, address, why):
    ray = pytest.importorskip("ray")
    monkeypatch.setenv("RAY_ADDRESS", address)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(
        InputError, match=rf"RAY_ADDRESS '{address}' cannot be joined as a Ray cluster \(.*{why}.*\): start one"
    ) as error:
        start_ray()
    assert "\n" not in str(error.value)
