"""Blanks of one token, of a whole word, or of several tokens, and the ways to read a text that
has them.

    [MASK]       one token
    [WORD]       one whole word of one to three tokens, by the tokenizer's own marking
    [WORD:1-5]   one whole word of one to five tokens; [WORD:2] of two
    [GAP:2-5]    any two to five tokens; [GAP:3] any three

A reading of a text gives every blank a number of tokens, and is the text with that many masks.
There is one for each combination of the blanks' lengths. A cloze (`cloze_of`) is made of a text
whose blanks are all [MASK]; a target of several tokens turns its blank into as many.
"""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Literal

from unmask.common.checks import shown
from unmask.common.cloze import Cloze, blanked, cloze_of_ids
from unmask.common.counting import Places, counted_places
from unmask.common.errors import InputError, argument_name
from unmask.models.text.text_tokenizer import (
    BLANK,
    TextTokenizer,
    refuse_hopeless,
    refuse_too_long,
    shortened,
)

logger: logging.Logger = logging.getLogger(__name__)
MODEL_MASKS = re.compile(r"<mask>|\[mask\]|\{mask\}|<extra_id_\d+>", re.IGNORECASE)
"""Masks as models spell them."""
FOREIGN_BLANKS = re.compile(
    "|".join([MODEL_MASKS.pattern, r"[<\[{(]blank[>\]})]", "_{2,}"]), re.IGNORECASE
)
"""Blanks as models, other tools and exercises write them: <mask>, [blank], ____."""
MOST_READINGS = 64  # Of one text
PIECES_OF_WORD = 3  # The most tokens of a [WORD] that does not say
LONGEST_BLANK = 100_000  # Tokens; no model takes more


@dataclass(frozen=True)
class Blank:
    """A blank of a text.

    least, most   how many tokens it may take
    at_start      whether it begins the text
    after_space   whether it follows a space
    """

    kind: Literal["token", "word", "gap"]
    least: int
    most: int
    at_start: bool
    after_space: bool

    @property
    def lengths_in_words(self) -> str:
        """How many tokens it may take: 1 token, 3 tokens, or 1 to 3."""
        if self.least < self.most:
            return f"{self.least} to {self.most}"
        return "1 token" if self.most == 1 else f"{self.most} tokens"


@dataclass(frozen=True)
class TextReading:
    """A text with `lengths[b]` masks for blank b."""

    cloze: Cloze
    lengths: tuple[int, ...]

    def parts(self, tokens: Sequence[int]) -> list[tuple[int, ...]]:
        """The tokens of each blank. `tokens` has one for every mask of the cloze, in order."""
        parts = []
        start = 0
        for length in self.lengths:
            parts.append(tuple(tokens[start : start + length]))
            start += length
        return parts


def has_several_lengths(text: str) -> bool:
    """Whether a text has a [WORD] or a [GAP], even an unclosed one."""
    return re.search(r"\[WORD[:\]]|\[GAP\b", text) is not None


def read_blanks(tokenizer: TextTokenizer, text: str) -> list[Blank]:
    """The blanks of a text, in order."""
    blanks = [_blank_at(match, text) for match in _written_blanks(tokenizer, text)]
    if not blanks:
        raise InputError(no_blank(text, "[MASK], [WORD] or [GAP:2-5]"))
    _refuse_other_masks(tokenizer, text)
    return blanks


def _written_blanks(tokenizer: TextTokenizer, text: str) -> list[re.Match[str]]:
    """Where the blanks of a text are written."""
    mask = re.escape(tokenizer.mask_token)
    of_several_lengths = r"\[WORD\]|\[WORD:[^\]]*\]|\[GAP\b[^\]]*\]"
    return list(re.finditer(rf"\[MASK\]|{mask}|{of_several_lengths}", text))


def _blank_at(match: re.Match[str], text: str) -> Blank:
    """The blank that is written at `match`."""
    written = match[0]
    before = text[: match.start()]
    kind: Literal["token", "word", "gap"] = "token"
    least, most = 1, 1
    if written.startswith("[WORD"):
        _refuse_part_of_word(match, text)
        kind = "word"
        most = PIECES_OF_WORD
        if written != "[WORD]":
            least, most = _lengths(written)
    elif written.startswith("[GAP"):
        kind = "gap"
        least, most = _lengths(written)
    return Blank(
        kind=kind,
        least=least,
        most=most,
        at_start=not before.strip(),
        after_space=before[-1:].isspace(),
    )


def _refuse_part_of_word(match: re.Match[str], text: str) -> None:
    """Raise for a [WORD] beside a letter or digit, as in un[WORD]."""
    character_before = text[: match.start()][-1:]
    character_after = text[match.end() :][:1]
    for beside in (character_before, character_after):
        if not beside.isalnum():  # also "", at the start or end of the text
            continue
        is_wide = unicodedata.east_asian_width(beside) in ("W", "F")  # wide and full-width
        if is_wide:  # scripts of such characters write words without spaces
            continue
        raise InputError(
            f"[WORD] touches {beside!r} in {shortened(text)}, and is a whole word: put a space"
            " between, or use [MASK]"
        )


