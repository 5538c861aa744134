"""Texts as a person types them on the page, and as the model reads them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from typing_extensions import TypedDict

from unmask.common.errors import InputError
from unmask.models.masked_lm import MaskedLM
from unmask.models.text.blanks import read_blanks
from unmask.scoring.encoding import spaced_words

if TYPE_CHECKING:
    from unmask.models.text.text_tokenizer import Tokens

BLANKS_OF_VERBS = (r"\[MASK\]", r"\[WORD(?::[\d\s-]*)?\]", r"\[GAP:[\d\s-]*\]")
"""Patterns of the blanks that the verbs take, besides the model's own mask token."""
OTHER_BLANKS = ("<mask>", "_{2,}")
"""Patterns of blanks that the page alone takes; a question has [MASK] in their place."""
BLANKS_AS_TYPED = "|".join([*BLANKS_OF_VERBS, *OTHER_BLANKS])
EXTENTS = {"token": "one token", "word": "a whole word", "gap": "1 to 3 tokens"}
"""How many tokens the blanks of KINDS take."""
KINDS = [("token", "", "[MASK]"), ("word", "w", "[WORD]"), ("gap", "g", "[GAP:1-3]")]
"""Kinds of blanks: name, the letter in the page's address, and how a text has it."""
UNKNOWN = "The model does not know {words}, and reads the unknown token instead."
"""With words in quotes in the place of {words}."""


class Word(TypedDict):
    """A word of a text as the tokenizer cuts it, or a blank that was typed.

    text         its letters
    start, end   the characters of the text that it is: from `start` to before `end`
    pieces       how many tokens it is
    positions    where its tokens stand among those of the text, counted from 1. There are none if
                 a blank was typed anywhere in the text, since it is open how many tokens fill it;
                 and none if the tokenizer does not say which tokens a word has
    blank        the kind of a blank; None of a word
    extent       how many tokens a blank takes, in words; None of a word
    known        whether the model knows it
    label        what it is called: the word itself, or "residue 3, L", whose number counts the
                 residues as they were typed, a blank as one
    title        the label, and how many tokens it is, or that the model does not know it
    """

    text: str
    start: int
    end: int
    pieces: int
    positions: list[int]
    blank: str | None
    extent: str | None
    known: bool
    label: str
    title: str


class WordsAnswer(TypedDict):
    """A text as it is read, and its words.

    unknown   what happens to words that the model does not know, in a sentence with {words} in
              the place of their names
    """

    text: str
    words: list[Word]
    unknown: str


class Nouns(NamedTuple):
    """What a text and its units are called.

    by_character   whether the model reads single letters
    """

    text: str
    unit: str
    by_character: bool


SEQUENCE = Nouns(text="sequence", unit="residue", by_character=True)
SENTENCE = Nouns(text="sentence", unit="word", by_character=False)


def visible(token: str) -> str:
    """A token without spaces around it; a token of spaces alone as a sign for them."""
    return token.strip() or "␣"


def without_spaces(text: str) -> str:
    """A text without its spaces and ends of lines."""
    return "".join(text.split())


