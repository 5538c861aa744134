"""The check of one value: pydantic's errors in our words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Interval
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from unmask.common.border.values import ANOTHER, WANTED, _validator, accepted
from unmask.common.errors import InputError

ANNOTATIONS = (
    int,
    int | None,
    float,
    bool,
    str,
    str | int,
    Sequence[int],
    Sequence[str] | None,
    Sequence[Sequence[str]],
    Mapping[int, Sequence[str]] | None,
    tuple[int, ...],
    tuple[int, str],
    list[float],
    Literal["red", "green"],
    Annotated[int, Interval(ge=1, le=9)],
    Annotated[float, Interval(gt=0, lt=1)] | None,
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.binary(max_size=2)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(st.one_of(st.integers(), st.text(max_size=2)), inner, max_size=2),
    ),
    max_leaves=5,
)


@given(st.sampled_from(ANNOTATIONS), VALUES)
def test_every_refusal_says_what_was_given_and_what_to_give(annotation, value):
    try:
        accepted("argument", value, annotation)
    except InputError as error:
        line = str(error)
        assert line.startswith("argument ")
        assert " is " in line
        assert ": " in line
        assert ANOTHER not in line
        assert "Input should" not in line
        assert error.argument == "argument"


@given(st.sampled_from(ANNOTATIONS), VALUES)
def test_every_type_of_error_has_words(annotation, value):
    try:
        _validator(annotation).validate_python(value)
    except ValidationError as error:
        assert {one["type"] for one in error.errors()} <= set(WANTED)


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        (Annotated[float, Interval(gt=0)], -1.0, "-1.0 is out of range: give a number greater "),
        (
            Annotated[float, Interval(lt=0.5)],
            1.0,
            "1.0 is out of range: give a number less than 0.5",
        ),
        (float, float("nan"), "nan is out of range: give a finite number"),
        (int, 1.5, "1.5 is not valid: give a whole number"),
        (tuple[int, ...], [1, "a"], "[1, 'a'] is not valid: give a whole number as item 2"),
        (Mapping[int, int], {1: "a"}, "{1: 'a'} is not valid: give a whole number at 1"),
        (str | int, [1], "[1] is not valid: give a text or a whole number"),
    ],
)
def test_words_of_refusals(annotation: Any, value: Any, message: str) -> None:
    with pytest.raises(InputError) as error:
        accepted("it", value, annotation)
    assert str(error.value).startswith(f"it {message}")