def _lengths(written: str) -> tuple[int, int]:
    """The fewest and the most tokens of a blank, such as [GAP:2-5] or [WORD:1-5]."""
    match = re.fullmatch(r"\[(?:GAP|WORD):\s*(\d+)\s*(?:-\s*(\d+)\s*)?\]", written)
    if match is None:
        raise _not_understood(written)
    digits_of_least = match[1]
    digits_of_most = match[2] or match[1]
    # before `int`, which raises for a number of more than 4,300 digits
    most_digits = max(len(digits_of_least), len(digits_of_most))
    if most_digits > len(str(LONGEST_BLANK)):
        raise InputError(
            f"the {_kind_of(written)} {written[:30]}... is too long: give at most"
            f" {LONGEST_BLANK:,} tokens"
        )
    least, most = int(digits_of_least), int(digits_of_most)
    if not 1 <= least <= most:
        raise _not_understood(written)
    return least, most


def _not_understood(written: str) -> InputError:
    if written.startswith("[WORD"):
        use = "write [WORD:1-5] for a word of one to five tokens, or [WORD]"
    else:
        use = "write [GAP:2-5] for two to five tokens, or [GAP:3] for three"
    return InputError(f"the {_kind_of(written)} {written} is not understood: {use}")


def _kind_of(written: str) -> str:
    """How a message calls a blank that is written so."""
    return "word" if written.startswith("[WORD") else "gap"


def readings_of(
    tokenizer: TextTokenizer, text: str, blanks: Sequence[Blank], max_length: int | None = None
) -> list[TextReading]:
    """The readings of a text. The first has the least length of every blank, and the length of
    the last blank changes fastest. Those too long for the model are left out, with a warning.
    """
    ways = prod(blank.most - blank.least + 1 for blank in blanks)
    if ways > MOST_READINGS:
        raise InputError(
            f"the lengths of the blanks combine in more than {MOST_READINGS} ways: narrow them"
        )
    refuse_hopeless(text, max_length)
    fewest = sum(blank.least for blank in blanks)
    longest = max_length or LONGEST_BLANK
    if fewest > longest:  # refused here, before texts with that many masks are tokenised
        raise InputError(
            f"the blanks alone have {fewest:,} tokens at their shortest and the model takes"
            f" {longest}: shorten the gap"
        )
    possible_lengths = [range(blank.least, blank.most + 1) for blank in blanks]
    combinations = product(*possible_lengths)
    readings = [reading_with(tokenizer, text, lengths) for lengths in combinations]
    if max_length is None:
        return readings
    fitting = [reading for reading in readings if len(reading.cloze.ids) <= max_length]
    if not fitting:
        raise InputError(
            f"with its blanks at their shortest the text has {len(readings[0].cloze.ids)} tokens"
            f" and the model takes {max_length}: shorten the text or the gap"
        )
    if len(fitting) < ways:
        logger.warning(
            "%d of %d lengths of the blanks are too long for the model and were left out",
            ways - len(fitting),
            ways,
        )
    return fitting


def reading_with(tokenizer: TextTokenizer, text: str, lengths: Sequence[int]) -> TextReading:
    """The text with `lengths[b]` masks for blank b."""
    masked = ""
    end = 0  # where the blank before this one ends in the text
    for match, length in zip(_written_blanks(tokenizer, text), lengths, strict=True):
        masked += text[end : match.start()] + BLANK * length
        end = match.end()
    masked += text[end:]
    ids = tokenizer.encode(masked)
    block = tuple(t for t, token in enumerate(ids) if token == tokenizer.mask_id)
    return TextReading(cloze_of_ids(ids, block), tuple(lengths))


def no_blank(text: str, forms: str = BLANK) -> str:
    """The message about a text without a blank; it names what was probably meant as one."""
    other = FOREIGN_BLANKS.search(text)
    if other:
        remedy = f"write {BLANK} instead of {other[0]!r}"
    else:
        remedy = f"put {forms} where a token should be modelled"
    return f"the text {shortened(text)} has no blank: {remedy}"


def _refuse_other_masks(tokenizer: TextTokenizer, text: str) -> None:
    """Raise if a text with blanks also has the mask of another model, which would be read as
    letters.
    """
    for match in MODEL_MASKS.finditer(text):
        if match[0] not in (BLANK, tokenizer.mask_token):
            raise InputError(
                f"the text {shortened(text)} has {match[0]!r} beside its blanks: write {BLANK} for"
                " every blank"
            )


