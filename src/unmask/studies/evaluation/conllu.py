"""Sentences of CoNLL-U, and distances in their dependency trees.

A parse has the characters that each syntactic word covers, and each word's head. The syntactic
distance of two words is the number of edges between them in the dependency tree (the artificial
root is not a node). A model's token belongs to every word that shares a non-blank character with
it; tokens with no characters (special tokens) belong to none. The distance of two tokens is the
smallest distance between a word of one and a word of the other, so it is 0 for two pieces of one
word.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from unmask.common.errors import InputError

COLUMNS = 10
"""Of a word, separated by tabs."""
TEXT = "# text = "
"""How the line begins that has the sentence as it was written."""
ROOT = -1
"""The head of the word that depends on none."""


@dataclass(frozen=True)
class Parse:
    """Words in order: `spans[w]` are the characters [start, stop) of word w, `heads[w]` its
    head, -1 for the root.
    """

    spans: tuple[tuple[int, int], ...]
    heads: tuple[int, ...]

    def distance(self, word: int, other: int) -> int:
        """Edges on the path between two words; 0 for a word and itself."""
        path = self._path_to_root(word)
        # the first node of the other path that lies on this one is where both meet
        for steps_from_other, node in enumerate(self._path_to_root(other)):
            if node in path:
                steps_from_word = path.index(node)
                return steps_from_word + steps_from_other
        raise AssertionError("all words of a tree have its root above them")

    def words_of(self, text: str, offsets: Sequence[tuple[int, int]]) -> list[tuple[int, ...]]:
        """For each token (characters [start, stop) of `text`), the words that it belongs to."""
        words_at: list[set[int]] = [set() for _ in text]
        for word, (start, stop) in enumerate(self.spans):
            for place in range(start, stop):
                words_at[place].add(word)
        of_tokens: list[tuple[int, ...]] = []
        for start, stop in offsets:
            words: set[int] = set()
            for place in range(start, stop):
                if not text[place].isspace():
                    words |= words_at[place]
            of_tokens.append(tuple(sorted(words)))
        return of_tokens

    def token_distance(self, words: Sequence[int], others: Sequence[int]) -> int | None:
        """The smallest distance between a word of one token and a word of the other; None where
        a token has no word.
        """
        distances = [self.distance(word, other) for word in words for other in others]
        return min(distances, default=None)

    def _path_to_root(self, word: int) -> list[int]:
        path = [word]
        while self.heads[path[-1]] != ROOT:
            path.append(self.heads[path[-1]])
        return path


@dataclass(frozen=True)
class Line:
    """A line of columns, with its number in the file."""

    number: int
    columns: Sequence[str]

    @property
    def identifier(self) -> str:
        """The number of a word, two with a hyphen for several words written as one, or one with
        a dot for a word that is not written.
        """
        return self.columns[0]

    @property
    def form(self) -> str:
        return self.columns[1]

    @property
    def head(self) -> str:
        return self.columns[6]

    @property
    def space_after(self) -> bool:
        miscellaneous = self.columns[9].split("|")
        return "SpaceAfter=No" not in miscellaneous


@dataclass(frozen=True)
class Written:
    """A word as it is written, or several words that are written as one, such as "don't".

    first, last   the first and the last of the words, counted from 1
    space_after   whether a space follows
    """

    form: str
    first: int
    last: int
    space_after: bool


def read_conllu(lines: Iterable[tuple[int, str]], name: str) -> Iterator[tuple[str, Parse]]:
    """(text, parse) of each sentence, from lines with their numbers; `name` is used in errors."""
    for is_blank, numbered_lines in groupby(lines, _is_blank):
        if is_blank:  # blank lines separate sentences
            continue
        text: str | None = None
        words: list[Line] = []
        for number, line in numbered_lines:
            if not line.startswith("#"):
                words.append(Line(number, line.split("\t")))
            elif text is None and line.startswith(TEXT):
                text = line.removeprefix(TEXT)
        if words:
            yield _sentence(text, words, name)


def _is_blank(numbered_line: tuple[int, str]) -> bool:
    _, line = numbered_line
    return not line.strip()


def _sentence(text: str | None, lines: Sequence[Line], name: str) -> tuple[str, Parse]:
    """The sentence of these lines; without a `text` its words spell it."""
    forms: list[str] = []
    heads: list[int] = []
    written: list[Written] = []
    for line in lines:
        where = f"{name} line {line.number}"
        if len(line.columns) != COLUMNS:
            raise InputError(
                f"{where}: {len(line.columns)} tab-separated columns: a CoNLL-U word has {COLUMNS}"
            )
        if "." in line.identifier:  # a word that is not written
            continue
        several = "-" in line.identifier
        first, last, head = _numbers(line, several, where)
        if several:
            already_written = written[-1].last if written else 0
            if first != len(forms) + 1 or first <= already_written or last < first:
                raise InputError(
                    f"{where}: words {line.identifier} follow word {len(forms)}: give the line of"
                    " several words once, right before the first of them"
                )
        else:
            if first != len(forms) + 1:
                raise InputError(
                    f"{where}: word {first} follows word {len(forms)}: number the words 1, 2, 3,"
                    " ..."
                )
            forms.append(line.form)
            heads.append(head)
            if written and first in range(written[-1].first, written[-1].last + 1):
                continue  # an earlier line has written this word with its neighbours
        written.append(Written(line.form, first, last, line.space_after))
    where = f"{name}, sentence at line {lines[0].number}"
    if written and written[-1].last > len(forms):
        raise InputError(
            f"{where}: its last line of several words goes to word {written[-1].last} of"
            f" {len(forms)}: give every word a line"
        )
    _check_tree(heads, where)
    if text is None:
        text = _spelled(written)
    spans = _spans(text, forms, written, where)
    return text, Parse(spans, tuple(head - 1 for head in heads))


def _spelled(written: Sequence[Written]) -> str:
    """The text that these words make."""
    text = ""
    for part in written:
        text += part.form
        if part.space_after:
            text += " "
    return text.rstrip()


def _numbers(line: Line, several: bool, where: str) -> tuple[int, int, int]:
    """(first word, last word, head) of a line. A line of `several` words has no head: its head
    is 0 here, and is not read.
    """
    try:
        if several:
            first, last = (int(number) for number in line.identifier.split("-"))
            return first, last, 0
        word = int(line.identifier)
        return word, word, int(line.head)
    except ValueError:
        raise InputError(
            f"{where}: id {line.identifier!r} and head {line.head!r} should be numbers: give a"
            " basic dependency tree"
        ) from None


def _spans(
    text: str, forms: Sequence[str], written: Sequence[Written], where: str
) -> tuple[tuple[int, int], ...]:
    """The characters of each word.

    Several words may be written as one. If their forms joined are what is written, each has its
    own characters; otherwise each has all of them.
    """
    spans: list[tuple[int, int]] = []
    cursor = 0  # what is before it belongs to words before
    for part in written:
        start = text.find(part.form, cursor)
        if start < 0 or text[cursor:start].strip():
            raise InputError(
                f"{where}: word {part.form!r} is not found at character {cursor} of its text:"
                " correct the # text line"
            )
        cursor = start + len(part.form)
        words = forms[part.first - 1 : part.last]
        if "".join(words) == part.form:
            for word in words:
                spans.append((start, start + len(word)))
                start += len(word)
        else:
            spans += [(start, cursor)] * len(words)
    return tuple(spans)


def _check_tree(heads: Sequence[int], where: str) -> None:
    """Refuse heads, counted from 1 with 0 for the root, which are no tree."""
    for word, head in enumerate(heads, 1):
        if not 0 <= head <= len(heads):
            raise InputError(
                f"{where}: word {word} has head {head}, but the words are 1 to {len(heads)}:"
                " correct the tree"
            )
    if heads.count(0) != 1:
        raise InputError(f"{where}: {heads.count(0)} words have head 0: a tree has one root")
    reached = {0}
    for _ in heads:  # each turn adds the words whose heads are reached: no path is longer
        reached |= {word for word, head in enumerate(heads, 1) if head in reached}
    unreached = set(range(len(heads) + 1)) - reached
    if unreached:
        raise InputError(f"{where}: word {min(unreached)} hangs in a cycle: correct the tree")
