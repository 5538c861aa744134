"""Tokens that a user names: what is refused, and their order."""

import pytest
import torch

from unmask.common.cloze import Cloze
from unmask.common.errors import InputError
from unmask.tables.named_tokens import alphabet_tokens, own_sets

REGULAR = torch.tensor([0, 2, 4])


def test_an_alphabet_keeps_its_order_and_each_token_once():
    assert alphabet_tokens([4, 0, 4, 2, 0], REGULAR, Cloze((5,), (0,), (2,))).tolist() == [4, 0, 2]


@pytest.mark.parametrize(
    ("alphabet", "message"),
    [
        ([], "the alphabet is empty"),
        ([0, 1], "the alphabet has 1, which is not a regular token"),
        ([0, 4], "the target with token id 2 is not in the alphabet"),
    ],
)
def test_bad_alphabets_are_refused(alphabet, message):
    with pytest.raises(InputError, match=message):
        alphabet_tokens(alphabet, REGULAR, Cloze((5,), (0,), (2,)))


def test_own_sets_are_taken_as_they_are_if_every_token_is_regular():
    assert [tokens.tolist() for tokens in own_sets([[4, 0], [2]], REGULAR, 2)] == [[4, 0], [2]]
    with pytest.raises(InputError, match="candidate 1 of blank 2 is not a regular token"):
        own_sets([[4, 0], [1]], REGULAR, 2)
