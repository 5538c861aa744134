"""Rows of numbers: one per text, per word or per token, in nats or bits.

    texts    item, id, text, length, unknown, one column per score and its further columns, reason
    words    item, id, word_number, word, start, end, length, NAME_surprisal for every score that is a sum over tokens, reason
    tokens   item, id, token_number, token, start, end, word_number, position, NAME_surprisal, reason

`item` counts the texts from 1, `word_number` the words of a text between spaces, from 1; start and end are places in the text,
in characters. length: tokens scored. A surprisal is minus the token's share of the score, so that those of a text add up to
minus its score; an energy's shares are themselves, in a column of its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Any

from unmask.scoring.computing import TextScores
from unmask.scoring.reading import Item
from unmask.scoring.registry import SCORES
from unmask.scoring.tokens import Encoded, spaced_words, word_of_site

UNITS = {"nats": 1.0, "bits": log(2)}
FLAGS = ("order_bounds_exact", "log_prob_exact")
"""Columns that say yes or no."""


def text_row(
    number: int, item: Item, encoded: Encoded | None, scores: TextScores | None, names: Sequence[str], unit: str
) -> dict[str, Any]:
    """The row of one text; a text that could not be scored has its columns empty."""
    row: dict[str, Any] = {
        "item": number,
        "id": item.id,
        "text": item.text,
        "length": 0 if encoded is None else len(encoded.sites),
        "unknown": 0 if encoded is None else encoded.unknown,
    }
    for column in columns_of(names):
        value = None if scores is None else scores.values[column]
        if column in FLAGS:
            row[column] = None if value is None else bool(value)
        else:
            row[column] = None if value is None else value / UNITS[unit]
    return row | {"reason": None if scores is None else scores.reason}


def columns_of(names: Sequence[str]) -> list[str]:
    """The columns of the scores `names`."""
    return [column for name in names for column in (name, *(f"{name}_{suffix}" for suffix in SCORES[name].extra))]


def token_rows(item: Item, encoded: Encoded, scores: TextScores, unit: str) -> list[dict[str, Any]]:
    """One row per token that is scored."""
    numbers = word_of_site(encoded, item.text)
    rows = []
    for place, (t, word) in enumerate(zip(encoded.sites, numbers, strict=True)):
        start, end = encoded.spans[t]
        rows.append(
            {
                "token_number": place + 1,
                "token": encoded.shown[t],
                "start": start,
                "end": end,
                "word_number": word + 1,
                "position": t,
                **{share_column(name): _share(name, shares[place], unit) for name, shares in scores.by_site.items()},
            }
        )
    return rows


def word_rows(item: Item, encoded: Encoded, scores: TextScores, unit: str) -> list[dict[str, Any]]:
    """One row per word between spaces; a target's words have a row, those around it none."""
    spans, numbers = spaced_words(item.text), word_of_site(encoded, item.text)
    known = any(end for _, end in encoded.spans)
    places_of: dict[int, list[int]] = {}
    for place, number in enumerate(numbers):
        places_of.setdefault(number, []).append(place)
    rows = []
    for word, places in places_of.items():
        start, end = spans[word] if known else (0, 0)
        shown = item.text[start:end] if known else encoded.shown[encoded.sites[places[0]]]
        rows.append(
            {
                "word_number": word + 1,
                "word": shown,
                "start": start,
                "end": end,
                "length": len(places),
                **{
                    share_column(name): sum(_share(name, shares[place], unit) for place in places)
                    for name, shares in scores.by_site.items()
                },
            }
        )
    return rows


def share_column(name: str) -> str:
    """The column of a token's or a word's share of the score."""
    return name if SCORES[name].better < 0 else f"{name}_surprisal"


def _share(name: str, share: float, unit: str) -> float:
    return -SCORES[name].better * share / UNITS[unit]
