"""Arguments of public functions are held to their annotations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch

from unmask.arguments import checked, fitted
from unmask.errors import InputError

Sets = int | Sequence[Sequence[int]] | None


@checked
def called(n: int, /, text: str | Path = "a", *, flag: bool = False, sets: Sets = None, **more: object) -> tuple[object, ...]:
    return n, text, flag, sets, more


def test_values_of_other_libraries_become_plain_ones():
    found = called(np.int64(3), flag=np.True_, sets=torch.tensor([[1, 2], [3, 4]]), other=np.int64(1))
    assert found == (3, "a", True, [[1, 2], [3, 4]], {"other": 1})
    assert [type(one) for one in found[:3]] == [int, str, bool] and type(found[3][0][0]) is int
    assert called(3, sets=np.array(5))[3] == 5 == called(3, sets=torch.tensor(5))[3]


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        (["3"], {}, "n '3' is not a whole number: give one such as 3"),
        ([True], {}, "n True is not a whole number: give one such as 3"),
        ([3, 5], {}, "text 5 is not a text or a path: give one"),
        ([3], {"flag": 1}, "flag 1 is not True or False: give one"),
        ([3], {"sets": [1, 2]}, "item 1 of sets: 1 is not a list of whole numbers: give one such as [3, 4]"),
        ([3], {"sets": [[1], [0.5]]}, "item 1 of item 2 of sets: 0.5 is not a whole number: give one such as 3"),
    ],
)
def test_a_value_that_does_not_fit_is_one_line(arguments, options, said):
    with pytest.raises(InputError) as error:
        called(*arguments, **options)
    assert str(error.value) == said


def test_names_of_arguments_are_pythons_own_affair():
    with pytest.raises(TypeError, match="missing a required argument"):
        called()


def test_an_iterable_is_not_used_up_and_mappings_are_looked_into():
    once = iter(["a", "b"])
    assert fitted("texts", once, Iterable[str]) is once and list(once) == ["a", "b"]
    assert fitted("allow", {np.int64(1): ("a",)}, Mapping[int, Sequence[str]]) == {1: ("a",)}
    with pytest.raises(InputError, match="allow at 1: 'red' is not a list of texts"):
        fitted("allow", {1: "red"}, Mapping[int, Sequence[str]])


def test_none_fits_names_that_may_be_left_out():
    assert fitted("others", None, Literal["masked", "text"] | None) is None
    with pytest.raises(InputError, match="others None is unknown: use one of masked, text"):
        fitted("others", None, Literal["masked", "text"])
