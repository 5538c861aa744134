"""Texts as a person types them on the page, and as the model reads them."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

from unmask.common.errors import InputError
from unmask.models.masked_lm import MaskedLM
from unmask.models.text.blanks import read_blanks
from unmask.scoring.encoding import spaced_words

BLANKS_AS_TYPED = r"\[MASK\]|\[WORD\]|\[GAP:[\d\s-]*\]|<mask>|_{2,}"
"""The blanks of the page; the verbs take the first three of them and the model's own mask token."""
EXTENTS = {"token": "one token", "word": "a whole word", "gap": "1 to 3 tokens"}
KINDS = [("token", "", "[MASK]"), ("word", "w", "[WORD]"), ("gap", "g", "[GAP:1-3]")]
"""Kinds of blanks: name, the letter in the page's address, and how a text has it."""
Word = dict[str, Any]


class TypedTexts:
    """Reads texts of the page for one model.

    blanks   a pattern of all blanks that can be typed
    """

    def __init__(self, model: MaskedLM) -> None:
        self.model = model
        self.blanks = re.compile(rf"{BLANKS_AS_TYPED}|{re.escape(model.words.mask_token)}")

    def words(self, text: str) -> dict[str, Any]:
        """The words of a text as the tokenizer cuts it, how many tokens each is, and the blanks
        that were typed.

        Of a model of single letters, headers of FASTA and spaces are left out, and small
        letters are read as capitals if the model knows only those: `text` is the text as it is
        read.
        """
        text = self.sequence(text)
        words: list[Word] = []
        end = 0
        for typed in self.blanks.finditer(text):
            words += self._words(text[end : typed.start()], end)
            start, end = typed.span()
            kind, extent = self._kind(typed[0])
            shown = {"text": typed[0], "start": start, "end": end, "pieces": 1}
            words.append({**shown, "blank": kind, "known": True, "extent": extent})
        return {"text": text, "words": words + self._words(text[end:], end)}

    def sequence(self, text: str) -> str:
        """A text as a model of single letters reads it; any other text as it is."""
        if not self.model.words.by_character:
            return text
        lines = [line for line in text.splitlines() if not line.startswith(">")] or [
            re.sub(r"^>.*", "", text)
        ]
        parts = re.split(rf"({self.blanks.pattern})", "".join("".join(lines).split()))
        with suppress(InputError):
            if (
                not any(parts[::2])
                or self.model.words.unknown_id
                not in self.model.words.tokens_of("".join(parts[::2])).ids
            ):
                return "".join(parts)
        return "".join(part if n % 2 else part.upper() for n, part in enumerate(parts))

    def _kind(self, typed: str) -> tuple[str, str]:
        """The kind of a blank, and how many tokens it takes, in words."""
        with suppress(InputError):
            if (blank := read_blanks(self.model.words, typed)[0]).kind == "gap":
                tokens = (
                    f"{blank.least} to {blank.most}"
                    if blank.most > blank.least
                    else str(blank.least)
                )
                return "gap", f"{tokens} token{'s' if blank.most > 1 else ''}"
        kind = {"[WORD": "word", "[GAP:": "gap"}.get(typed[:5], "token")
        return kind, EXTENTS[kind]

    def _words(self, text: str, offset: int) -> list[Word]:
        if not text.strip():
            return []
        tokens, unknown, words = self.model.words.tokens_of(text), self.model.words.unknown_id, []
        spans = [
            (tokens.spans[places[0]][0], tokens.spans[places[-1]][1], places)
            for places in by_word(tokens)
        ]
        for start, end, places in spans or [(a, b, [0]) for a, b in spaced_words(text)]:
            start += len(text[start:end]) - len(text[start:end].lstrip())
            shown = {
                "text": text[start:end],
                "start": offset + start,
                "end": offset + end,
                "pieces": len(places),
            }
            known = unknown not in [tokens.ids[place] for place in places]
            first = tokens.inside[0]  # special tokens stand before it, and are not counted
            positions = [place - first + 1 for place in places]
            words.append({**shown, "blank": None, "known": known, "positions": positions})
        return words


def by_word(tokens: Any) -> list[list[int]]:
    """The places of the tokens of each word; none of a tokenizer that does not know them."""
    words: dict[int, list[int]] = {}
    for place, number in enumerate(tokens.words):
        if number is not None and tokens.spans[place][1] > tokens.spans[place][0]:
            words.setdefault(number, []).append(place)
    return list(words.values())
