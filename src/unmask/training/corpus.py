"""Reading a corpus: lines of text from .txt, .txt.xz, .txt.gz and .jsonl files, one unit of text a line."""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from unmask.errors import InputError

SUFFIXES = (".txt", ".txt.xz", ".txt.gz", ".jsonl")
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Source:
    """One corpus file, and how many times an epoch its lines are seen."""

    path: Path
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not self.path.is_file():
            raise InputError(f"corpus {self.path} is not a file: give a {', '.join(SUFFIXES)} file")
        if not self.path.name.endswith(SUFFIXES):
            raise InputError(f"corpus {self.path} has an unknown ending: give a {', '.join(SUFFIXES)} file")
        if not 0 < self.weight < 1e6:
            raise InputError(
                f"weight {self.weight:g} of {self.path}: give a number above 0, for example 5 to see its lines five times"
            )


def sources(paths: Sequence[Path], weights: Sequence[float] = ()) -> tuple[Source, ...]:
    """One source a path; `weights` is empty (all 1) or has one number a path."""
    if weights and len(weights) != len(paths):
        raise InputError(f"{len(weights)} weights for {len(paths)} corpus files: give one --weight a file, in their order")
    return tuple(Source(p, w) for p, w in zip(paths, weights or [1.0] * len(paths), strict=True))


def read_lines(path: Path, field: str = "text") -> Iterator[str]:
    """The non-empty lines of a file, stripped; of a .jsonl file, the text under `field` of each line."""
    is_json = path.name.endswith(".jsonl")
    offset = number = 0
    with _open(path) as stream:
        for raw in _raw_lines(stream, path):
            number += 1
            try:
                line = raw.decode("utf-8").strip()
            except UnicodeDecodeError as error:
                raise InputError(
                    f"{path}: byte {offset + error.start} (line {number}) is not UTF-8: convert the file, for example with iconv"
                ) from None
            offset += len(raw)
            if line and is_json:
                line = _field(line, field, path, number)
            if line:
                yield line


def fingerprint(path: Path) -> str:
    """SHA-256 of a file's bytes, as stored."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _open(path: Path) -> IO[bytes]:
    if path.name.endswith(".xz"):
        return lzma.open(path, "rb")
    if path.name.endswith(".gz"):
        return gzip.open(path, "rb")  # type: ignore[return-value]
    return path.open("rb")


def _raw_lines(stream: IO[bytes], path: Path) -> Iterator[bytes]:
    """Like iterating over `stream`, in blocks; a damaged archive is a user's error."""
    rest = b""
    try:
        while block := stream.read(_BLOCK):
            lines = (rest + block).split(b"\n")
            rest = lines.pop()
            for line in lines:
                yield line + b"\n"
    except (lzma.LZMAError, gzip.BadGzipFile, EOFError) as error:
        raise InputError(f"{path} is damaged or not a compressed file ({error}): make it again") from None
    if rest:
        yield rest


def _field(line: str, field: str, path: Path, number: int) -> str:
    try:
        text = json.loads(line)[field]
    except (json.JSONDecodeError, KeyError, TypeError):
        text = None
    if not isinstance(text, str):
        raise InputError(
            f'{path}, line {number}: no text under "{field}"; give lines like {{"{field}": "..."}} or name the --field'
        )
    return " ".join(text.split())
