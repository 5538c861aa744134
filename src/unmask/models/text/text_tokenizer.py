"""From text to token ids and back, by a Hugging Face tokenizer with five rules on top:

- `[MASK]` means the model's own mask token.
- A space before a blank belongs to the token that fills it, if tokens carry their space ("Ġthe",
  "▁the").
- A vocabulary whose regular tokens are all single characters (amino acids) is read character by
  character. Names in brackets, such as "<null_1>", do not count as regular here. A character
  outside the vocabulary is refused: a text of unknowns would be scored without a warning.
- Control characters are refused: tokenizers drop them silently, and positions would shift.
- A warning names words that the model reads as its unknown token. A cloze of nothing else is
  refused.

Other rooms ask `TextTokenizer` only, never the tokenizer below it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import permutations
from typing import Any, NamedTuple

from tokenizers import Encoding, Tokenizer

from unmask.common.errors import InputError
from unmask.common.files import first_line
from unmask.common.warn import warn
from unmask.models.text.folder_tokenizer import core_of
from unmask.models.text.vocabulary import CONTINUES, are_letters

BLANK = "[MASK]"
SHOWN = 5  # Unknown words in a warning, and tokens of the model in an error
MOST_NAMED = 50  # Unknown words that all warnings together name
JOINED_TRIED = 4  # Tokens that `joined` writes side by side without a space, in all pairs
SAMPLE_LENGTH = 200  # Characters of the text that is read in upper and in lower case
SHOWN_LENGTH = 60  # Characters of a text in a message
UNREADABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters, except tab and line ends, and halves of surrogate pairs."""
REPLACEMENT = "\ufffd"
"""Stands for bytes that are no whole character where a tokenizer decodes them."""
UNUSED = re.compile(r"[\[<]unused_?\d+[\]>]", re.IGNORECASE)
"""Tokens that no text has: [unused12] of BERT, or those with which `mask_token` fills the ids
up to a given mask.
"""
LONGEST_UNBROKEN = 100_000
"""Most characters without a space between them. The longest protein has fewer, and so has any
text that a model can take in a script that writes no spaces.
"""
CHARACTERS_PER_TOKEN = 1_000  # No text that a model can take has more on average


class WordsAndSpans(NamedTuple):
    """Stands in for an `Encoding` where the words and spans do not come from the library
    `tokenizers`. Its fields have the names that they have there.
    """

    word_ids: Sequence[int | None]
    offsets: Sequence[tuple[int, int]]


class Tokens(NamedTuple):
    """The tokens of a text, start and end tokens included.

    inside   first position that is not a start token, and first end token
    source   has the words and spans; an `Encoding` computes them when they are asked for
    """

    ids: tuple[int, ...]
    inside: tuple[int, int]
    source: Encoding | WordsAndSpans

    @property
    def words(self) -> Sequence[int | None]:
        """Number of the tokenizer's word that each token is in, None for start and end tokens."""
        return self.source.word_ids

    @property
    def spans(self) -> Sequence[tuple[int, int]]:
        """Places in the text, in characters; (0, 0) for start and end tokens, and for all if
        the tokenizer does not know them.
        """
        return self.source.offsets


