"""A duration in words."""

import pytest

from unmask.runs.progress import in_words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(12, "12 seconds"), (89, "89 seconds"), (90, "2 minutes"), (7000, "2 hours"), (5e5, "6 days")],
)
def test_durations_in_words(seconds, words):
    assert in_words(seconds) == words
