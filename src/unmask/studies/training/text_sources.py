"""Where the texts of a corpus come from: files, or lists of texts, read line by line.

Files are .txt, .txt.xz, .txt.gz (a text per line) and .jsonl (the text under "text" of each line).
In a parallel corpus each line of the second file, or list, translates the same line of the first.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from unmask.common.errors import InputError
from unmask.common.files import parse_json, user_path
from unmask.runs.fingerprint import content_hash, file_hash
from unmask.runs.lines import numbered_lines, text_lines
from unmask.studies.training.recipe import Corpus, PathLike, Side

SUFFIXES = (".txt", ".txt.xz", ".txt.gz", ".jsonl")
COMPRESSED = (".xz", ".gz")
TEXT_PER_COMPRESSED_BYTE = 4  # bytes of text, roughly


@dataclass(frozen=True)
class TextSource:
    """One file, or texts in memory.

    name      as messages and the model card name it
    path      the file; None for texts in memory
    texts     the texts in memory; empty for a file
    weight    how often an epoch shows each line
    argument  under which it was given
    """

    name: str
    path: Path | None = None
    texts: tuple[str, ...] = ()
    weight: float = 1.0
    argument: str = "data"

    @classmethod
    def file(cls, path: Path, weight: float = 1.0, argument: str = "data") -> TextSource:
        """A file that was given under this argument."""
        use = f"give a {', '.join(SUFFIXES)} file"
        if not path.is_file():
            raise InputError(f"{str(path)!r} is not a file", argument=argument, use=use)
        if not path.name.endswith(SUFFIXES):
            raise InputError(f"{str(path)!r} has an unknown ending", argument=argument, use=use)
        return cls(name=path.name, path=path, weight=weight, argument=argument)

    def lines(self) -> Iterator[str]:
        """The texts that are not empty, each as one line."""
        return (line for line in self.every_line() if line)

    def every_line(self) -> Iterator[str]:
        """All texts, empty ones too, each as one line."""
        if self.path is None:
            texts = self._texts_in_memory()
        else:
            texts = _texts_of_file(self.path)
        for place, text in texts:
            _refuse_surrogates(text, place)
            yield text

    def _texts_in_memory(self) -> Iterator[tuple[str, str]]:
        """(place as messages name it, text) of every text in memory."""
        for number, text in enumerate(self.texts, 1):
            yield f"text {number}", in_one_line(text)

    @property
    def fingerprint(self) -> str:
        """A hash of the content."""
        if self.path is None:
            return content_hash("\n".join(in_one_line(text) for text in self.texts))
        return file_hash(self.path)

    @property
    def size(self) -> int:
        """About how many bytes of text there are. For texts in memory, their characters count."""
        if self.path is None:
            return sum(len(text) for text in self.texts)
        size_of_file = self.path.stat().st_size
        if self.path.suffix in COMPRESSED:
            return size_of_file * TEXT_PER_COMPRESSED_BYTE
        return size_of_file


def in_one_line(text: str) -> str:
    """The text with a single space for every run of white space."""
    return " ".join(text.split())


def _texts_of_file(path: Path) -> Iterator[tuple[str, str]]:
    """(place as messages name it, text) of every line of a file.

    An empty line is an empty text, also in .jsonl files.
    """
    for number, line in numbered_lines(path):
        place = f"{path} line {number}"
        text = line.strip()
        if text and path.suffix == ".jsonl":
            text = _text_field(text, place)
        yield place, text


def _text_field(line: str, place: str) -> str:
    """The text under "text" of a line of JSON."""
    try:
        value = parse_json(line)
    except ValueError as error:
        raise _no_text_field(place, str(error)) from None
    if not isinstance(value, dict) or not isinstance(value.get("text"), str):
        raise _no_text_field(place, 'no text under "text"')
    return in_one_line(value["text"])


def _no_text_field(place: str, problem: str) -> InputError:
    return InputError(f'{place}: {problem}; give lines like {{"text": "..."}}')


def _refuse_surrogates(text: str, place: str) -> None:
    """Raise InputError for a text that UTF-8 cannot hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{place}: half of a surrogate pair, which is not a character: correct the text"
        ) from None