def cloze_of(
    tokenizer: TextTokenizer,
    text: str,
    positions: Places | None = None,
    targets: Sequence[str] | None = None,
    max_length: int | None = None,
) -> Cloze:
    """The cloze of a text with blanks in it, or of a plain text whose tokens at `positions`
    become the blanks.

    positions   such as "2,5-7", or "all": tokens counted from 1, without the start tokens. The
                tokens that stood there are the gold
    targets     the words that fill the blanks of the text, one per blank: the gold. A word of m
                tokens turns its blank into m consecutive ones
    max_length  the most tokens that the model takes, if known
    """
    if has_several_lengths(text):
        raise InputError(
            f"the text {shortened(text)} has a [WORD] or [GAP], which fill alone takes: put a"
            " [MASK] for each token"
        )
    refuse_hopeless(text, max_length)
    ids = tokenizer.encode(text)
    tokenizer.refuse_unknown(text, ids)
    blanks = [t for t, token in enumerate(ids) if token == tokenizer.mask_id]
    if positions is not None:
        if blanks or targets is not None:
            also = "blanks in the text" if blanks else argument_name("targets")
            raise InputError(
                f"{shown(positions)} were given and {also} too",
                argument="positions",
                use="give one or the other",
            )
        refuse_too_long(len(ids), max_length)
        return _blanked_at(tokenizer, text, positions)
    if not blanks:
        raise InputError(no_blank(text))
    _refuse_other_masks(tokenizer, text)
    if targets is not None:
        words = _ids_of_targets(tokenizer, text, targets, len(blanks))
        cloze = _with_gold(ids, blanks, words)
    else:
        cloze = cloze_of_ids(ids, blanks)
    refuse_too_long(len(cloze.ids), max_length)
    return cloze


def _blanked_at(tokenizer: TextTokenizer, text: str, places: Places) -> Cloze:
    """The cloze whose blanks are the tokens at `places`; raises for a special token there."""
    tokens = tokenizer.tokens_of(text)
    start, stop = tokens.inside
    special = set(tokenizer.special_ids)
    positions: list[int] = []
    for place in counted_places(places, stop - start, "the text has tokens", "positions"):
        position = start + place - 1
        token = tokens.ids[position]
        if token in special:
            raise InputError(
                f"{place} is the special token {tokenizer.token(token)}",
                argument="positions",
                use="choose one of a word",
            )
        positions.append(position)
    return blanked(tokens.ids, positions, tokenizer.mask_id)


def _ids_of_targets(
    tokenizer: TextTokenizer, text: str, targets: Sequence[str], blanks: int
) -> list[list[int]]:
    """The ids of the target of each of the text's `blanks` blanks."""
    if len(targets) != blanks:
        noun = "blank" if blanks == 1 else "blanks"
        raise InputError(
            f"{len(targets)} targets for {blanks} {noun}: give one word per blank, which may be"
            " several tokens; to score alternatives, use"
            f" {argument_name('answers')} of fill"
        )
    empty = [number for number, target in enumerate(targets, 1) if not target.strip()]
    if empty:
        raise InputError(f"target {empty[0]} of {len(targets)} is empty: give one word per blank")
    return [
        tokenizer.encode_word(target, blank.at_start, blank.after_space)
        for target, blank in zip(targets, read_blanks(tokenizer, text), strict=True)
    ]


def _with_gold(ids: Sequence[int], blanks: Sequence[int], words: Sequence[Sequence[int]]) -> Cloze:
    """The cloze in which the blank at `blanks[b]` is as many blanks as `words[b]` has tokens,
    with these tokens as gold.
    """
    word_at = dict(zip(blanks, words, strict=True))
    widened: list[int] = []  # `ids` with each blank repeated
    block: list[int] = []  # positions of the blanks in `widened`
    for t, token in enumerate(ids):
        if t not in word_at:
            widened.append(token)
            continue
        start = len(widened)
        widened.extend([token] * len(word_at[t]))
        block.extend(range(start, len(widened)))
    gold = tuple(token for word in words for token in word)
    return cloze_of_ids(widened, block, gold)


def blanks_and_readings(
    tokenizer: TextTokenizer, text: str, positions: Places | None, max_length: int | None
) -> tuple[list[Blank], list[TextReading]]:
    """The blanks of a text and its readings: one reading, unless it has [WORD] or [GAP].

    positions   of a whole text: its tokens that become the blanks, as `cloze_of` takes them
    """
    if has_several_lengths(text):
        if positions is not None:
            raise InputError(
                "name tokens of a whole text, and this one has [WORD] or [GAP]",
                argument="positions",
                use="leave them out",
            )
        blanks = read_blanks(tokenizer, text)
        return blanks, readings_of(tokenizer, text, blanks, max_length)
    cloze = cloze_of(tokenizer, text, positions=positions, max_length=max_length)
    one_token_each = TextReading(cloze, (1,) * len(cloze.block))
    if positions is None:
        return read_blanks(tokenizer, text), [one_token_each]
    first = len(tokenizer.around()[0])  # the place of the text's first token
    blanks = []
    for place in cloze.block:
        begins_text = place == first
        blanks.append(
            Blank(
                kind="token",
                least=1,
                most=1,
                at_start=begins_text,
                after_space=not begins_text,
            )
        )
    return blanks, [one_token_each]
