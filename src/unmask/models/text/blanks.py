"""Blanks of one token, of a whole word, or of several tokens, and the ways to read a text that
has them.

    [MASK]       one token
    [WORD]       one whole word of 1 to `pieces` tokens, by the tokenizer's own marking
    [GAP:2-5]    any two to five tokens; [GAP:3] any three

A reading fixes the number of tokens of every blank: a text with as many masks. All readings of
a text together are the product of its blanks' lengths. A cloze (`cloze_of`) has blanks of one
token each; words that are known to be there are never cut.

Tokenizers mark which tokens begin a word and which go on with it (`WordMarks`):

    WordPiece            "##lin" goes on with a word; every other token begins one
    byte-level BPE       "Ġvio" begins a word after a space, "lin" goes on with it (or begins
                         one without a space before it)
    SentencePiece        the same with "▁"

A word is made of letters, digits and combining marks. Punctuation has no mark in the last two,
and is a token like others in the first, so it is recognised by its characters.
"""

from __future__ import annotations

import logging
import os
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch
from jaxtyping import Bool
from torch import Tensor

from unmask.common.checks import wholes
from unmask.common.cloze import Cloze, blanked
from unmask.common.errors import InputError
from unmask.models.text.text_tokenizer import (
    BLANK,
    TextTokenizer,
    refuse_hopeless,
    refuse_too_long,
    shortened,
)

if TYPE_CHECKING:
    from unmask.models.masked_lm import MaskedLM

logger = logging.getLogger(__name__)
CONTINUED = "##"
Alphabet = str | os.PathLike[str] | Sequence[str] | None
WORD = "[WORD]"
MASKS = re.compile(r"<mask>|\[mask\]|\{mask\}|<extra_id_\d+>", re.IGNORECASE)
OTHERS = re.compile(rf"{MASKS.pattern}|[<\[{{(]blank[>\]}})]|_{{2,}}", re.IGNORECASE)
"""Blanks as other tools, and exercises, write them."""
MOST_READINGS = 64
LONGEST_GAP = 100_000  # Tokens; no model takes more


@dataclass(frozen=True)
class Blank:
    """A blank of a text: its kind, how many tokens it may take, and whether it begins the text
    or follows a space.
    """

    kind: Literal["token", "word", "gap"]
    least: int
    most: int
    at_start: bool
    after_space: bool


@dataclass(frozen=True)
class TextReading:
    """A text with `lengths[b]` masks for blank b."""

    cloze: Cloze
    lengths: tuple[int, ...]

    def parts(self, tokens: Sequence[int]) -> list[tuple[int, ...]]:
        """The tokens of each blank, from those of the whole block."""
        ends = [sum(self.lengths[: b + 1]) for b in range(len(self.lengths))]
        return [
            tuple(tokens[end - length : end])
            for end, length in zip(ends, self.lengths, strict=True)
        ]


def has_several_lengths(text: str) -> bool:
    """Whether a text has a [WORD] or a [GAP]."""
    return re.search(r"\[WORD\]|\[GAP\b", text) is not None


def read_blanks(words: TextTokenizer, text: str, pieces: int = 3) -> list[Blank]:
    """The blanks of a text, in order. `pieces`: the most tokens of a [WORD]."""
    blanks = []
    for match in _blanks(words, text):
        before, after = text[: match.start()], text[match.end() :]
        where = (not before.strip(), before[-1:].isspace())
        if match[0] == WORD:
            for beside in (before[-1:], after[:1]):
                if (
                    beside.isalnum() and unicodedata.east_asian_width(beside) not in "WF"
                ):  # these scripts have no spaces
                    whole = "and is a whole word: put a space between, or use [MASK]"
                    raise InputError(f"[WORD] touches {beside!r} in {shortened(text)}, {whole}")
            blanks.append(Blank("word", 1, pieces, *where))
        else:
            gap = match[0].startswith("[GAP")
            blanks.append(
                Blank("gap", *_gap(match[0]), *where) if gap else Blank("token", 1, 1, *where)
            )
    if not blanks:
        raise InputError(no_blank(text, "[MASK], [WORD] or [GAP:2-5]"))
    _refuse_other_masks(words, text)
    return blanks


