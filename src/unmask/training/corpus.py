"""A corpus: files (.txt, .txt.xz, .txt.gz, .jsonl) with one text per line, or texts in memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from unmask import checks
from unmask.errors import InputError
from unmask.runs.files import parse_json, user_path
from unmask.runs.fingerprint import content_hash, file_hash
from unmask.runs.lines import numbered_lines

SUFFIXES = (".txt", ".txt.xz", ".txt.gz", ".jsonl")
HEAVIEST = 1_000_000
Given = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""How a user names a corpus: a file, several files, or a list of texts."""


@dataclass(frozen=True)
class Source:
    """One file, or texts in memory, and how often per epoch its lines are seen; `field` holds the text of a .jsonl line."""

    name: str
    path: Path | None = None
    texts: tuple[str, ...] = ()
    weight: float = 1.0
    field: str = "text"

    @classmethod
    def file(cls, path: Path, weight: float = 1.0, field: str = "text", name: str = "corpus") -> Source:
        """A file that was given under the argument `name`."""
        known = ", ".join(SUFFIXES)
        if not path.is_file():
            raise InputError(f"{name} {str(path)!r} is not a file: give a {known} file")
        if not path.name.endswith(SUFFIXES):
            raise InputError(f"{name} {str(path)!r} has an unknown ending: give a {known} file")
        return cls(path.name, path, (), checks.real("weight", weight, 0, HEAVIEST, above=True), field)

    def lines(self) -> Iterator[str]:
        """The texts that are not empty, each in one line."""
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
            raise InputError(f"{where}: half of a surrogate pair, which is no character: correct the text") from None
        if text:
            yield text

    @property
    def fingerprint(self) -> str:
        """Of the content and how it is read."""
        if self.path is None:
            return content_hash("\n".join(" ".join(text.split()) for text in self.texts))
        return file_hash(self.path) + (self.field if self.path.suffix == ".jsonl" else "")

    @property
    def size(self) -> int:
        """About how many bytes of text there are."""
        if self.path is None:
            return sum(map(len, self.texts))
        return self.path.stat().st_size * (4 if self.path.suffix in (".xz", ".gz") else 1)


def sources(corpus: Given, weights: Sequence[float] | None = None, field: str = "text", name: str = "corpus") -> list[Source]:
    """One source per file; a list of texts is one source. `weights`: one per source, all 1 if left out."""
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
        raise InputError(f"{name} names files, and {text[:60]!r} is none: give files, or a list of texts")
    count = len(given) if are_files else 1
    weights = [1.0] * count if weights is None or len(weights) == 0 else weights
    if len(weights) != count:
        raise InputError(f"{len(weights)} weights for {count} corpus files: give one --weight per file, in their order")
    if are_files:
        return [Source.file(user_path(p, name), w, field, name) for p, w in zip(given, weights, strict=True)]
    weight = checks.real("weight", weights[0], 0, HEAVIEST, above=True)
    return [Source(f"{len(given):,} texts", None, tuple(map(str, given)), weight)]


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
