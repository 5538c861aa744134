"""Texts to train on: .txt, .txt.xz, .txt.gz and .jsonl files or texts in memory, and the segments they are cut into.

A line is cut after sentence ends; its sentences are joined from the left while the segment stays within L tokens, the
start and end tokens included. L is drawn for each line from the given lengths by a hash of its text, so that a model
meets single sentences and whole paragraphs and the cut does not depend on the order of the corpus. A sentence
longer than L is a segment of its own; one longer than the model's limit is cut between words.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool
from tokenizers import Tokenizer

from unmask import checks
from unmask.errors import InputError
from unmask.models.text.word_pieces import CONTINUES, special_id
from unmask.runs.files import parse_json, user_path
from unmask.runs.fingerprint import content_hash, file_hash
from unmask.runs.lines import numbered_lines

SUFFIXES = (".txt", ".txt.xz", ".txt.gz", ".jsonl")
HEAVIEST = 1_000_000
Given = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""A corpus as a user gives it: a file, several files, or a list of texts."""
_SENTENCE_END = re.compile(r"""(?<=[.!?])["'”’)\]]*\s+(?=["'“‘(\[]?[A-Z0-9])""")
_HASH_SPACE = 1 << 32


@dataclass(frozen=True)
class TextSource:
    """One file, or texts in memory, and how often an epoch shows its lines; `field` holds the text of a .jsonl line."""

    name: str
    path: Path | None = None
    texts: tuple[str, ...] = ()
    weight: float = 1.0
    field: str = "text"

    @classmethod
    def file(cls, path: Path, weight: float = 1.0, field: str = "text", name: str = "corpus") -> TextSource:
        """A file that was given under the argument `name`."""
        known = ", ".join(SUFFIXES)
        if not path.is_file():
            raise InputError(f"{name} {str(path)!r} is not a file: give a {known} file")
        if not path.name.endswith(SUFFIXES):
            raise InputError(f"{name} {str(path)!r} has an unknown ending: give a {known} file")
        return cls(path.name, path, (), checks.real("weight", weight, 0, HEAVIEST, above=True), field)

    def lines(self) -> Iterator[str]:
        """The non-empty texts, each as one line."""
        if self.path is None:
            for number, text in enumerate(self.texts, 1):
                yield from self._usable(" ".join(text.split()), f"text {number}")
        else:
            is_json = self.path.name.endswith(".jsonl")
            for number, line in numbered_lines(self.path):
                if stripped := line.strip():
                    where = f"{self.path} line {number}"
                    yield from self._usable(_field(stripped, self.field, where) if is_json else stripped, where)

    def _usable(self, text: str, where: str) -> Iterator[str]:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InputError(f"{where}: half of a surrogate pair, which is not a character: correct the text") from None
        if text:
            yield text

    @property
    def fingerprint(self) -> str:
        """A hash of the content and of the way it is read."""
        if self.path is None:
            return content_hash("\n".join(" ".join(text.split()) for text in self.texts))
        return file_hash(self.path) + (self.field if self.path.suffix == ".jsonl" else "")

    @property
    def size(self) -> int:
        """Approximate bytes of text."""
        if self.path is None:
            return sum(map(len, self.texts))
        return self.path.stat().st_size * (4 if self.path.suffix in (".xz", ".gz") else 1)


def sources(corpus: Given, weights: Sequence[float] | None = None, field: str = "text", name: str = "corpus") -> list[TextSource]:
    """One source per file; a list of texts is one source. `weights`: one per source, by default 1."""
    given = [corpus] if isinstance(corpus, str | os.PathLike) else list(corpus)
    if not given:
        raise InputError(f"the {name} is empty: give files or texts")
    for item in given:
        if not isinstance(item, str | os.PathLike):
            raise InputError(f"{name} holds a {type(item).__name__}: give files, or a list of texts")
    names_a_file = [not isinstance(item, str) or _looks_like_a_file(item) for item in given]
    are_files = isinstance(corpus, str | os.PathLike) or any(names_a_file)
    if are_files and not all(names_a_file) and len(given) > 1:
        text = str(given[names_a_file.index(False)])
        raise InputError(f"{name} names files, and {text[:60]!r} is not a file: give files, or a list of texts")
    count = len(given) if are_files else 1
    weights = [1.0] * count if weights is None or len(weights) == 0 else weights
    if len(weights) != count:
        raise InputError(f"{len(weights)} weights for {count} corpus files: give one --weight per file, in their order")
    if are_files:
        return [TextSource.file(user_path(p, name), w, field, name) for p, w in zip(given, weights, strict=True)]
    weight = checks.real("weight", weights[0], 0, HEAVIEST, above=True)
    return [TextSource(f"{len(given):,} texts", None, tuple(map(str, given)), weight)]