def readings_of(
    words: TextTokenizer, text: str, blanks: Sequence[Blank], max_length: int | None = None
) -> list[TextReading]:
    """The readings of a text, the shortest first; those too long for the model are left out,
    with a warning.
    """
    ways = prod(blank.most - blank.least + 1 for blank in blanks)
    if ways > MOST_READINGS:
        raise InputError(
            f"the lengths of the blanks combine in more than {MOST_READINGS} ways: narrow them"
        )
    refuse_hopeless(text, max_length)
    fewest = sum(blank.least for blank in blanks)
    if fewest > (max_length or LONGEST_GAP):
        raise InputError(
            f"the blanks alone have {fewest:,} tokens at their shortest and the model takes"
            f" {max_length or LONGEST_GAP}: shorten the gap"
        )
    readings = [
        reading_with(words, text, n)
        for n in product(*[range(blank.least, blank.most + 1) for blank in blanks])
    ]
    fitting = [
        reading
        for reading in readings
        if max_length is None or len(reading.cloze.ids) <= max_length
    ]
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


def reading_with(words: TextTokenizer, text: str, lengths: Sequence[int]) -> TextReading:
    """The text with `lengths[b]` masks for blank b."""
    masked, end = "", 0
    for match, length in zip(_blanks(words, text), lengths, strict=True):
        masked, end = masked + text[end : match.start()] + BLANK * length, match.end()
    ids = words.encode(masked + text[end:])
    return TextReading(
        Cloze(tuple(ids), tuple(t for t, token in enumerate(ids) if token == words.mask_id)),
        tuple(lengths),
    )


def no_blank(text: str, forms: str = BLANK) -> str:
    """The message about a text without a blank; it names what was probably meant as one."""
    other = OTHERS.search(text)
    remedy = (
        f"write {BLANK} instead of {other[0]!r}"
        if other
        else f"put {forms} where a token should be modelled"
    )
    return f"the text {shortened(text)} has no blank: {remedy}"


def _refuse_other_masks(words: TextTokenizer, text: str) -> None:
    """Raise if a text with blanks also has the mask of another model, which would be read as
    letters.
    """
    for match in MASKS.finditer(text):
        if match[0] not in (BLANK, words.mask_token):
            raise InputError(
                f"the text {shortened(text)} has {match[0]!r} beside its blanks: write {BLANK} for"
                " every blank"
            )


def _blanks(words: TextTokenizer, text: str) -> list[re.Match[str]]:
    mask = re.escape(words.mask_token)
    return list(re.finditer(rf"\[MASK\]|{mask}|\[WORD\]|\[GAP\b[^\]]*\]", text))


def _gap(written: str) -> tuple[int, int]:
    match = re.fullmatch(r"\[GAP:\s*(\d+)\s*(?:-\s*(\d+)\s*)?\]", written)
    if match and max(len(digits or "") for digits in match.groups()) > len(str(LONGEST_GAP)):
        raise InputError(
            f"the gap {written[:30]}... is too long: give at most {LONGEST_GAP:,} tokens"
        )
    least, most = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 1 <= least <= most:
        raise InputError(
            f"the gap {written} is not understood: write [GAP:2-5] for two to five tokens, or"
            " [GAP:3] for three"
        )
    return least, most