class TextTokenizer:
    """A Hugging Face tokenizer with the rules that a cloze needs.

    tokenizer       the Hugging Face tokenizer
    core            the tokenizer of the library `tokenizers` that does its work; None for one
                    that is written in Python
    size            number of its tokens
    special_ids     ids below `vocab_size`, the width of the model's logits, that no text has:
                    special, unused and nameless ones
    nameless        ids of logits for which the tokenizer has no token
    regular_tokens  the other tokens and their ids, in the order of the ids
    by_character    whether every regular token is one character
    """

    def __init__(self, tokenizer: Any, vocab_size: int) -> None:
        self.tokenizer = tokenizer
        self.core: Tokenizer | None = core_of(tokenizer)
        if self.core is not None:
            self.core.no_truncation()
            self.core.no_padding()
        self.mask_id: int = tokenizer.mask_token_id
        self.mask_token: str = str(tokenizer.mask_token)
        self.unknown_id: int | None = tokenizer.unk_token_id
        by_id = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
        vocabulary: dict[str, int] = dict(by_id)
        self.size: int = len(vocabulary)
        unused = {i for token, i in vocabulary.items() if UNUSED.fullmatch(token)}
        # of all tokens of the tokenizer, also those beyond `vocab_size`
        self._special_or_unused = set(tokenizer.all_special_ids) | self._marked_special() | unused
        self.special_tokens: tuple[str, ...] = tuple(
            str(token) for token in tokenizer.all_special_tokens
        )
        self.nameless: set[int] = set(range(vocab_size)) - set(vocabulary.values())
        without_text = self._special_or_unused | self.nameless
        self.special_ids: tuple[int, ...] = tuple(sorted(i for i in without_text if i < vocab_size))
        self.regular_tokens: dict[str, int] = {
            token: i for token, i in vocabulary.items() if i not in self._special_or_unused
        }
        self.by_character: bool = are_letters(self.regular_tokens)
        self._already_named: set[str] = set()  # unknown words in earlier warnings
        # how many start and end tokens a text has, once a text has shown it
        self._ends: tuple[int, int] | None = None

    def _marked_special(self) -> set[int]:
        """Ids that tokenizer.json marks as special tokens, also those without a name."""
        if self.core is None:
            return set()
        added = self.core.get_added_tokens_decoder()
        return {i for i, token in added.items() if token.special}

    def encode(self, text: str) -> list[int]:
        """Ids of the whole text, the model's start and end tokens included; warns of words that
        the model does not know.
        """
        prepared = self.prepared(text)
        with read_by_tokenizer(shortened(text)):
            ids = list(self.tokenizer(prepared, verbose=False)["input_ids"])
        self.warn_of_unknown(prepared, ids)
        return ids

    def warn_of_unknown(self, prepared: str, ids: Sequence[int]) -> None:
        """Warn of words that are read as the unknown token, each once.

        A tokenizer that does not know where its tokens lie names their number instead.
        """
        if self.unknown_id not in ids or len(self._already_named) >= MOST_NAMED:
            return
        unknown_token = self.tokenizer.unk_token
        not_to_name = {"", unknown_token, *self._already_named}  # "" is of a token without a place
        read_as_unknown = self._read_as_unknown(prepared, ids)
        unknown = [word for word in read_as_unknown if word not in not_to_name]
        if not unknown:
            return
        self._already_named.update(unknown)
        first_ones = dict.fromkeys(unknown[:SHOWN])  # each once
        shown = ", ".join(shortened(word) for word in first_ones)
        if len(unknown) > SHOWN:
            shown += ", ..."
        warn(f"the model does not know {shown} and reads {unknown_token} instead")

    def _read_as_unknown(self, prepared: str, ids: Sequence[int]) -> list[str]:
        """The words of a prepared text that are read as the unknown token, or one phrase with
        their number if the tokenizer does not know where they lie.
        """
        spans = self.spans(prepared)
        if not spans:
            return [f"{ids.count(self.unknown_id)} of its words"]
        return [
            prepared[start:stop]
            for (start, stop), i in zip(spans, ids, strict=False)
            if i == self.unknown_id
        ]

    def spans(self, text: str) -> list[tuple[int, int]] | None:
        """Start and end of each token in a prepared text; None for a tokenizer that does not
        know them.
        """
        return None if self.core is None else list(self.core.encode(text).offsets)

    def tokens_of(self, text: str) -> Tokens:
        """The tokens of a text."""
        return self._tokens_of_all([text])[0]

    def tokens_of_each(self, texts: Sequence[str]) -> list[Tokens | InputError]:
        """The tokens of every text, or the error of one that cannot be read."""
        if len(texts) == 1:
            return [self._tokens_or_error(texts[0])]
        with suppress(InputError):  # at least one cannot be read: each is read by itself below
            return list(self._tokens_of_all(texts))
        return [self._tokens_or_error(text) for text in texts]

    def _tokens_or_error(self, text: str) -> Tokens | InputError:
        try:
            return self.tokens_of(text)
        except InputError as error:
            return error

    def _tokens_of_all(self, texts: Sequence[str]) -> list[Tokens]:
        """The tokens of every text; raises if one of them cannot be read."""
        if self.core is None:
            tokens = [self._tokens_in_python(text) for text in texts]
        else:
            prepared = [self.prepared(text) for text in texts]
            first = prepared[0] if prepared else ""  # stands for all in an error
            with read_by_tokenizer(shortened(first)):
                tokens = [self._tokens(encoding) for encoding in self.core.encode_batch(prepared)]
        if not self.by_character:
            return tokens
        return [self._by_letter(text, of_text) for text, of_text in zip(texts, tokens, strict=True)]

    def _tokens(self, encoding: Encoding) -> Tokens:
        """The tokens of a text that the library `tokenizers` has read."""
        ids = tuple(encoding.ids)
        if self._ends is None:
            self._ends = self._ends_in(encoding)
        if self._ends is None:  # still unknown: the text has no token of its own
            return Tokens(ids, (len(ids), len(ids)), encoding)
        before, after = self._ends
        return Tokens(ids, (before, len(ids) - after), encoding)

    @staticmethod
    def _ends_in(encoding: Encoding) -> tuple[int, int] | None:
        """How many start and end tokens a text has; None if it has no other token.

        A text's own tokens are in a word, and its start and end tokens are in none.
        """
        in_words = [t for t, word in enumerate(encoding.word_ids) if word is not None]
        if not in_words:
            return None
        last = len(encoding.ids) - 1
        return in_words[0], last - in_words[-1]

    def _tokens_in_python(self, text: str) -> Tokens:
        """The tokens by a tokenizer that does not know their spans."""
        ids = self.encode(text)
        before, after = self.around()
        start = len(before)
        stop = len(ids) - len(after)
        # each token is a word by itself, with its position for a number
        words = [t if start <= t < stop else None for t in range(len(ids))]
        unknown_spans = [(0, 0)] * len(ids)
        return Tokens(tuple(ids), (start, stop), WordsAndSpans(words, unknown_spans))

    def around(self) -> tuple[list[int], list[int]]:
        """The special ids before and after a text, here one of a single mask."""
        ids = list(self.tokenizer(self.mask_token, verbose=False)["input_ids"])
        place = ids.index(self.mask_id)
        before = [i for i in ids[:place] if i in self._special_or_unused]
        after = [i for i in ids[place + 1 :] if i in self._special_or_unused]
        return before, after

    def refuse_unknown(self, text: str, ids: Sequence[int]) -> None:
        """Raise for a text of which the model knows no word at all."""
        if self.unknown_id not in ids:
            return
        known = set(ids) - set(self.special_ids)  # the unknown id is among the special ones
        if known:
            return
        first_tokens = list(self.regular_tokens)[:SHOWN]
        examples = ", ".join(repr(token) for token in first_tokens)
        raise InputError(
            f"all words of {shortened(text)} are unknown to the model, whose tokens look like"
            f" {examples}: write it in them"
        )

    def prepared(self, text: str) -> str:
        """The text as the tokenizer needs it: checked, with the model's mask tokens, single
        characters apart.
        """
        refuse_unreadable(text)
        if self.by_character:
            return self._spread(text)
        text = text.replace(BLANK, self.mask_token)
        if self.spaces_in_tokens:  # a space before a blank belongs to the token that fills it
            text = re.sub(r"\s+(?=" + re.escape(self.mask_token) + ")", "", text)
        return text

    def encode_word(self, word: str, at_start: bool, after_space: bool) -> list[int]:
        """Ids of a word that fills a blank at the start of a text, after a space, or right
        after another token.
        """
        refuse_unreadable(word)
        if word.startswith(CONTINUES) and word in self.regular_tokens:
            return [self.regular_tokens[word]]
        word = word.strip()
        if self.by_character:
            ids = self._ids(self._spread(word))
        elif at_start:
            ids = self._ids(word)
        else:
            ids = self._ids_after_comma(word, ", " if after_space else ",")
        special = set(self.special_ids)
        if not ids or any(i in special for i in ids):
            shown = " ".join(self.token(i) for i in ids) or "nothing"
            raise InputError(
                f"{word!r} is {shown} to this model, which is not a word of it: choose another word"
            )
        return ids

    def _ids_after_comma(self, word: str, comma: str) -> list[int]:
        """Ids of a word inside a text, read after a comma: "," or, with a space, ", ".

        The word alone is read as at the start of a text, where SentencePiece puts a space before
        it ("▁cat"). Its ids are returned only if the comma does not stay a token by itself.
        """
        ids_of_comma = self._ids(",")
        ids = self._ids(comma + word)
        if ids[: len(ids_of_comma)] != ids_of_comma:
            return self._ids(word)
        return ids[len(ids_of_comma) :]

    def token(self, token_id: int) -> str:
        """Readable text of one token: " the" for "Ġthe" and "▁the", "##ing" as it is."""
        token = self.tokenizer.convert_ids_to_tokens(token_id)
        if token is None:
            return f"[{token_id}]"
        if token_id in self._special_or_unused:
            return BLANK if token_id == self.mask_id else str(token)
        if self.byte_level:
            text = str(self.tokenizer.decode([token_id], clean_up_tokenization_spaces=False))
            return str(token) if REPLACEMENT in text else text
        return str(token).replace("▁", " ")

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Readable text of each token."""
        return [self.token(i) for i in ids]

    def text(self, ids: Sequence[int]) -> str:
        """The sentence that `ids` spell, without start, end and padding tokens; a blank shows
        as [MASK].
        """
        tokenizer = self.tokenizer
        around = {
            tokenizer.cls_token_id,
            tokenizer.bos_token_id,
            tokenizer.sep_token_id,
            tokenizer.eos_token_id,
            tokenizer.pad_token_id,
        }
        around.discard(None)
        inside = list(ids)
        while inside and inside[0] in around:
            inside.pop(0)
        while inside and inside[-1] in around:
            inside.pop()
        if self.by_character or self.joined:
            return "".join(self.token(i) for i in inside)
        # only tokens that do not carry their spaces get one before punctuation, to be removed
        clean_up = not self.spaces_in_tokens
        text = str(tokenizer.decode(inside, clean_up_tokenization_spaces=clean_up))
        return text.replace(tokenizer.mask_token, BLANK).strip()

    @cached_property
    def kind(self) -> str:
        """A description of the tokens."""
        if self.by_character:
            return "letters"
        all_single = all(len(token) == 1 for token in self.regular_tokens)
        if all_single and len(self.regular_tokens) == 256:  # one is a space: no letters (Perceiver)
            return "bytes"
        if self.byte_level:
            return "byte-level pieces"
        if self.spaces_in_tokens:
            return "pieces that carry their space"
        if self.joined:
            return "tokens cut by a regular expression"
        if any(token.startswith(CONTINUES) for token in self.regular_tokens):
            return "word pieces"
        return "whole words"

    @cached_property
    def cased(self) -> bool:
        """Whether upper and lower case differ."""
        in_letters = [token for token in self.regular_tokens if token.isalpha() and token.isascii()]
        sample = " ".join(in_letters)[:SAMPLE_LENGTH] or "a"
        return self._ids(sample.upper()) != self._ids(sample.lower())

    @cached_property
    def joined(self) -> bool:
        """Whether neighbouring tokens of a text need no space between them, as for tokens cut
        by a regular expression.
        """
        if self.core is None or type(self.core.model).__name__ != "WordLevel":
            return False
        if self.core.decoder is not None:  # without one, tokens are decoded with spaces between
            return False
        alphanumeric = [(token, i) for token, i in self.regular_tokens.items() if token.isalnum()]
        examples = alphanumeric[:JOINED_TRIED]
        if len(examples) < 2:
            return False
        for (a, id_of_a), (b, id_of_b) in permutations(examples, 2):
            if self._ids(a + b) != [id_of_a, id_of_b]:
                return False
        return True

    @cached_property
    def spaces_in_tokens(self) -> bool:
        """Whether a token includes the space before it, as in byte-level BPE and SentencePiece."""
        return self.byte_level or self._marks_spaces_with("▁")

    @cached_property
    def byte_level(self) -> bool:
        """Whether tokens spell bytes, as in RoBERTa and ModernBERT."""
        return self._marks_spaces_with("Ġ")

    def serialised(self) -> str:
        """A text that identifies the tokenizer: its own serialisation, or its vocabulary if it
        has none.
        """
        if self.core is None:
            return json.dumps(sorted(self.tokenizer.get_vocab().items()))
        return str(self.core.to_str())

    def _marks_spaces_with(self, mark: str) -> bool:
        """Whether a token of "a a" begins with the mark."""
        tokens = self.tokenizer.convert_ids_to_tokens(self._ids("a a"))
        return any(str(token).startswith(mark) for token in tokens)

    def _ids(self, text: str) -> list[int]:
        """The ids of a text without start and end tokens."""
        with read_by_tokenizer(shortened(text)):
            return list(self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    @cached_property
    def _letter(self) -> re.Pattern[str]:
        """A blank, a special token, or another character that is not a space."""
        special = sorted({BLANK, *self.special_tokens}, key=len, reverse=True)
        return re.compile("|".join([*map(re.escape, special), r"\S"]))

    @cached_property
    def _between_letters(self) -> str:
        """The separator of two letters: nothing for a tokenizer that cuts letters itself and
        reads a space as a token, a space for any other.
        """
        letter, i = next((token, i) for token, i in self.regular_tokens.items() if len(token) == 1)
        reads_them_apart = self._ids(f"{letter} {letter}") == [i, i]
        if reads_them_apart:
            return " "
        cuts_them_itself = self._ids(letter * 2) == [i, i]
        return "" if cuts_them_itself else " "

    def _spread(self, text: str) -> str:
        """The text with what the tokenizer needs between characters and special tokens. Raises
        for a character outside the alphabet.
        """
        known = {BLANK, *self.special_tokens, *self.regular_tokens}
        for letter in self._letter.finditer(text):
            if letter[0] not in known:
                single = [token for token in self.regular_tokens if len(token) == 1]
                alphabet = "".join(sorted(single))
                raise InputError(
                    f"character {letter[0]!r} at place {letter.start() + 1} is not in the model's"
                    f" alphabet {alphabet}: write the text in it (upper and lower case differ)"
                )
        letters = self._letter.findall(text)
        return self._between_letters.join(letters).replace(BLANK, self.mask_token)

    def _by_letter(self, text: str, tokens: Tokens) -> Tokens:
        """Tokens of single letters, each of which is a word, with their places in the text.

        `tokens` were read from the prepared text, whose places differ. The tokens between start
        and end are the matches of `_letter` in the text, in order.
        """
        spans_of_letters = (match.span() for match in self._letter.finditer(text))
        words: list[int | None] = []
        spans: list[tuple[int, int]] = []
        for t, word in enumerate(tokens.words):
            if word is None:  # a start or end token
                words.append(None)
                spans.append((0, 0))
            else:
                words.append(t)
                spans.append(next(spans_of_letters))
        return tokens._replace(source=WordsAndSpans(words, spans))


@contextmanager
def read_by_tokenizer(what: str) -> Iterator[None]:
    """Turns a tokenizer's error into one line; a regular expression that panics in Rust raises
    a BaseException.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError):
        raise
    except BaseException as error:
        raise InputError(
            f"the model's tokenizer cannot read {what} ({first_line(error)}): write it in the"
            " model's own tokens"
        ) from None


