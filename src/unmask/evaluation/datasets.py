"""Texts to evaluate: from a list, a text file, CoNLL-U, FASTA, or a dataset on the hub by its name.

A sentence of CoNLL-U has a dependency parse: the characters that each syntactic word covers, and each word's head. The syntactic
distance of two words is the number of edges between them in the dependency tree (the artificial root is not a node).

A model's token belongs to every word that shares a non-blank character with it; tokens with no characters (special tokens)
belong to none. The distance of two tokens is the smallest distance between a word of one and a word of the other, so it is
0 for two pieces of one word.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from unmask.errors import InputError
from unmask.runs.files import user_path
from unmask.runs.lines import STANDARD_INPUT, kind_of, numbered_lines, plain_texts, source_name

HUB_DATASETS = {
    "snli": ("stanfordnlp/snli", "validation", ("premise", "hypothesis")),
    "xsum": ("EdinburghNLP/xsum", "test", ("summary",)),
}
"""Short name: repository, split, and the columns whose texts are taken."""

PARQUET_REVISION = "refs/convert/parquet"
"""The hub's own conversion of every dataset; some repositories hold a loading script instead, which is never run."""


@dataclass(frozen=True)
class Text:
    """One text of a dataset, with its parse where the data carry one."""

    text: str
    parse: Parse | None = None


def read_texts(data: str | os.PathLike[str] | Sequence[str]) -> list[Text]:
    """The texts of a list, of a file, or of `snli` or `xsum`.

    A file ending in .conllu holds parsed sentences, one in .fasta, .fa or .faa sequences, any other one text per line;
    each may be packed (.gz, .xz). `-` is standard input, one text per line.
    """
    if not isinstance(data, str | os.PathLike):
        return _given(data)
    path = user_path(data, "data")
    if path != STANDARD_INPUT and not path.exists():
        if str(data) in HUB_DATASETS:
            return _read_hub(str(data))
        raise InputError(f"data {str(data)!r} is neither a file nor a known name ({', '.join(HUB_DATASETS)}): give a text file")
    if kind_of(path) == ".conllu":
        texts = [Text(text, parse) for text, parse in read_conllu(numbered_lines(path), str(path))]
    else:
        texts = [Text(text) for text in plain_texts(path)]
    if not texts:
        raise InputError(f"{source_name(path)!r} holds no text: give a file with one text per line")
    return texts


def _given(texts: Sequence[str]) -> list[Text]:
    for place, text in enumerate(texts):
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InputError(
                f"item {place} of data holds half of a surrogate pair, which is not a character: correct it"
            ) from None
    if not texts:
        raise InputError("data is an empty list: give one text or more")
    return [Text(text) for text in texts]


def _read_hub(name: str) -> list[Text]:
    try:
        import datasets
    except ImportError:
        raise InputError(
            f"dataset {name!r} is read through the package datasets, which is not installed: "
            'pip install "unmask[hub]", or give a text file'
        ) from None
    repository, split, columns = HUB_DATASETS[name]
    try:
        table = datasets.load_dataset(repository, split=split, revision=PARQUET_REVISION)
        found = dict.fromkeys(str(text).strip() for column in columns for text in table[column])
    except Exception as error:
        line = (str(error).strip() or type(error).__name__).splitlines()[0][:160]
        raise InputError(f"dataset {name!r} ({repository}) could not be fetched ({line}): give a text file instead") from None
    return [Text(text) for text in found if text]


@dataclass(frozen=True)
class Parse:
    """Words in order: `spans[w]` are the characters [start, stop) of word w, `heads[w]` its head, -1 for the root."""

    spans: tuple[tuple[int, int], ...]
    heads: tuple[int, ...]

    def distance(self, word: int, other: int) -> int:
        """Edges on the path between two words; 0 for a word and itself."""
        above = self._ancestors(word)
        return next(steps + above.index(node) for steps, node in enumerate(self._ancestors(other)) if node in above)

    def words_of(self, text: str, offsets: Sequence[tuple[int, int]]) -> list[tuple[int, ...]]:
        """For each token (characters [start, stop) of `text`), the words that it belongs to."""
        owners: list[set[int]] = [set() for _ in text]
        for word, (start, stop) in enumerate(self.spans):
            for place in range(start, stop):
                owners[place].add(word)
        return [
            tuple(sorted({w for place in range(start, stop) if not text[place].isspace() for w in owners[place]}))
            for start, stop in offsets
        ]

    def token_distance(self, words: Sequence[int], others: Sequence[int]) -> int | None:
        """The smallest distance between a word of one token and a word of the other; None where a token has no word."""
        return min((self.distance(w, o) for w in words for o in others), default=None)

    def _ancestors(self, word: int) -> list[int]:
        path = [word]
        while self.heads[path[-1]] >= 0:
            path.append(self.heads[path[-1]])
        return path


