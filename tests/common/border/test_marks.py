"""Marks inside annotations."""

from typing import Annotated

import pytest

from support.made_up_signature import Group, Order
from unmask.common.border.marks import PYTHON_ONLY, Only, Written, group_of, kinds, mark, marks
from unmask.common.cloze import Cloze
from unmask.common.errors import InputError

OPTIONAL = Annotated[int, Written(short="-n")] | Annotated[str | None, PYTHON_ONLY]


def test_types_and_marks_of_a_union():
    assert kinds(OPTIONAL) == [int, str, type(None)]
    assert marks(OPTIONAL) == [Written(short="-n"), PYTHON_ONLY]
    assert mark(OPTIONAL, Written) == Written(short="-n")
    assert mark(OPTIONAL, Only) is None


def test_a_group_has_defaults():
    assert group_of(Group) is Group
    assert group_of(Annotated[Order | None, Only(beside=("a",))]) is Order
    assert group_of(Cloze) is None  # its fields have no defaults: a value
    assert group_of(int | None) is None


def test_conflicts_name_the_other_argument():
    Only(beside=("b", "c")).refuse("a", ["a", "c"])
    Only(without=("b",)).refuse("a", ["a"])
    with pytest.raises(InputError, match="^a is used only with b or c: give b or c, or leave it"):
        Only(beside=("b", "c")).refuse("a", ["a"])
    with pytest.raises(InputError, match="^a is not used with b: leave one of the two out$"):
        Only(without=("b",)).refuse("a", ["a", "b"])
