"""A text with its blanks filled: its tokens, where they stand in the text, and how probable it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from unmask.cloze import Cloze
from unmask.models.masked_lm import MaskedLM

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Completion:
    """One filling of the blanks: its tokens, the whole text, and its log-probability under the joint and the product.

    Both are given that every blank lies in its candidate set. `spans` are the places of the tokens in `text`, and `is_gold`
    says that these are the tokens that stood in the blanks.

    >>> unmask.fill("She drank a cup of [MASK].").completions[0].tokens
    ('tea',)
    """

    tokens: tuple[str, ...]
    text: str
    log_prob: float
    product_log_prob: float
    spans: tuple[tuple[int, int], ...]
    is_gold: bool = False

    def to_dict(self) -> dict[str, object]:
        """One entry of `completions` in JSON."""
        return {
            "tokens": list(self.tokens),
            "text": self.text,
            "gold": self.is_gold,
            "log_prob": self.log_prob,
            "product_log_prob": self.product_log_prob,
        }


def completions_frame(completions: Sequence[Completion], filled: str, *numbers: str) -> pandas.DataFrame:
    """One row per completion: its text, a column per blank with what fills it (the attribute `filled`), its numbers, gold."""
    import pandas

    rows = [
        {"text": one.text}
        | {f"blank_{t + 1}": part for t, part in enumerate(getattr(one, filled))}
        | {name: getattr(one, name) for name in numbers}
        | {"gold": one.is_gold}
        for one in completions
    ]
    return pandas.DataFrame(rows)


def complete(model: MaskedLM, cloze: Cloze, values: Sequence[int], log_prob: float, product_log_prob: float) -> Completion:
    """The text with `values` in its blanks, and where in it they stand."""
    ids = cloze.filled(values)
    text = model.text(ids)
    spans = []
    for position in cloze.block:
        start, stop = len(model.text(ids[:position])), len(model.text(ids[: position + 1]))
        start += len(text[start:stop]) - len(text[start:stop].lstrip())
        spans.append((start, stop))
    tokens = tuple(model.token(value) for value in values)
    return Completion(tokens, text, log_prob, product_log_prob, tuple(spans), tuple(values) == cloze.gold)


def marked_html(completion: Completion) -> str:
    """The text in HTML, what fills the blanks in bold."""
    out, end = "", 0
    for start, stop in sorted(completion.spans):
        out += f"{escape(completion.text[end:start])}<b>{escape(completion.text[start:stop])}</b>"
        end = stop
    return out + escape(completion.text[end:])
