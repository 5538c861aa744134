"""Two texts side by side, token by token: where do their scores differ?

Tokens are aligned by their longest common runs; a stretch that differs is put side by side and filled up with gaps. The
differences of a score's shares add up to the difference of the scores, since every token stands in exactly one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any

from unmask.scoring.registry import SCORES
from unmask.scoring.rows import share_column


def aligned(first: Sequence[dict[str, Any]], second: Sequence[dict[str, Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    """Rows with first_token, second_token (None for a gap), and NAME_difference = first's minus second's share of the score."""
    rows = []
    for one, other in _places([t["token"] for t in first], [t["token"] for t in second]):
        left, right = (first[one] if one is not None else None), (second[other] if other is not None else None)
        row: dict[str, Any] = {
            "first_token": left and left["token"],
            "second_token": right and right["token"],
        }
        for name in names:
            shares = [0.0 if side is None else side[share_column(name)] for side in (left, right)]
            row[f"{name}_difference"] = SCORES[name].better * (shares[1] - shares[0])
        rows.append(row)
    return rows


def _places(first: list[str], second: list[str]) -> list[tuple[int | None, int | None]]:
    found: list[tuple[int | None, int | None]] = []
    for _, a, b, c, d in SequenceMatcher(a=first, b=second, autojunk=False).get_opcodes():
        found += zip_longest(range(a, b), range(c, d))
    return found
