"""Two texts token by token, and how much more of each score a token of the first one has.

The texts are aligned by the longest common runs of their tokens; a stretch that differs is put
side by side and filled up with gaps. Every token is in exactly one row, so the differences of a
score's shares add up to the difference of the scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any

from unmask.scoring.row_shape import Rows
from unmask.scoring.scores.score import Score

GAP = 0.0
"""The share of a score that a gap has."""


def token_differences(first: Rows, second: Rows, scores: Iterable[Score]) -> Rows:
    """Rows with first_token and second_token (None for a gap), and NAME_difference for each score.

    first, second   the rows of the tokens of two texts
    scores          sums over tokens, which both texts have
    """
    rows = []
    for left, right in _aligned(first, second):
        row = {
            "first_token": None if left is None else left["token"],
            "second_token": None if right is None else right["token"],
        }
        for score in scores:
            of_left = GAP if left is None else left[score.share_column]
            of_right = GAP if right is None else right[score.share_column]
            # Shares are surprisals, or an energy's parts: the lower share is the better.
            row[f"{score.name}_difference"] = score.better * (of_right - of_left)
        rows.append(row)
    return rows


def _aligned(
    left: Rows, right: Rows
) -> Iterator[tuple[dict[str, Any] | None, dict[str, Any] | None]]:
    """The tokens of two texts side by side; None is a gap."""
    runs = SequenceMatcher(
        None,
        [token["token"] for token in left],
        [token["token"] for token in right],
        autojunk=False,
    )
    for _kind, left_start, left_end, right_start, right_end in runs.get_opcodes():
        yield from zip_longest(left[left_start:left_end], right[right_start:right_end])
