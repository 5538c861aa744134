"""Texts to evaluate, and the pairs of positions in them: chosen with a seed, or given by the user.

Texts come from a list, a text file, CoNLL-U, FASTA, or a dataset on the hub by its name. A
sentence of CoNLL-U has a dependency parse: the characters that each syntactic word covers, and
each word's head. The syntactic distance of two words is the number of edges between them in the
dependency tree (the artificial root is not a node). A model's token belongs to every word that
shares a non-blank character with it; tokens with no characters (special tokens) belong to none.
The distance of two tokens is the smallest distance between a word of one and a word of the
other, so it is 0 for two pieces of one word.

`contiguous` takes two adjacent tokens, `random` two distinct positions, uniformly among those
of regular tokens. Texts come in a seeded order, and the r-th pair of text i is a function of
(seed, i, r) alone, drawn without replacement: asking for more pairs keeps those already chosen,
and a file with fewer texts than pairs gives several pairs per text.

A file of pairs has JSON Lines, one {"text": ..., "block": [i, j]} per line. Positions are
counted in the model's tokens, the start token included. `syntactic_distance` and `text_index`
are read where they are present, so that the pairs of one run (DIR/pairs.jsonl) can be given to
another.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeGuard

import numpy as np

from unmask.common.checks import shown, whole
from unmask.common.cloze import Cloze, blanked
from unmask.common.errors import InputError, UnmaskError
from unmask.common.files import first_line, user_path
from unmask.runs.lines import (
    STANDARD_INPUT,
    kind_of,
    numbered_lines,
    plain_texts,
    records,
    source_name,
)

HUB_DATASETS = {
    "snli": ("stanfordnlp/snli", "validation", ("premise", "hypothesis")),
    "xsum": ("EdinburghNLP/xsum", "test", ("summary",)),
}
"""Short name: repository, split, and the columns whose texts are taken."""

PARQUET_REVISION = "refs/convert/parquet"
"""The hub's own conversion of every dataset; some repositories hold a loading script instead,
which is never run.
"""


@dataclass(frozen=True)
class Text:
    """One text of a dataset, with its parse where the data carry one."""

    text: str
    parse: Parse | None = None


def read_texts(data: str | os.PathLike[str] | Sequence[str]) -> list[Text]:
    """The texts of a list, of a file, or of `snli` or `xsum`.

    A file ending in .conllu holds parsed sentences, one in .fasta, .fa or .faa sequences, any
    other one text per line; each may be packed (.gz, .xz). `-` is standard input, one text per
    line.
    """
    if not isinstance(data, str | os.PathLike):
        if not data:
            raise InputError("data is an empty list: give one text or more")
        return [Text(text) for text in data]
    path = user_path(data, "data")
    if path != STANDARD_INPUT and not path.exists():
        if str(data) in HUB_DATASETS:
            return _read_hub(str(data))
        raise InputError(
            f"data {str(data)!r} is neither a file nor a known name ({', '.join(HUB_DATASETS)}):"
            " give a text file"
        )
    if kind_of(path) == ".conllu":
        texts = [Text(text, parse) for text, parse in read_conllu(numbered_lines(path), str(path))]
    else:
        texts = [Text(text) for text in plain_texts(path)]
    if not texts:
        raise InputError(f"{source_name(path)!r} holds no text: give a file with one text per line")
    return texts


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
        texts = dict.fromkeys(str(text).strip() for column in columns for text in table[column])
    except Exception as error:
        why = f"dataset {name!r} ({repository}) could not be fetched ({first_line(error)})"
        raise InputError(f"{why}: give a text file instead") from None
    return [Text(text) for text in texts if text]


@dataclass(frozen=True)
class Parse:
    """Words in order: `spans[w]` are the characters [start, stop) of word w, `heads[w]` its
    head, -1 for the root.
    """

    spans: tuple[tuple[int, int], ...]
    heads: tuple[int, ...]

    def distance(self, word: int, other: int) -> int:
        """Edges on the path between two words; 0 for a word and itself."""
        above = self._ancestors(word)
        return next(
            steps + above.index(node)
            for steps, node in enumerate(self._ancestors(other))
            if node in above
        )

    def words_of(self, text: str, offsets: Sequence[tuple[int, int]]) -> list[tuple[int, ...]]:
        """For each token (characters [start, stop) of `text`), the words that it belongs to."""
        owners: list[set[int]] = [set() for _ in text]
        for word, (start, stop) in enumerate(self.spans):
            for place in range(start, stop):
                owners[place].add(word)
        return [
            tuple(
                sorted(
                    {
                        w
                        for place in range(start, stop)
                        if not text[place].isspace()
                        for w in owners[place]
                    }
                )
            )
            for start, stop in offsets
        ]

    def token_distance(self, words: Sequence[int], others: Sequence[int]) -> int | None:
        """The smallest distance between a word of one token and a word of the other; None where
        a token has no word.
        """
        return min((self.distance(w, o) for w in words for o in others), default=None)

    def _ancestors(self, word: int) -> list[int]:
        path = [word]
        while self.heads[path[-1]] >= 0:
            path.append(self.heads[path[-1]])
        return path


Surface = list[tuple[str, int, int, bool]]
"""(form as written, first word, last word, space after) of each orthographic token, words
counted from 1.
"""


def read_conllu(lines: Iterable[tuple[int, str]], name: str) -> Iterator[tuple[str, Parse]]:
    """(text, parse) of each sentence, from lines with their numbers; `name` is used in errors."""
    for _, some in groupby(lines, lambda line: not line[1].strip()):
        sentence = [(number, line) for number, line in some if line.strip()]
        words = [
            (number, line.split("\t")) for number, line in sentence if not line.startswith("#")
        ]
        if words:
            text = next(
                (
                    line.removeprefix("# text = ")
                    for _, line in sentence
                    if line.startswith("# text = ")
                ),
                None,
            )
            yield _sentence(text, words, name)


def _sentence(
    text: str | None, rows: Iterable[tuple[int, list[str]]], name: str
) -> tuple[str, Parse]:
    """The sentence of these rows of columns; without a `text` its words spell it."""
    forms, heads, surface, first_line = list[str](), list[int](), Surface(), 0
    for number, columns in rows:
        if len(columns) != 10:
            raise InputError(
                f"{name} line {number}: {len(columns)} tab-separated columns: a CoNLL-U word has 10"
            )
        identifier, form, head, misc = columns[0], columns[1], columns[6], columns[9]
        first_line, several = first_line or number, "-" in identifier
        if "." in identifier:
            continue
        try:
            first, last = (
                int(i) for i in (identifier.split("-") if several else (identifier, identifier))
            )
            heads += [] if several else [int(head)]
        except ValueError:
            raise InputError(
                f"{name} line {number}: id {identifier!r} and head {head!r} should be numbers: give"
                " a basic dependency tree"
            ) from None
        if not several:
            if first != len(forms) + 1:
                raise InputError(
                    f"{name} line {number}: word {first} follows word {len(forms)}: number the"
                    " words 1, 2, 3, ..."
                )
            forms.append(form)
            if surface and surface[-1][1] <= first <= surface[-1][2]:
                continue
        surface.append((form, first, last, "SpaceAfter=No" not in misc.split("|")))
    where = f"{name}, sentence at line {first_line}"
    _check_tree(heads, where)
    text = (
        text
        if text is not None
        else "".join(form + " " * space for form, _, _, space in surface).rstrip()
    )
    return text, Parse(_spans(text, forms, surface, where), tuple(h - 1 for h in heads))


def _spans(
    text: str, forms: Sequence[str], surface: Surface, where: str
) -> tuple[tuple[int, int], ...]:
    """The characters of each word."""
    spans: list[tuple[int, int]] = []
    cursor = 0
    for form, first, last, _ in surface:
        start = text.find(form, cursor)
        if start < 0 or text[cursor:start].strip():
            raise InputError(
                f"{where}: word {form!r} is not found at character {cursor} of its text: correct"
                " the # text line"
            )
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
            raise InputError(
                f"{where}: word {word} has head {head}, but the words are 1 to {len(heads)}:"
                " correct the tree"
            )
    if heads.count(0) != 1:
        raise InputError(f"{where}: {heads.count(0)} words have head 0: a tree has one root")
    reached = {0}
    for _ in heads:
        reached |= {word for word, head in enumerate(heads, 1) if head in reached}
    if len(reached) <= len(heads):
        raise InputError(
            f"{where}: word {min({*range(len(heads) + 1)} - reached)} hangs in a cycle: correct the"
            " tree"
        )


Encode = Callable[[str], Sequence[int]]


@dataclass(frozen=True)
class PositionPair:
    """Two positions of a text, counted in the model's tokens with the start token; `ids` has
    the gold tokens in place.
    """

    index: int
    text_index: int
    text: str
    ids: tuple[int, ...]
    block: tuple[int, int]
    syntactic_distance: int | None = None

    @property
    def token_distance(self) -> int:
        """Tokens between the two: 0 when they are adjacent, as in appendix E of Torroba
        Hennigen & Kim (2023).
        """
        return abs(self.block[0] - self.block[1]) - 1

    @property
    def gold(self) -> tuple[int, int]:
        return self.ids[self.block[0]], self.ids[self.block[1]]

    def cloze(self, mask_id: int) -> Cloze:
        """The text with the pair blanked."""
        return blanked(self.ids, self.block, mask_id)


def choose_pairs(
    texts: Sequence[Text],
    encode: Encode,
    special_ids: Sequence[int],
    scheme: str,
    count: int,
    seed: int,
    max_tokens: int | None = None,
) -> tuple[list[PositionPair], Counter[str]]:
    """`count` different pairs, and how many of the texts looked at were skipped, by reason:
    refused by `encode`, too long, or without a pair."""
    special, skipped, pairs = frozenset(special_ids), Counter[str](), list[PositionPair]()
    order = [int(i) for i in np.random.default_rng(seed).permutation(len(texts))]
    encoded: dict[int, tuple[int, ...]] = {}
    blocks: dict[int, Iterator[tuple[int, int]]] = {}
    for draw in range(count):
        more = []
        for i in order:
            if draw == 0:
                reason, encoded[i] = _encode(texts[i].text, encode, max_tokens)
                places, total = _places(encoded[i], special, scheme)
                if not reason and total == 0:
                    reason = (
                        "fewer than two regular tokens"
                        if scheme == "random"
                        else "no two adjacent regular tokens"
                    )
                if reason:
                    skipped[reason] += 1
                    continue
                blocks[i] = _blocks(places, total, scheme, np.random.default_rng([seed, i]))
            if block := next(blocks[i], None):
                pairs.append(PositionPair(len(pairs), i, texts[i].text, encoded[i], block))
                more.append(i)
                if len(pairs) == count:
                    return pairs, skipped
        order = more
        if not order:
            break
    left_out = "".join(f"; {n} texts skipped: {reason}" for reason, n in skipped.items())
    raise InputError(
        f"{count} pairs were asked for, but the {len(texts)} texts give only {len(pairs)} different"
        f" {scheme} pairs{left_out}: ask for fewer pairs or give more text"
    )


def _encode(text: str, encode: Encode, max_tokens: int | None) -> tuple[str, tuple[int, ...]]:
    try:
        ids = tuple(int(i) for i in encode(text))
    except InputError:
        return "the tokenizer refuses it", ()
    if max_tokens is not None and len(ids) > max_tokens:
        return f"more than {max_tokens} tokens", ()
    return "", ids


def _places(ids: Sequence[int], special: frozenset[int], scheme: str) -> tuple[list[int], int]:
    """The positions that pairs are made of, or begin at where they are contiguous, and how many
    pairs there are.
    """
    regular = [t for t, token in enumerate(ids) if token not in special]
    if scheme == "contiguous":
        adjacent = [t for t, after in zip(regular, regular[1:], strict=False) if after == t + 1]
        return adjacent, len(adjacent)
    return regular, len(regular) * (len(regular) - 1) // 2


def _blocks(
    places: Sequence[int], total: int, scheme: str, rng: np.random.Generator
) -> Iterator[tuple[int, int]]:
    """Every possible pair once, in uniformly random order."""
    seen = set[int]()
    while len(seen) < total:
        rank = int(rng.integers(total))
        if rank in seen:
            continue
        seen.add(rank)
        if scheme == "contiguous":
            yield places[rank], places[rank] + 1
            continue
        later = 1
        while rank >= later:
            rank, later = rank - later, later + 1
        yield places[rank], places[later]


def is_pairs_file(data: object) -> TypeGuard[str | os.PathLike[str]]:
    """Whether the data are a file of pairs, by its name, and not texts."""
    return isinstance(data, str | os.PathLike) and kind_of(user_path(data, "data")) == ".jsonl"


def read_pairs(
    path: str | os.PathLike[str],
    encode: Encode,
    special_ids: Collection[int],
    max_tokens: int | None,
) -> list[PositionPair]:
    """The pairs of a file; every problem is an error that names the line."""
    special, file, pairs = frozenset(special_ids), user_path(path, "data"), list[PositionPair]()
    for where, record in records(file, ".jsonl"):
        try:
            pairs += [_read_pair(record, len(pairs), encode, special, max_tokens)] if record else []
        except UnmaskError as error:
            raise InputError(f"{where}: {error}") from None
    if not pairs:
        raise InputError(
            f"{source_name(file)!r} holds no pair: give one JSON object per line with the keys text"
            " and block"
        )
    return pairs


def _read_pair(
    record: Mapping[str, Any],
    index: int,
    encode: Encode,
    special: frozenset[int],
    max_tokens: int | None,
) -> PositionPair:
    text, block = record.get("text"), record.get("block")
    if not isinstance(text, str):
        raise InputError('no text: give "text" as a string')
    if not (isinstance(block, list) and len(block) == 2 and all(type(i) is int for i in block)):
        raise InputError(
            f"block {shown(block)} is not a pair of positions: give two whole numbers, as [3, 4]"
        )
    ids = tuple(int(i) for i in encode(text))
    if max_tokens is not None and len(ids) > max_tokens:
        raise InputError(
            f"the text has {len(ids)} tokens, the model takes {max_tokens}: shorten it"
        )
    for position in block:
        if not 0 <= position < len(ids):
            raise InputError(
                f"position {position} of block {block} is outside the text: its tokens are 0 to"
                f" {len(ids) - 1}"
            )
        if ids[position] in special:
            raise InputError(
                f"position {position} of block {block} is not a regular token: choose one that is"
            )
    if block[0] == block[1]:
        raise InputError(f"block {block} names one position twice: give two different positions")
    known = {
        key: whole(key, record[key], 0, 2**63 - 1)
        for key in ("text_index", "syntactic_distance")
        if record.get(key) is not None
    }
    return PositionPair(
        index, text=text, ids=ids, block=(block[0], block[1]), **{"text_index": index, **known}
    )


def pairs_as_lines(pairs: Iterable[PositionPair]) -> str:
    """The pairs in the format that `read_pairs` reads."""
    lines = []
    for pair in pairs:
        row: dict[str, object] = {
            "text": pair.text,
            "block": list(pair.block),
            "text_index": pair.text_index,
        }
        if pair.syntactic_distance is not None:
            row["syntactic_distance"] = pair.syntactic_distance
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    return "".join(lines)
