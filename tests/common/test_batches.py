"""Items in groups of one key, and their rows in batches."""

from hypothesis import given
from hypothesis import strategies as st

from unmask.common.batches import consecutive, cut, grouped, of_one_key


def test_groups_are_in_the_order_of_their_first_items():
    assert grouped(["bb", "a", "cc", "ddd", "e"], len) == [[0, 2], [1, 4], [3]]


def test_items_of_one_key_come_in_lists_of_at_most_so_many():
    words = ["bb", "a", "cc", "ddd", "e", "f"]
    assert list(of_one_key(words, len, 2)) == [["a", "e"], ["f"], ["bb", "cc"], ["ddd"]]


def test_consecutive_items_fill_a_batch_and_a_large_one_is_alone():
    assert list(consecutive(["a", "bb", "ccc", "d", "eeeeee"], len, 4)) == [
        ["a", "bb"],
        ["ccc", "d"],
        ["eeeeee"],
    ]
    assert list(consecutive([], len, 4)) == []


@given(st.lists(st.integers(0, 9)), st.integers(1, 7))
def test_every_row_is_in_one_batch_and_only_the_last_batch_is_shorter(sizes, at_once):
    batches = list(cut(list(enumerate(sizes)), at_once))
    rows = [(item, row) for batch in batches for item, part in batch for row in _rows(part)]
    assert rows == [(item, row) for item, size in enumerate(sizes) for row in range(size)]
    lengths = [sum(len(_rows(part)) for _, part in batch) for batch in batches]
    assert all(length == at_once for length in lengths[:-1])
    assert all(1 <= length <= at_once for length in lengths[-1:])


def _rows(part: slice) -> range:
    return range(part.start, part.stop)
