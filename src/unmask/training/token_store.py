"""Results that are computed once, and the tokens of a corpus among them: a folder each, named by a fingerprint of all inputs.

A folder is whole if every file listed in its contents.json has the size and the checksum noted there; a damaged one is made
again.

A corpus file becomes a memory-mapped file of token ids. A stored part is two files: `ids.bin`, the segments' ids end to end
(uint16, or uint32 for vocabularies above 65,536), and `lengths.npy`, the length of each segment. The inputs are the corpus'
content, the tokenizer and the segmentation: a change of any of them tokenises again, and nothing else does.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import json
import os
import shutil
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from uuid import uuid4

import numpy as np
from jaxtyping import Int, UInt
from tokenizers import Tokenizer

from unmask.errors import InputError
from unmask.runs.files import read_object, reading, user_path, write_json, writing
from unmask.runs.fingerprint import content_hash
from unmask.runs.outputs import run_in
from unmask.runs.progress import Progress
from unmask.training.corpus import Segmentation, Segmenter, TextSource

CONTENTS = "contents.json"
PARTS = "train", "valid"
_BLOCK = 1 << 24
_FORMAT = 2
_LINES_PER_TASK = 4000
_PARALLEL_FROM_BYTES = 8_000_000


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


def default_cache() -> Path:
    """The cache folder if the user names none."""
    return user_path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "cache") / "unmask"


def cache_folder(path: Path) -> Path:
    """`path`, if it is new or holds only folders, as a cache does. Raises InputError for a model, a run or a project."""
    with reading(path):
        if path.exists() and not path.is_dir():
            raise InputError(f"cache {str(path)!r} is a file: name a folder")
        files = sorted(entry.name for entry in path.iterdir() if entry.is_file()) if path.is_dir() else []
    if files or run_in(path):
        what = repr(files[0]) if files else "a run"
        raise InputError(f"cache {str(path)!r} holds {what}, which is not part of a cache: name a new or empty folder")
    return path


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
    source: TextSource,
    tokenizer: Tokenizer,
    settings: Segmentation,
    cache: Path,
    progress: Progress | None = None,
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
    train, valid = (_part(folder, name, dtype) for name in PARTS)
    return StoredTokens(train, valid, content_hash(repr(inputs)))


def _part(folder: Path, name: str, dtype: type[np.unsignedinteger]) -> TokenPart:
    lengths = np.load(folder / f"{name}.lengths.npy")
    file = folder / f"{name}.ids.bin"
    ids = np.memmap(file, dtype=dtype, mode="r") if file.stat().st_size else np.empty(0, dtype)
    return TokenPart(ids, lengths)


def _results(
    tasks: Iterator[list[str]], arguments: tuple[str, Segmentation, type[np.unsignedinteger]], workers: int
) -> Iterator[tuple[int, tuple[TokenPart, TokenPart]]]:
    """The number of lines and the parts of each task, in order; at most 4 tasks per worker wait."""
    if workers == 1:
        _start_worker(*arguments)
        for task in tasks:
            yield len(task), _work(task)
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


_worker: tuple[Segmenter, type[np.unsignedinteger]] | None = None


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