Surface = list[tuple[str, int, int, bool]]
"""(form as written, first word, last word, space after) of each orthographic token, words counted from 1."""


def read_conllu(lines: Iterable[tuple[int, str]], name: str) -> Iterator[tuple[str, Parse]]:
    """(text, parse) of each sentence, from lines with their numbers; `name` is used in errors."""
    for is_blank, some in groupby(lines, lambda line: not line[1].strip()):
        if not is_blank:
            yield from _sentence(some, name)


def _sentence(lines: Iterable[tuple[int, str]], name: str) -> Iterator[tuple[str, Parse]]:
    """The sentence of these lines; nothing if they have no word."""
    text, first_line = None, 0
    forms, heads, surface = list[str](), list[int](), Surface()
    for number, line in lines:
        if line.startswith("#"):
            text = line.removeprefix("# text = ") if line.startswith("# text = ") else text
            continue
        columns = line.split("\t")
        if len(columns) != 10:
            raise InputError(f"{name} line {number}: {len(columns)} tab-separated columns: a CoNLL-U word has 10")
        identifier, form, head, misc = columns[0], columns[1], columns[6], columns[9]
        space, first_line = "SpaceAfter=No" not in misc.split("|"), first_line or number
        try:
            if "." in identifier:
                continue
            if "-" in identifier:
                first, last = (int(i) for i in identifier.split("-"))
                surface.append((form, first, last, space))
                continue
            word = int(identifier)
            heads.append(int(head))
        except ValueError:
            raise InputError(
                f"{name} line {number}: id {identifier!r} and head {head!r} should be numbers: give a basic dependency tree"
            ) from None
        if word != len(forms) + 1:
            raise InputError(f"{name} line {number}: word {word} follows word {len(forms)}: number the words 1, 2, 3, ...")
        forms.append(form)
        if not (surface and surface[-1][1] <= word <= surface[-1][2]):
            surface.append((form, word, word, space))
    if forms:
        where = f"{name}, sentence at line {first_line}"
        _check_tree(heads, where)
        if text is None:
            text = "".join(form + " " * space for form, _, _, space in surface).rstrip()
        yield text, Parse(_spans(text, forms, surface, where), tuple(h - 1 for h in heads))


def _spans(text: str, forms: Sequence[str], surface: Surface, where: str) -> tuple[tuple[int, int], ...]:
    """The characters of each word."""
    spans: list[tuple[int, int]] = []
    cursor = 0
    for form, first, last, _ in surface:
        start = text.find(form, cursor)
        if start < 0 or text[cursor:start].strip():
            raise InputError(f"{where}: word {form!r} is not found at character {cursor} of its text: correct the # text line")
        cursor = start + len(form)
        words = forms[first - 1 : last]
        if "".join(words) == form:
            for word in words:
                spans.append((start, start + len(word)))
                start += len(word)
        else:
            spans += [(start, cursor)] * len(words)
    return tuple(spans)


def _check_tree(heads: list[int], where: str) -> None:
    for word, head in enumerate(heads, 1):
        if not 0 <= head <= len(heads):
            raise InputError(f"{where}: word {word} has head {head}, but the words are 1 to {len(heads)}: correct the tree")
    if heads.count(0) != 1:
        raise InputError(f"{where}: {heads.count(0)} words have head 0: a tree has one root")
    for word in range(1, len(heads) + 1):
        node, steps = word, 0
        while node and steps <= len(heads):
            node, steps = heads[node - 1], steps + 1
        if node:
            raise InputError(f"{where}: word {word} hangs in a cycle: correct the tree")