def sources(
    corpus: Corpus, weights: Sequence[float] | None = None, argument: str = "data"
) -> list[TextSource]:
    """One source per file; a list of texts is one source.

    weights    one per source, by default 1
    argument   under which they were given, for messages
    """
    if isinstance(corpus, str | os.PathLike):
        return _files([corpus], weights, argument)
    items = list(corpus)
    if not items:
        raise InputError("is empty", argument=argument, use="give files or texts")
    names_a_file = [not isinstance(item, str) or _looks_like_a_file(item) for item in items]
    if all(names_a_file):
        return _files(items, weights, argument)
    if any(names_a_file):
        first_text = str(items[names_a_file.index(False)])
        raise InputError(
            f"names files, and {first_text[:60]!r} is not a file",
            argument=argument,
            use="give files, or a list of texts",
        )
    weight = _one_per_source(weights, 1)[0]
    texts = tuple(str(item) for item in items)
    name = f"{len(items):,} texts"
    return [TextSource(name=name, texts=texts, weight=weight, argument=argument)]


def _files(
    paths: Sequence[PathLike], weights: Sequence[float] | None, argument: str
) -> list[TextSource]:
    """A source for each file that was given under this argument."""
    weighted = zip(paths, _one_per_source(weights, len(paths)), strict=True)
    return [
        TextSource.file(user_path(path, argument), weight, argument) for path, weight in weighted
    ]


def _one_per_source(weights: Sequence[float] | None, count: int) -> Sequence[float]:
    """The weights of `count` sources: 1 each if the user named none."""
    if weights is None or len(weights) == 0:
        return [1.0] * count
    if len(weights) != count:
        raise InputError(
            f"has {len(weights)} numbers for {count} corpus files",
            argument="weight",
            use="give one per file, in their order",
        )
    return weights


def one_source(valid: Corpus | None) -> TextSource | None:
    """The held-out texts, if the user named any: one file, or a list of texts."""
    if valid is None:
        return None
    held_out = sources(valid, argument="valid")
    if len(held_out) > 1:
        raise InputError(f"names {len(held_out)} files", argument="valid", use="give one")
    return held_out[0]


def _looks_like_a_file(text: str) -> bool:
    """Whether a text ends like a file of a corpus, or is the path of anything that exists."""
    if text.endswith(SUFFIXES):
        return True
    if not text.strip():
        return False  # an empty path is the current folder
    try:
        return Path(text).expanduser().exists()
    except (OSError, RuntimeError, ValueError):
        return False  # too long for a path, the home folder of no user, or a null character


def parallel_sides(sides: Sequence[Side]) -> tuple[TextSource, TextSource]:
    """Both sides of a parallel corpus: two files, or two lists of texts."""
    if isinstance(sides, str | os.PathLike) or len(sides) != 2:
        raise InputError(
            "is not a pair",
            argument="parallel",
            use="give two files, or two lists of texts: the sources and their translations",
        )
    return _side(sides[0], "source"), _side(sides[1], "target")


def _side(side: Side, which: str) -> TextSource:
    """One side of a parallel corpus; `which`: source or target."""
    if not isinstance(side, str | os.PathLike):
        count = f"{len(side):,} {which} texts"
        texts = tuple(str(text) for text in side)
        return TextSource(name=count, texts=texts, argument="parallel")
    path = user_path(side, "parallel")
    if not path.is_file():
        raise InputError(
            f"{str(path)!r} is not a file", argument="parallel", use="give one with a text per line"
        )
    if path.suffix != ".jsonl":
        text_lines(path)  # raises for the name of a table or of other records; reads nothing yet
    return TextSource(name=path.name, path=path, argument="parallel")
