"""Texts to train on: .txt, .txt.xz, .txt.gz and .jsonl files or texts in memory, cut into segments of tokens.

A line is cut after sentence ends; its sentences are joined from the left while the segment stays within L tokens, the
start and end tokens included. L is drawn for each line from the given lengths by a hash of its text, so that a model
meets single sentences and whole paragraphs and the cut does not depend on the order of the corpus. A sentence
longer than L is a segment of its own; one longer than the model's limit is cut between words.

Results are computed once: each has a folder, named by a fingerprint of all inputs. It is whole if every file listed in its
contents.json has the size and the checksum noted there; a damaged one is made again. The tokens of a source are such a result, of
its content, the tokenizer and the segmentation: `ids.bin`, the segments' ids end to end (uint16, or uint32 for vocabularies above
65,536), and `lengths.npy`, the length of each segment, for training and for validation.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import json
import os
import re
import shutil
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from uuid import uuid4

import numpy as np
from jaxtyping import Bool, Int, UInt
from tokenizers import Tokenizer

from unmask.errors import InputError
from unmask.models.text.word_pieces import CONTINUES, special_id
from unmask.runs.files import parse_json, read_object, write_json, writing
from unmask.runs.fingerprint import content_hash, file_hash
from unmask.runs.lines import numbered_lines
from unmask.runs.progress import Progress

SUFFIXES = (".txt", ".txt.xz", ".txt.gz", ".jsonl")
_SENTENCE_END = re.compile(r"""(?<=[.!?])["'”’)\]]*\s+(?=["'“‘(\[]?[A-Z0-9])""")
_HASH_SPACE = 1 << 32
CONTENTS = "contents.json"
PARTS = "train", "valid"
_BLOCK = 1 << 24
_FORMAT = 2
_LINES_PER_TASK = 4000
_PARALLEL_FROM_BYTES = 8_000_000
_worker: tuple[Segmenter, type[np.unsignedinteger]] | None = None


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
        return cls(path.name, path, (), weight, field)

    def lines(self) -> Iterator[str]:
        """The non-empty texts, each as one line."""
        for where, text in self._read():
            try:
                text.encode()
            except UnicodeEncodeError:
                raise InputError(f"{where}: half of a surrogate pair, which is not a character: correct the text") from None
            if text:
                yield text

    def _read(self) -> Iterator[tuple[str, str]]:
        """Where each text is, and the text."""
        if self.path is None:
            yield from ((f"text {number}", " ".join(text.split())) for number, text in enumerate(self.texts, 1))
            return
        for number, line in numbered_lines(self.path):
            if stripped := line.strip():
                where = f"{self.path} line {number}"
                yield where, _field(stripped, self.field, where) if self.path.suffix == ".jsonl" else stripped

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
            end = next((place for place in range(room, 0, -1) if not self.continues[ids[place]]), room)
            pieces.append(ids[:end])
            ids = ids[end:]
        return [*pieces, ids] if ids else pieces


def _hash(line: str, purpose: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(line.encode(), digest_size=4, person=purpose).digest(), "little")


def cached(cache: Path, kind: str, inputs: object, make: Callable[[Path], None]) -> Path:
    """The folder of the result for `inputs` (plain values); `make` fills a new one unless a whole one exists."""
    folder = cache / f"{kind}-{hashlib.sha256(json.dumps(inputs).encode()).hexdigest()[:24]}"
    if _is_whole(folder):
        return folder
    temporary = folder.with_name(f".{folder.name}.{uuid4().hex}.tmp")  # machines that share a cache have equal process ids
    with writing(folder, "free some space, or name another folder with --cache"):
        try:
            temporary.mkdir(parents=True)
            make(temporary)
            write_json(temporary / CONTENTS, {file.name: _summary(file) for file in sorted(temporary.iterdir())})
            if not _is_whole(folder):
                _put(temporary, folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return folder


def _put(temporary: Path, folder: Path) -> None:
    """Move a new folder to its place, over a damaged one; keep one that another process made meanwhile."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.is_file():
        folder.unlink()
    try:
        temporary.rename(folder)
    except OSError:
        if not _is_whole(folder):
            raise


def _is_whole(folder: Path) -> bool:
    try:
        contents = read_object(folder / CONTENTS)
        return bool(contents) and all(_summary(folder / name) == summary for name, summary in contents.items())
    except (InputError, OSError):
        return False


def _summary(file: Path) -> list[int]:
    """Size and CRC-32."""
    checksum = 0
    with file.open("rb") as stream:
        while block := stream.read(_BLOCK):
            checksum = zlib.crc32(block, checksum)
    return [file.stat().st_size, checksum]


@dataclass(frozen=True)
class TokenPart:
    """Segments of token ids: `ids` end to end and the length of each."""

    ids: UInt[np.ndarray, " tokens"]
    lengths: Int[np.ndarray, " segments"]

    @property
    def tokens(self) -> int:
        """Tokens in all, start and end tokens included."""
        return int(self.lengths.sum(dtype=np.int64))


@dataclass(frozen=True)
class StoredTokens:
    """The tokens of a corpus file: its training part, the held-out part, and the fingerprint of both."""

    train: TokenPart
    valid: TokenPart
    fingerprint: str


def id_type(tokenizer: Tokenizer) -> type[np.unsignedinteger]:
    """The narrowest type that holds every id."""
    return np.uint16 if tokenizer.get_vocab_size() <= 1 << 16 else np.uint32


def joined(segments: list[list[int]], dtype: type[np.unsignedinteger]) -> TokenPart:
    """Segments of token ids, end to end."""
    lengths = np.fromiter(map(len, segments), np.int32, len(segments))
    return TokenPart(np.fromiter(itertools.chain.from_iterable(segments), dtype, int(lengths.sum())), lengths)


def tokenise(
    source: TextSource, tokenizer: Tokenizer, settings: Segmentation, cache: Path, progress: Progress | None = None
) -> StoredTokens:
    """The tokens of one source, from the cache or made now; `progress` is called with the lines done so far."""
    dtype = id_type(tokenizer)
    inputs = [_FORMAT, source.fingerprint, tokenizer.to_str(), dataclasses.asdict(settings)]

    def make(folder: Path) -> None:
        several = source.size >= _PARALLEL_FROM_BYTES and hasattr(os, "sched_getaffinity")
        workers = len(os.sched_getaffinity(0)) if several else 1
        lines, done = source.lines(), 0
        tasks = iter(lambda: list(itertools.islice(lines, _LINES_PER_TASK)), [])
        lengths: list[list[np.ndarray]] = [[np.empty(0, np.int32)] for _ in PARTS]
        with contextlib.ExitStack() as stack:
            streams = [stack.enter_context((folder / f"{name}.ids.bin").open("wb")) for name in PARTS]
            for count, pair in _results(tasks, (tokenizer.to_str(), settings, dtype), workers):
                for part, stream, known in zip(pair, streams, lengths, strict=True):
                    stream.write(part.ids.tobytes())
                    known.append(part.lengths)
                done += count
                if progress:
                    progress(done, 0, f"lines of {source.name} tokenised")
        for name, known in zip(PARTS, lengths, strict=True):
            np.save(folder / f"{name}.lengths.npy", np.concatenate(known))

    folder = cached(cache, "tokens", inputs, make)
    files = [folder / f"{name}.ids.bin" for name in PARTS]
    ids = [np.memmap(file, dtype=dtype, mode="r") if file.stat().st_size else np.empty(0, dtype) for file in files]
    train, valid = (TokenPart(part, np.load(folder / f"{name}.lengths.npy")) for part, name in zip(ids, PARTS, strict=True))
    return StoredTokens(train, valid, content_hash(repr(inputs)))


def _results(
    tasks: Iterator[list[str]], arguments: tuple[str, Segmentation, type[np.unsignedinteger]], workers: int
) -> Iterator[tuple[int, tuple[TokenPart, TokenPart]]]:
    """The number of lines and the parts of each task, in order; at most 4 tasks per worker wait."""
    if workers == 1:
        _start_worker(*arguments)
        yield from ((len(task), _work(task)) for task in tasks)
        return
    with ProcessPoolExecutor(workers, get_context("spawn"), _start_worker, arguments) as pool:
        waiting: deque[tuple[int, Future[tuple[TokenPart, TokenPart]]]] = deque()
        for task in tasks:
            waiting.append((len(task), pool.submit(_work, task)))
            if len(waiting) > 4 * workers:
                count, future = waiting.popleft()
                yield count, future.result()
        for count, future in waiting:
            yield count, future.result()


def _start_worker(tokenizer: str, settings: Segmentation, dtype: type[np.unsignedinteger]) -> None:
    global _worker
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    _worker = Segmenter(Tokenizer.from_str(tokenizer), settings), dtype


def _work(lines: list[str]) -> tuple[TokenPart, TokenPart]:
    assert _worker is not None
    segmenter, dtype = _worker
    held = [segmenter.settings.holds_out(line) for line in lines]
    train = segmenter([line for line, out in zip(lines, held, strict=True) if not out])
    valid = segmenter([line for line, out in zip(lines, held, strict=True) if out])
    return joined(train, dtype), joined(valid, dtype)
