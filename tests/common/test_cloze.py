"""A cloze keeps token ids and refuses a block that cannot be modelled."""

import pytest

from unmask.common.cloze import Cloze
from unmask.common.errors import InputError, UnmaskError


def test_filling_writes_only_the_block_in_the_order_of_the_block():
    cloze = Cloze(ids=(7, 9, 3, 9, 5), block=(3, 1), gold=(4, 6))
    assert cloze.filled(cloze.gold) == (7, 6, 3, 4, 5)
    assert cloze.ids == (7, 9, 3, 9, 5)


@pytest.mark.parametrize("values", [(1,), (1, 2, 3)])
def test_filling_needs_one_value_a_blank(values):
    with pytest.raises(InputError, match=f"values has {len(values)} tokens for 2 blanks"):
        Cloze(ids=(0, 1, 2), block=(1, 2)).filled(values)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"block": ()}, "the text has no blank: put [MASK] where a token should be modelled"),
        ({"block": (1, 1)}, "block [1, 1] names a position twice: name each position once"),
        (
            {"block": (3,)},
            "block [3] has position 3, which is outside the text: the 3 tokens are numbered 0 to 2",
        ),
        (
            {"block": (-1,)},
            "block [-1] has position -1, which is outside the text: the 3 tokens are numbered 0 to"
            " 2",
        ),
        (
            {"block": (1,), "gold": (4, 5)},
            "gold has 2 tokens for 1 blanks: give one token per blank",
        ),
    ],
)
def test_a_block_that_cannot_be_modelled_is_refused_in_one_line(fields, message):
    with pytest.raises(InputError) as caught:
        Cloze(ids=(0, 1, 2), **fields)
    assert str(caught.value) == message
    assert isinstance(caught.value, UnmaskError)
