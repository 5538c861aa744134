"""From a corpus to the data of a run: tokenizer, packed rows, held-out rows, and their fingerprints."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from unmask.errors import InputError, UnmaskWarning
from unmask.models.text.word_pieces import count_words, load_word_pieces, special_id, train_tokenizer
from unmask.runs.files import write_atomically
from unmask.runs.fingerprint import content_hash
from unmask.runs.progress import Progress
from unmask.training.corpus import Segmentation, TextSource
from unmask.training.packing import PackedRows, pack_cached, validation_rows
from unmask.training.settings import TrainSettings
from unmask.training.token_store import StoredTokens, TokenPart, cached, tokenise
from unmask.translation.pairs import PairLayout

_FORMAT = 3
"""Version of cached tokenizers. In 1 ties were broken at random; 2 had fewer letters."""
_LINES_PER_REPORT = 50_000
MUCH = 0.02
"""A corpus with a larger share of unknown tokens does not suit its tokenizer."""


@dataclass(frozen=True)
class Held:
    """Validation data: a separate source, or a share of the corpus' lines; segments of at most `max_tokens`."""

    source: TextSource | None = None
    share: float = 0.02
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.source is None and not 0 < self.share < 1:
            raise InputError(f"valid_share {self.share:g} is out of range: give a share between 0 and 1, or a --valid file")


@dataclass(frozen=True)
class PairTokens:
    """The training pairs of a parallel corpus: token ids of both sides, without special tokens."""

    layout: PairLayout
    sources: list[list[int]]
    targets: list[list[int]]


@dataclass(frozen=True)
class Prepared:
    """Everything a run needs of its data; `corpus` is the fingerprint of texts, weights and cut."""

    tokenizer: Tokenizer
    packed: list[PackedRows]
    valid: PackedRows
    sources: tuple[TextSource, ...]
    source_tokens: tuple[int, ...]
    held: Held
    corpus: str
    pairs: PairTokens | None = None

    @property
    def tokens(self) -> int:
        """Tokens in an epoch."""
        return sum(p.tokens for p in self.packed)


def prepare(
    sources: Sequence[TextSource],
    settings: TrainSettings,
    held: Held,
    cache: Path,
    tokenizer_path: Path | None = None,
    progress: Progress | None = None,
) -> Prepared:
    """Tokenise and pack the sources, from the cache if possible."""
    cut = Segmentation(settings.segment_lengths, settings.max_length, 0.0 if held.source else held.share)
    if tokenizer_path is None:
        tokenizer = trained_tokenizer(sources, settings.vocab, cut, cache, progress)
    else:
        tokenizer = load_word_pieces(tokenizer_path)
    stored = [_tokenised(source, tokenizer, cut, cache, progress) for source in sources]
    if not any(s.train.tokens for s in stored):
        raise _no_text(sources)
    warn_of_unknown([s.train for s in stored], tokenizer)
    pad = special_id(tokenizer, "[PAD]")
    weights = [s.weight for s in sources]
    packed = pack_cached(stored, weights, settings.buckets, pad, settings.seed, cache)
    limit = held.max_tokens or settings.max_length
    if held.source:
        held_cut = Segmentation((min(limit, settings.max_length),), settings.max_length, 0.0)
        parts = [_tokenised(held.source, tokenizer, held_cut, cache, progress).train]
        if not any(part.tokens for part in parts):
            raise InputError(f"--valid {held.source.name} has no text: give another file, or omit it")
    else:
        parts = [s.valid for s in stored]
    valid = validation_rows(parts, limit, settings.max_length, pad)
    corpus = content_hash(repr([[s.fingerprint for s in stored], weights]))
    return Prepared(tokenizer, packed, valid, tuple(sources), tuple(s.train.tokens for s in stored), held, corpus)


def warn_of_unknown(parts: Sequence[TokenPart], tokenizer: Tokenizer) -> None:
    """Warn if much of the text is the unknown token: a model learns to predict it too often."""
    unknown = special_id(tokenizer, "[UNK]")
    share = sum(int(np.count_nonzero(part.ids == unknown)) for part in parts) / sum(part.tokens for part in parts)
    if share > MUCH:
        warnings.warn(
            f"{share:.0%} of the corpus is [UNK], words that the tokenizer cannot spell: give a tokenizer of such texts, "
            "or leave out --tokenizer and --init, so that one is trained",
            UnmaskWarning,
            stacklevel=4,
        )


def _tokenised(
    source: TextSource, tokenizer: Tokenizer, cut: Segmentation, cache: Path, progress: Progress | None
) -> StoredTokens:
    def report(lines: int) -> None:
        if progress:
            progress(lines, 0, f"lines of {source.name} tokenised")

    return tokenise(source, tokenizer, cut, cache, report)


def trained_tokenizer(
    sources: Sequence[TextSource], vocab: int, cut: Segmentation, cache: Path, progress: Progress | None
) -> Tokenizer:
    """A tokenizer of at most `vocab` tokens for all sources together, from the cache if possible."""

    def lines() -> Iterator[tuple[str, int]]:
        count = 0
        for source in sources:
            for line in source.lines():
                count += 1
                if progress and count % _LINES_PER_REPORT == 0:
                    progress(count, 0, "lines read for the tokenizer")
                if not cut.holds_out(line):
                    yield line, max(1, round(source.weight))
        if not count:
            raise _no_text(sources)

    def make(folder: Path) -> None:
        write_atomically(folder / "tokenizer.json", train_tokenizer(count_words(lines()), vocab).to_str())

    inputs = [_FORMAT, [(source.fingerprint, source.weight) for source in sources], vocab, cut.holdout]
    return load_word_pieces(cached(cache, "tokenizer", inputs, make))


def _no_text(sources: Sequence[TextSource]) -> InputError:
    return InputError(f"the corpus is empty: no text in {', '.join(str(s.path or s.name) for s in sources)}")