def shortened(text: str) -> str:
    """A text as messages show it."""
    if len(text) > SHOWN_LENGTH:
        text = text[: SHOWN_LENGTH - 3] + "..."
    return repr(text)


def refuse_unreadable(text: str) -> None:
    """Raise for an empty text, and for control characters, lone surrogates and endless words,
    with their place.
    """
    if not text.strip():
        raise InputError(
            f"the text {text!r} is empty: give a sentence with [MASK] where a token should be"
            " modelled"
        )
    control = UNREADABLE.search(text)
    if control:
        raise InputError(
            f"the text has the control character U+{ord(control[0]):04X} at place"
            f" {control.start() + 1}: remove it"
        )
    if len(text) <= LONGEST_UNBROKEN:
        return
    for unbroken in re.finditer(r"\S+", text):
        if len(unbroken[0]) > LONGEST_UNBROKEN:
            raise InputError(
                f"the text has {len(unbroken[0]):,} characters without a space at place"
                f" {unbroken.start() + 1}, over the limit of {LONGEST_UNBROKEN:,}: put spaces"
                " between its words, or shorten it"
            )


def refuse_hopeless(text: str, max_length: int | None, name: str = "the text") -> None:
    """Raise for a text whose length alone says that a model of `max_length` tokens cannot take
    it, before it is tokenised.
    """
    if max_length is not None and len(text) > CHARACTERS_PER_TOKEN * max_length:
        raise InputError(
            f"{name} has {len(text):,} characters and the model takes {max_length} tokens: shorten"
            " the text"
        )


def refuse_too_long(tokens: int, max_length: int | None, name: str = "the text") -> None:
    """Raise for more tokens than the model takes."""
    if max_length is not None and tokens > max_length:
        raise InputError(
            f"{name} has {tokens} tokens and the model takes {max_length}: shorten the text"
        )