def cloze_of(
    words: TextTokenizer,
    text: str,
    positions: Sequence[int] | None = None,
    targets: Sequence[str] | None = None,
    max_length: int | None = None,
) -> Cloze:
    """The cloze of a text with blanks in it, or of a plain text whose tokens at `positions`
    become the blanks.

    With blanks, `targets` may name the words that are there, one per blank, as gold; a word of
    m tokens turns its blank into m consecutive ones. With positions (in tokens, the start token
    being 0), the tokens that stood there are the gold.
    """
    if has_several_lengths(text):
        raise InputError(
            f"the text {shortened(text)} has a [WORD] or [GAP], which fill alone takes: put a"
            " [MASK] for each token"
        )
    refuse_hopeless(text, max_length)
    ids = words.encode(text)
    words.refuse_unknown(text, ids)
    blanks = [t for t, token in enumerate(ids) if token == words.mask_id]
    if positions is not None:
        if blanks or targets is not None:
            also = "blanks in the text" if blanks else "targets"
            raise InputError(
                f"positions {list(positions)} were given and {also} too: give one or the other"
            )
        refuse_too_long(len(ids), max_length)
        special, positions = set(words.special_ids), wholes("positions", positions)
        for position in positions:
            if not 0 <= position < len(ids):
                numbered = f"its {len(ids)} tokens are numbered 0 to {len(ids) - 1}"
                raise InputError(f"position {position} is outside the text: {numbered}")
            if ids[position] in special:
                raise InputError(
                    f"position {position} is the special token {words.token(ids[position])}: choose"
                    " one of a word"
                )
        return blanked(ids, positions, words.mask_id)
    if not blanks:
        raise InputError(no_blank(text))
    _refuse_other_masks(words, text)
    if targets is None:
        refuse_too_long(len(ids), max_length)
        return Cloze(tuple(ids), tuple(blanks))
    filling = _filling(words, text, targets, len(blanks))
    copies = {blank: len(word) for blank, word in zip(blanks, filling, strict=True)}
    widened = [token for t, token in enumerate(ids) for _ in range(copies.get(t, 1))]
    refuse_too_long(len(widened), max_length)
    block = [t for t, token in enumerate(widened) if token == words.mask_id]
    return Cloze(tuple(widened), tuple(block), tuple(i for word in filling for i in word))


def _filling(
    words: TextTokenizer, text: str, targets: Sequence[str], blanks: int
) -> list[list[int]]:
    """For each blank of the text the ids that go there."""
    if len(targets) != blanks:
        raise InputError(
            f"{len(targets)} targets for {blanks} {'blank' if blanks == 1 else 'blanks'}: give one"
            " word per blank, which may be several tokens; to score alternatives, use answers of"
            " fill"
        )
    empty = [number for number, target in enumerate(targets, 1) if not target.strip()]
    if empty:
        raise InputError(f"target {empty[0]} of {len(targets)} is empty: give one word per blank")
    read = zip(targets, read_blanks(words, text), strict=True)
    return [words.encode_word(target, blank.at_start, blank.after_space) for target, blank in read]


class WordMarks:
    """The marking of a tokenizer's words; raises if there is no known marking."""

    def __init__(self, words: TextTokenizer, vocab_size: int) -> None:
        self.words = words
        self.vocab_size = vocab_size
        self.space = "" if not words.spaces_in_tokens else "Ġ" if words.byte_level else "▁"
        continued = any(
            token.startswith(CONTINUED) and len(token) > 2 for token in words.regular_tokens
        )
        if words.by_character or not (self.space or continued):
            raise InputError(
                "this model's tokenizer does not mark where a word begins (no '##', 'Ġ' or '▁' in"
                " its tokens): use [MASK] for one token, or [GAP:1-3] for one to three"
            )

    def beginning(self, at_start: bool, after_space: bool) -> Bool[Tensor, " V"]:
        """The tokens that begin a word at the start of a text, after a space, or right after
        punctuation.
        """
        mark = self.space if after_space else ""
        if at_start:
            first = self.words.tokenizer("a", add_special_tokens=False)["input_ids"][0]
            mark = self.space if self.space and self._token(first).startswith(self.space) else ""
        return self._pieces[mark]

    @property
    def continuing(self) -> Bool[Tensor, " V"]:
        """The tokens that go on with a word."""
        return self._pieces["" if self.space else CONTINUED]

    def spelled(self, ids: Sequence[int]) -> str:
        """The word that pieces spell, without its marks; "" if they do not spell one."""
        if self.space:
            text = str(
                self.words.tokenizer.decode(list(ids), clean_up_tokenization_spaces=False)
            ).strip()
        else:
            text = "".join(self._token(i).removeprefix(CONTINUED) for i in ids)
        return text if is_word(text) else ""

    def is_canonical(self, ids: Sequence[int], at_start: bool, after_space: bool) -> bool:
        """Whether the pieces spell a word, and do so as the tokenizer itself would."""
        word = self.spelled(ids)
        try:
            return bool(word) and self.words.encode_word(word, at_start, after_space) == list(ids)
        except InputError:
            return False

    @cached_property
    def _pieces(self) -> dict[str, Tensor]:
        """For each mark that a piece of a word can have at its front ("" for none), which
        tokens have it.
        """
        mark = self.space or CONTINUED
        marked = {m: torch.zeros(self.vocab_size, dtype=torch.bool) for m in ("", mark)}
        for token, number in self.words.regular_tokens.items():
            inside = token.removeprefix(mark)
            if token == self.space or self._is_piece(inside, number):
                marked[mark if token.startswith(mark) else ""][number] = True
        return marked

    def _is_piece(self, inside: str, number: int) -> bool:
        """Whether a token without its mark can be part of a word; some of a byte-level
        vocabulary are parts of a letter.
        """
        if self.space != "Ġ" or inside.isascii():
            return is_word(inside)
        text = str(
            self.words.tokenizer.decode([number], clean_up_tokenization_spaces=False)
        ).strip()
        return "\ufffd" in text or is_word(text)

    def _token(self, number: int) -> str:
        return str(self.words.tokenizer.convert_ids_to_tokens(int(number)))


