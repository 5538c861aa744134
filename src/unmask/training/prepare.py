"""From corpus files to what a run trains and validates on: tokenizer, packed rows, held-out rows, and their fingerprint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

from unmask.errors import InputError
from unmask.training.corpus import Source, fingerprint, read_lines
from unmask.training.files import write_atomic
from unmask.training.packing import PackedRows, pack_cached
from unmask.training.segments import Segmentation
from unmask.training.settings import TrainSettings
from unmask.training.token_store import StoredTokens, tokenise
from unmask.training.tokenizer import count_words, load_tokenizer, special_id, train_tokenizer
from unmask.training.validation import validation_rows

Report = Callable[[str], None]
_FORMAT = 2
"""Of cached tokenizers: 1 was trained with ties broken at random."""


@dataclass(frozen=True)
class Held:
    """What validation looks at: a file, or a share of the corpus' lines; segments of at most `max_tokens`."""

    file: Path | None = None
    share: float = 0.02
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.file is None and not 0 < self.share < 1:
            raise InputError(f"--valid-share {self.share:g}: give a share between 0 and 1, or a --valid file")


@dataclass(frozen=True)
class Prepared:
    """Everything a run needs of its data."""

    tokenizer: Tokenizer
    packed: list[PackedRows]
    valid: PackedRows
    sources: tuple[Source, ...]
    source_tokens: tuple[int, ...]
    held: Held
    data: str

    @property
    def tokens(self) -> int:
        """Tokens in an epoch."""
        return sum(p.tokens for p in self.packed)


def prepare(
    sources: Sequence[Source],
    settings: TrainSettings,
    held: Held,
    cache: Path,
    tokenizer_path: Path | None = None,
    field: str = "text",
    report: Report = lambda text: None,
) -> Prepared:
    """Tokenise and pack the sources, from the cache where it holds them."""
    share = 0.0 if held.file else held.share
    cut = Segmentation(settings.segment_lengths, settings.max_length, share)
    if tokenizer_path is None:
        tokenizer = _trained_tokenizer(sources, settings.vocab, cut, cache, field, report)
    else:
        tokenizer = load_tokenizer(tokenizer_path)
    stored = [_tokenised(s.path, tokenizer, cut, cache, field, report) for s in sources]
    if not any(s.train.tokens for s in stored):
        names = ", ".join(str(s.path) for s in sources)
        raise InputError(f"the corpus is empty: no text in {names}")
    pad = special_id(tokenizer, "[PAD]")
    weights = [s.weight for s in sources]
    packed = pack_cached(stored, weights, settings.buckets, pad, settings.seed, cache)
    limit = held.max_tokens or settings.max_length
    if held.file:
        held_cut = Segmentation((min(limit, settings.max_length),), settings.max_length, 0.0)
        parts = [_tokenised(held.file, tokenizer, held_cut, cache, field, report).train]
    else:
        parts = [s.valid for s in stored]
    valid = validation_rows(parts, limit, settings.max_length, pad)
    key = [[s.fingerprint for s in stored], weights, tokenizer.to_str()]
    data = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:16]
    return Prepared(tokenizer, packed, valid, tuple(sources), tuple(s.train.tokens for s in stored), held, data)


def _tokenised(path: Path, tokenizer: Tokenizer, cut: Segmentation, cache: Path, field: str, report: Report) -> StoredTokens:
    report(f"tokenising {path.name}")
    return tokenise(path, tokenizer, cut, cache, field, lambda lines: report(f"tokenising {path.name}: {lines:,} lines"))


def _trained_tokenizer(
    sources: Sequence[Source], vocab: int, cut: Segmentation, cache: Path, field: str, report: Report
) -> Tokenizer:
    key = [_FORMAT, [(fingerprint(s.path), s.weight) for s in sources], vocab, cut.holdout, field]
    file = cache / f"tokenizer-{hashlib.sha256(json.dumps(key).encode()).hexdigest()[:24]}.json"
    if file.exists():
        return Tokenizer.from_file(str(file))

    def lines() -> Iterator[tuple[str, int]]:
        count = 0
        for source in sources:
            for line in read_lines(source.path, field):
                count += 1
                if count % 50_000 == 0:
                    report(f"training the tokenizer: {count:,} lines")
                if not cut.holds_out(line):
                    yield line, max(1, round(source.weight))
        if not count:
            raise InputError(f"the corpus is empty: no text in {', '.join(str(s.path) for s in sources)}")

    report("training the tokenizer")
    tokenizer = train_tokenizer(count_words(lines()), vocab)
    write_atomic(file, tokenizer.to_str(), "free some space, or name another folder with --cache")
    return tokenizer
