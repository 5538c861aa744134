"""Texts as a person types them on the page, and as the model reads them."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

from unmask.common.errors import InputError
from unmask.models.masked_lm import MaskedLM
from unmask.models.text.blanks import read_blanks
from unmask.scoring.encoding import spaced_words

BLANKS_AS_TYPED = r"\[MASK\]|\[WORD(?::[\d\s-]*)?\]|\[GAP:[\d\s-]*\]|<mask>|_{2,}"
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
        words = self.model.words
        if not words.by_character:
            return text
        lines = [line for line in text.splitlines() if not line.startswith(">")]
        if not lines:  # a header of FASTA alone, which is left out
            lines = [re.sub(r"^>.*", "", text)]
        letters = "".join("".join(lines).split())
        parts = re.split(rf"({self.blanks.pattern})", letters)  # every second one is a blank
        between = "".join(parts[::2])
        with suppress(InputError):
            is_known = not between or words.unknown_id not in words.tokens_of(between).ids
            if is_known:
                return letters
        for place in range(0, len(parts), 2):
            parts[place] = parts[place].upper()
        return "".join(parts)

    def _kind(self, typed: str) -> tuple[str, str]:
        """The kind of a blank, and how many tokens it takes, in words."""
        with suppress(InputError):
            blank = read_blanks(self.model.words, typed)[0]
            if blank.kind == "gap":
                several = "s" if blank.most > 1 else ""
                tokens = str(blank.least)
                if blank.most > blank.least:
                    tokens = f"{blank.least} to {blank.most}"
                return "gap", f"{tokens} token{several}"
        kind = {"[WORD": "word", "[GAP:": "gap"}.get(typed[:5], "token")
        return kind, EXTENTS[kind]

    def _words(self, text: str, offset: int) -> list[Word]:
        """The words of a text without blanks, which stands at `offset` in the whole text."""
        if not text.strip():
            return []
        tokens = self.model.words.tokens_of(text)
        first = tokens.inside[0]  # special tokens stand before it, and are not counted
        spans = []
        for places in by_word(tokens):
            start = tokens.spans[places[0]][0]
            end = tokens.spans[places[-1]][1]
            spans.append((start, end, places))
        if not spans:  # a tokenizer that does not know words
            spans = [(start, end, [0]) for start, end in spaced_words(text)]
        words: list[Word] = []
        for start, end, places in spans:
            word = text[start:end].lstrip()
            unknown = self.model.words.unknown_id in [tokens.ids[place] for place in places]
            words.append(
                {
                    "text": word,
                    "start": offset + end - len(word),
                    "end": offset + end,
                    "pieces": len(places),
                    "blank": None,
                    "known": not unknown,
                    "positions": [place - first + 1 for place in places],
                }
            )
        return words


def by_word(tokens: Any) -> list[list[int]]:
    """The places of the tokens of each word; none of a tokenizer that does not know them."""
    words: dict[int, list[int]] = {}
    for place, number in enumerate(tokens.words):
        if number is not None and tokens.spans[place][1] > tokens.spans[place][0]:
            words.setdefault(number, []).append(place)
    return list(words.values())