def is_word(text: str) -> bool:
    """Whether a text is made of letters, digits and combining marks only, and of one at least."""
    return bool(text) and all(c.isalnum() or unicodedata.category(c).startswith("M") for c in text)


def alphabet_tokens(alphabet: str | os.PathLike[str] | Sequence[str]) -> tuple[str, ...]:
    """The tokens that an alphabet names, each once, in the order given."""
    if isinstance(alphabet, str | os.PathLike):
        words = [word for word in re.split(r"[,\s]+", _content(alphabet)) if word]
        tokens = list(words[0]) if len(words) == 1 else words
    else:
        tokens = (
            [str(token).strip() for token in alphabet] if isinstance(alphabet, Iterable) else []
        )
    named = tuple(dict.fromkeys(token for token in tokens if token))
    if not named:
        raise InputError(
            f"alphabet {alphabet!r} names no token: give letters, words with commas between them,"
            " or a file"
        )
    return named


def alphabet_ids(words: TextTokenizer, tokens: Sequence[str], name: str = "alphabet") -> list[int]:
    """The ids of the tokens; both, if a token can be spelled with and without a space before it.

    Raises for one that is not a single token of the model, under the argument's `name`.
    """
    numbers: dict[int, None] = {}
    for token in tokens:
        try:
            spellings = [
                words.encode_word(token, *where)
                for where in ((True, False), (False, True), (False, False))
            ]
        except InputError:
            raise InputError(
                f"{name}: {token!r} is not a word of the model: leave it out (no file was found"
                " either)"
            ) from None
        single = [ids[0] for ids in spellings if len(ids) == 1]
        if not single:
            raise InputError(
                f"{name}: {token!r} is {len(spellings[0])} tokens of the model, and one is needed:"
                " leave it out"
            )
        numbers.update(dict.fromkeys(single))
    return list(numbers)


def _content(alphabet: str | os.PathLike[str]) -> str:
    path = Path(os.path.expanduser(os.fsdecode(alphabet)))
    try:
        if isinstance(alphabet, str) and not os.path.isfile(path):
            return alphabet
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"alphabet file {str(path)!r} is not UTF-8 text: convert it") from None
    except (OSError, ValueError) as error:
        raise InputError(
            f"alphabet file {str(path)!r} cannot be read ({error}): check the path"
        ) from None


def letter_ids(model: MaskedLM, alphabet: Alphabet) -> list[int] | None:
    """Ids of the tokens that an alphabet names; None without one."""
    return None if alphabet is None else alphabet_ids(model.words, alphabet_tokens(alphabet))
