"""One function for several texts: which texts an error names."""

import pytest

from unmask.common.errors import BadTexts, InputError
from unmask.common.texts import for_each


def upper(text: str) -> str:
    if not text:
        raise InputError("the text is empty")
    return text.upper()


def test_answers_are_in_the_order_of_the_texts():
    assert for_each(["b", "a"], upper) == ["B", "A"]


def test_several_texts_are_all_read_before_those_that_were_refused_are_named():
    with pytest.raises(BadTexts, match="^text 2 of 4: the text is empty$") as error:
        for_each(["a", "", "b", ""], upper)
    assert error.value.reasons == {1: "the text is empty", 3: "the text is empty"}


def test_the_error_of_a_single_text_does_not_count_texts():
    with pytest.raises(InputError, match="^the text is empty$") as error:
        for_each([""], upper)
    assert not isinstance(error.value, BadTexts)


def test_no_text_is_refused():
    with pytest.raises(InputError, match="^no text was given"):
        for_each([], upper)