def _looks_like_a_file(text: str) -> bool:
    if text.endswith(SUFFIXES):
        return True
    try:
        return bool(text.strip()) and Path(text).expanduser().exists()
    except (OSError, RuntimeError, ValueError):
        return False


def _field(line: str, field: str, where: str) -> str:
    usage = f'give lines like {{"{field}": "..."}} or name the --field'
    try:
        value = parse_json(line)
    except ValueError as error:
        raise InputError(f"{where}: {error}; {usage}") from None
    text = value.get(field) if isinstance(value, dict) else None
    if not isinstance(text, str):
        raise InputError(f'{where}: no text under "{field}"; {usage}')
    return " ".join(text.split())


@dataclass(frozen=True)
class Segmentation:
    """How lines become segments, and the share `holdout` of lines, chosen by hash, that validation uses."""

    lengths: tuple[int, ...] = (24, 64, 128)
    max_length: int = 128
    holdout: float = 0.0

    def holds_out(self, line: str) -> bool:
        """Whether this line belongs to the validation part; the same for equal lines."""
        return self.holdout > 0 and _hash(line, b"holdout") < self.holdout * _HASH_SPACE

    def length_for(self, line: str) -> int:
        """The target length drawn for this line."""
        return self.lengths[_hash(line, b"length") % len(self.lengths)]


def sentences(line: str) -> list[str]:
    """The line's sentences, by punctuation; their concatenation is the line except for white space between them."""
    out, start = [], 0
    for gap in _SENTENCE_END.finditer(line):
        closing = len(gap.group()) - len(gap.group().lstrip("\"'”’)]"))
        out.append(line[start : gap.start() + closing])
        start = gap.end()
    return [*out, line[start:]]


def continuing_pieces(tokenizer: Tokenizer) -> Bool[np.ndarray, " V"]:
    """Which ids are pieces that continue a word: those that start with ##."""
    vocabulary = tokenizer.get_vocab()
    continues = np.zeros(max(vocabulary.values()) + 1, dtype=bool)
    continues[[i for word, i in vocabulary.items() if word.startswith(CONTINUES)]] = True
    return continues


class Segmenter:
    """Tokenises lines into segments of token ids, each with its start and end token."""

    def __init__(self, tokenizer: Tokenizer, settings: Segmentation) -> None:
        self.tokenizer = tokenizer
        self.settings = settings
        self.start, self.end = special_id(tokenizer, "[CLS]"), special_id(tokenizer, "[SEP]")
        self.continues = continuing_pieces(tokenizer)

    def __call__(self, lines: Sequence[str]) -> list[list[int]]:
        """Segments of all lines, in order."""
        split = [sentences(line) for line in lines]
        flat = [s for parts in split for s in parts]
        encoded = iter(self.tokenizer.encode_batch_fast(flat, add_special_tokens=False))
        out: list[list[int]] = []
        for line, parts in zip(lines, split, strict=True):
            out += self._join([next(encoded).ids for _ in parts], self.settings.length_for(line) - 2)
        return out

    def _join(self, parts: list[list[int]], room: int) -> list[list[int]]:
        joined: list[list[int]] = []
        for part in parts:
            if joined and len(joined[-1]) + len(part) <= room:
                joined[-1] = joined[-1] + part
            else:
                joined += self._cut(part)
        return [[self.start, *ids, self.end] for ids in joined]

    def _cut(self, ids: list[int]) -> list[list[int]]:
        room, pieces = self.settings.max_length - 2, []
        while len(ids) > room:
            end = room
            while end > 1 and self.continues[ids[end]]:
                end -= 1
            end = end if not self.continues[ids[end]] else room
            pieces.append(ids[:end])
            ids = ids[end:]
        return [*pieces, ids] if ids else pieces


def _hash(line: str, purpose: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(line.encode(), digest_size=4, person=purpose).digest(), "little")
