"""Tokenise once: a corpus file becomes a memory-mapped file of token ids, kept under a fingerprint of what went in.

A stored part is two files: `ids.bin`, the segments' ids end to end (uint16, or uint32 for vocabularies above 65,536),
and `lengths.npy`, one length a segment. The folder's name is the SHA-256 of the corpus file's bytes, the tokenizer and
the segmentation, so a change of any of them tokenises again, and nothing else does.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import json
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from unmask.training.corpus import fingerprint, read_lines
from unmask.training.files import disk_space_errors
from unmask.training.segments import Segmentation, Segmenter

_FORMAT = 1
_LINES_A_TASK = 4000
_PARALLEL_FROM_BYTES = 8_000_000
Chunk = tuple[NDArray[np.unsignedinteger], NDArray[np.int32]]


@dataclass(frozen=True)
class TokenPart:
    """Segments of token ids: `ids` end to end and the length of each."""

    ids: NDArray[np.unsignedinteger]
    lengths: NDArray[np.int32]

    @property
    def tokens(self) -> int:
        """Tokens in all, start and end tokens included."""
        return int(self.lengths.sum(dtype=np.int64))


@dataclass(frozen=True)
class StoredTokens:
    """What a corpus file became: its training part, the part held out, and the fingerprint of both."""

    train: TokenPart
    valid: TokenPart
    fingerprint: str


def tokenise(
    path: Path,
    tokenizer: Tokenizer,
    settings: Segmentation,
    cache: Path,
    field: str = "text",
    progress: Callable[[int], None] | None = None,
) -> StoredTokens:
    """The tokens of one corpus file, from the cache or made now; `progress` is called with the lines done so far."""
    dtype = np.uint16 if tokenizer.get_vocab_size() <= 1 << 16 else np.uint32
    key = _key(path, tokenizer, settings, field)
    folder = cache / f"tokens-{key[:24]}"
    if not folder.is_dir():
        temporary = cache / f".tokens-{key[:24]}.{os.getpid()}.tmp"
        try:
            with disk_space_errors(folder, "free some space, or name another folder with --cache"):
                temporary.mkdir(parents=True)
                chunks = _tokenise_lines(read_lines(path, field), tokenizer, settings, dtype, _workers(path), progress)
                _write(temporary, chunks)
                with contextlib.suppress(FileExistsError):
                    temporary.rename(folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return StoredTokens(_part(folder, "train", dtype), _part(folder, "valid", dtype), key)


def _key(path: Path, tokenizer: Tokenizer, settings: Segmentation, field: str) -> str:
    inputs = [
        _FORMAT,
        fingerprint(path),
        tokenizer.to_str(),
        dataclasses.asdict(settings),
        field if path.suffix == ".jsonl" else "",
    ]
    return hashlib.sha256(json.dumps(inputs).encode()).hexdigest()


def _workers(path: Path) -> int:
    size = path.stat().st_size * (4 if path.suffix in (".xz", ".gz") else 1)
    return len(os.sched_getaffinity(0)) if size >= _PARALLEL_FROM_BYTES and hasattr(os, "sched_getaffinity") else 1


def _write(folder: Path, chunks: Iterator[tuple[Chunk, Chunk]]) -> None:
    names = ("train", "valid")
    lengths: dict[str, list[NDArray[np.int32]]] = {name: [np.empty(0, np.int32)] for name in names}
    with contextlib.ExitStack() as stack:
        streams = {name: stack.enter_context((folder / f"{name}.ids.bin").open("wb")) for name in names}
        for pair in chunks:
            for name, (ids, sizes) in zip(names, pair, strict=True):
                streams[name].write(ids.tobytes())
                lengths[name].append(sizes)
    for name in names:
        np.save(folder / f"{name}.lengths.npy", np.concatenate(lengths[name]))


def _part(folder: Path, name: str, dtype: type[np.unsignedinteger]) -> TokenPart:
    lengths = np.load(folder / f"{name}.lengths.npy")
    file = folder / f"{name}.ids.bin"
    ids = np.memmap(file, dtype=dtype, mode="r") if file.stat().st_size else np.empty(0, dtype)
    return TokenPart(ids, lengths)


def _tokenise_lines(
    lines: Iterator[str],
    tokenizer: Tokenizer,
    settings: Segmentation,
    dtype: type[np.unsignedinteger],
    workers: int,
    progress: Callable[[int], None] | None,
) -> Iterator[tuple[Chunk, Chunk]]:
    """(training chunk, held-out chunk) for each run of lines, in the order of the file."""
    tasks = iter(lambda: list(itertools.islice(lines, _LINES_A_TASK)), [])
    done = 0
    if workers == 1:
        _start_worker(tokenizer.to_str(), settings, dtype)
        for task in tasks:
            yield _work(task)
            done += len(task)
            if progress:
                progress(done)
        return
    arguments = (tokenizer.to_str(), settings, dtype)
    with ProcessPoolExecutor(workers, get_context("spawn"), _start_worker, arguments) as pool:
        waiting: deque[tuple[int, Future[tuple[Chunk, Chunk]]]] = deque()
        for task in tasks:
            waiting.append((len(task), pool.submit(_work, task)))
            if len(waiting) > 4 * workers:
                count, future = waiting.popleft()
                yield future.result()
                done += count
                if progress:
                    progress(done)
        for _, future in waiting:
            yield future.result()


_worker: tuple[Segmenter, type[np.unsignedinteger]] | None = None


def _start_worker(tokenizer: str, settings: Segmentation, dtype: type[np.unsignedinteger]) -> None:
    global _worker
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    _worker = Segmenter(Tokenizer.from_str(tokenizer), settings), dtype


def _work(lines: list[str]) -> tuple[Chunk, Chunk]:
    assert _worker is not None
    segmenter, dtype = _worker
    held = [segmenter.settings.holds_out(line) for line in lines]
    train = segmenter([line for line, out in zip(lines, held, strict=True) if not out])
    valid = segmenter([line for line, out in zip(lines, held, strict=True) if out])
    return _chunk(train, dtype), _chunk(valid, dtype)


def _chunk(segments: list[list[int]], dtype: type[np.unsignedinteger]) -> Chunk:
    lengths = np.fromiter(map(len, segments), np.int32, len(segments))
    return np.fromiter(itertools.chain.from_iterable(segments), dtype, int(lengths.sum())), lengths