class TypedTexts:
    """Reads texts of the page for one model.

    blanks   a pattern of all blanks that can be typed
    """

    def __init__(self, model: MaskedLM) -> None:
        self.model = model
        self.blanks = re.compile(rf"{BLANKS_AS_TYPED}|{re.escape(model.words.mask_token)}")

    def words(self, text: str) -> WordsAnswer:
        """The words of a text as the tokenizer cuts it, how many tokens each is, and the blanks
        that were typed. `text` of the answer is the text as it is read, see `sequence`.
        """
        text = self.sequence(text)  # for a model of words, the text as it is
        words: list[Word] = []
        end = 0  # of the blank before
        for typed in self.blanks.finditer(text):
            words += self._words_between(text[end : typed.start()], end)
            words.append(self._blank(typed))
            end = typed.end()
        words += self._words_between(text[end:], end)
        has_blank = any(word["blank"] for word in words)
        for number, word in enumerate(words, 1):
            if has_blank:  # each stretch between blanks counts its tokens from 1: not the text's
                word["positions"] = []
            if self.model.words.by_character:
                word["label"] = f"{SEQUENCE.unit} {number}, {word['text']}"
            word["title"] = _title(word)
        return {"text": text, "words": words, "unknown": UNKNOWN}

    def sequence(self, text: str) -> str:
        """A text as a model of single letters reads it; any other text as it is.

        A header of FASTA and all spaces outside blanks are left out. If the model does not know one
        of the letters as it is written, all are read as capitals, except those of blanks. Two
        records of FASTA are refused, also if the first has no header: their letters would become
        one sequence.
        """
        if not self.model.words.by_character:
            return text
        stretches = [""]  # what stands before the first header, and after each header
        for line in text.splitlines(keepends=True):
            if line.startswith(">"):
                stretches.append("")
            else:
                stretches[-1] += line
        before_header, *records = stretches
        n_records = len(records)
        if before_header.strip() and "".join(records).strip():  # a record without a header, too
            n_records += 1
        if n_records > 1:
            raise InputError(
                f"the text has {n_records} records of FASTA, and is read as one sequence: give one"
                " of them here, or all as a list"
            )
        letters = self._outside_blanks("".join(stretches), without_spaces)
        if self._knows(letters):
            return letters
        return self._outside_blanks(letters, str.upper)

    def _knows(self, letters: str) -> bool:
        """Whether the model knows every letter, those of blanks aside."""
        between_blanks = self.blanks.sub("", letters)
        if not between_blanks:
            return True
        try:
            tokens = self.model.words.tokens_of(between_blanks)
        except InputError:  # a letter that is not in the alphabet of the model
            return False
        return self.model.words.unknown_id not in tokens.ids

    def _outside_blanks(self, text: str, change: Callable[[str], str]) -> str:
        """The text with every stretch outside its blanks changed, and the blanks as typed."""
        changed = ""
        end = 0  # of the blank before
        for typed in self.blanks.finditer(text):
            changed += change(text[end : typed.start()]) + typed[0]
            end = typed.end()
        return changed + change(text[end:])

    # ---- blanks ----

    def _blank(self, typed: re.Match[str]) -> Word:
        """A blank that was typed."""
        kind, extent = self._kind_and_extent(typed[0])
        return Word(
            text=typed[0],
            start=typed.start(),
            end=typed.end(),
            pieces=1,
            positions=[],
            blank=kind,
            extent=extent,
            known=True,
            label=typed[0],
            title="",
        )

    def _kind_and_extent(self, typed: str) -> tuple[str, str]:
        """The kind of a blank, and how many tokens it takes, in words."""
        if not typed.startswith(("[WORD", "[GAP")):
            return "token", EXTENTS["token"]
        if typed == "[WORD]":
            return "word", EXTENTS["word"]
        kind = "word" if typed.startswith("[WORD") else "gap"
        try:
            (blank,) = read_blanks(self.model.words, typed)
        except InputError:  # such as [GAP:5-2]: the verb says why it is refused
            return kind, f"a {kind}"
        extent = blank.lengths_in_words  # "3 tokens", or of several lengths "1 to 3"
        if blank.least < blank.most:
            extent += " tokens"
        if kind == "word":
            extent = f"a word of {extent}"
        return kind, extent

    # ---- words ----

    def _words_between(self, text: str, offset: int) -> list[Word]:
        """The words of the text between two blanks, without those of spaces alone.

        offset   how many characters stand before it in the whole text
        """
        if not text.strip():
            return []
        tokens = self.model.words.tokens_of(text)
        places_of_words = by_word(tokens)
        if not places_of_words:
            return [self._unplaced(text, span, offset) for span in spaced_words(text)]
        first = tokens.inside[0]  # special tokens stand before it, and are not counted
        words: list[Word] = []
        for places in places_of_words:
            start = tokens.spans[places[0]][0]
            end = tokens.spans[places[-1]][1]
            if not text[start:end].strip():  # some tokenizers make words of spaces alone
                continue
            positions = [place - first + 1 for place in places]
            ids = [tokens.ids[place] for place in places]
            words.append(self._word(text[start:end], offset + end, ids, positions))
        return words

    def _unplaced(self, text: str, span: tuple[int, int], offset: int) -> Word:
        """A word between spaces, by a tokenizer that does not say which tokens a word has: they
        are those of the word alone.
        """
        start, end = span
        alone = self.model.words.tokens_of(text[start:end])
        first, end_of_word = alone.inside  # special tokens stand before and after it
        ids = alone.ids[first:end_of_word]
        return self._word(text[start:end], offset + end, ids, [])

    def _word(self, written: str, end: int, ids: Sequence[int], positions: list[int]) -> Word:
        """A word of some tokens.

        written   its letters, after the space that some tokenizers count to a word
        end       the character of the whole text before which it ends
        ids       its tokens
        """
        letters = written.lstrip()
        return Word(
            text=letters,
            start=end - len(letters),
            end=end,
            pieces=max(1, len(ids)),  # none of signs that the tokenizer drops
            positions=positions,
            blank=None,
            extent=None,
            known=self.model.words.unknown_id not in ids,
            label=letters,
            title="",
        )


def _title(word: Word) -> str:
    """What a word is called, and how many tokens it is if not one."""
    if not word["known"]:
        return f"{word['label']}: the model does not know it"
    if word["pieces"] > 1:
        return f"{word['label']} ({word['pieces']} tokens)"
    return word["label"]


def by_word(tokens: Tokens) -> list[list[int]]:
    """The places of the tokens of each word, without tokens that have no character of the text.

    There are none if the tokenizer does not say which letters a token has.
    """
    words: dict[int, list[int]] = {}
    for place, number in enumerate(tokens.words):
        start, end = tokens.spans[place]
        has_characters = end > start
        if number is not None and has_characters:
            words.setdefault(number, []).append(place)
    return list(words.values())
