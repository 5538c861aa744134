"""From a corpus to the data of a run: its tokenizer, packed rows, held-out rows, and fingerprint.

Lines of the sources (`text_sources`) become segments (`segmentation`), segments become token ids
(`tokenising`), and these are packed into rows (`packing`). A tokenizer that is trained and the
tokens of each source are kept in the user's cache. `parallel_corpus` does the same for pairs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from unmask.common.errors import InputError, argument_name
from unmask.common.files import write_atomically
from unmask.common.warn import warn
from unmask.models.pair_layout import PairLayout
from unmask.models.text.word_pieces import load_word_pieces, special_id
from unmask.runs.fingerprint import content_hash
from unmask.runs.progress import Progress
from unmask.studies.training.cache import cached
from unmask.studies.training.packing import PackedRows, TokenPart, pack, validation_rows
from unmask.studies.training.segmentation import Segmentation
from unmask.studies.training.settings import SEGMENTS, TrainSettings
from unmask.studies.training.text_sources import TextSource
from unmask.studies.training.tokenising import tokenise
from unmask.studies.training.word_piece_training import train_tokenizer

TOKENIZER_FORMAT = 4
"""Version of a cached tokenizer. The name of its folder is a hash of it and of other inputs, so
tokenizers of other versions are not read."""
LINES_PER_REPORT = 50_000  # lines between two reports of progress
LARGEST_UNKNOWN_SHARE = 0.02
"""A corpus with a larger share of unknown tokens does not suit its tokenizer."""


@dataclass(frozen=True)
class PairTokens:
    """The training pairs of a parallel corpus: token ids of both sides, without special tokens."""

    layout: PairLayout
    sources: list[list[int]]
    targets: list[list[int]]


@dataclass(frozen=True)
class TrainingData:
    """Everything a run needs of its data.

    packed          rows to train on
    valid           rows to validate on
    source_tokens   tokens to train on of each source
    held_out        which texts are held out, in words
    fingerprint     a hash of the texts, their tokenizer, cut and weights; of a parallel corpus,
                    a hash of the tokens to train on
    pairs           the pairs of a parallel corpus; None for texts
    """

    tokenizer: Tokenizer
    packed: PackedRows
    valid: PackedRows
    sources: tuple[TextSource, ...]
    source_tokens: tuple[int, ...]
    held_out: str
    fingerprint: str
    pairs: PairTokens | None = None


def prepare(
    sources: Sequence[TextSource],
    settings: TrainSettings,
    valid_share: float,
    valid: TextSource | None = None,
    tokenizer_path: Path | None = None,
    progress: Progress | None = None,
    resumed: bool = False,
) -> TrainingData:
    """Tokenise and pack the sources, from the cache if possible.

    Validation uses the texts of `valid`, or without them `valid_share` of the lines. A run that is
    `resumed` is not warned of unknown tokens.
    """
    shorter = [length for length in SEGMENTS if length < settings.max_length]
    cut = Segmentation(
        lengths=(*shorter, settings.max_length),
        max_length=settings.max_length,
        holdout=valid_share if valid is None else 0.0,
    )
    tokenizer = tokenizer_of(sources, settings.vocab, cut, path=tokenizer_path, progress=progress)
    tokenised = [tokenise(source, tokenizer, cut, progress) for source in sources]
    train = [of_source.train for of_source in tokenised]
    if not any(part.tokens for part in train):
        raise _no_text(sources)
    if not resumed:  # a resumed run keeps its tokenizer
        warn_of_unknown(train, tokenizer, tokenizer_path, settings.vocab)
    weights = [source.weight for source in sources]
    pad = special_id(tokenizer, "[PAD]")
    packed = pack(train, weights, settings.max_length, pad, seed=settings.seed)

    if valid is None:
        held_out_parts = [of_source.held_out for of_source in tokenised]
        held_out = share_in_words(valid_share)
        if all(part.is_empty for part in held_out_parts):
            own_texts = argument_name("valid")
            larger = argument_name("valid_share")
            raise InputError(f"no segment is held out: give {own_texts}, or a larger {larger}")
    else:
        # Every segment may be as long as the model takes. This cut holds out nothing, so to
        # `tokenise` all tokens of `valid` are training tokens.
        cut_of_valid = Segmentation(lengths=(settings.max_length,), max_length=settings.max_length)
        held_out_parts = [tokenise(valid, tokenizer, cut_of_valid, progress).train]
        held_out = valid.name
        if all(part.is_empty for part in held_out_parts):
            raise InputError(
                f"{valid.name} has no text",
                argument="valid",
                use="give another file, or leave it out",
            )
    rows = validation_rows(held_out_parts, settings.max_length, pad)
    fingerprints = [of_source.fingerprint for of_source in tokenised]
    return TrainingData(
        tokenizer=tokenizer,
        packed=packed,
        valid=rows,
        sources=tuple(sources),
        source_tokens=tuple(part.tokens for part in train),
        held_out=held_out,
        fingerprint=content_hash(repr([fingerprints, weights])),
    )


def share_in_words(valid_share: float) -> str:
    """Which texts are held out if a share of the corpus is."""
    return f"{valid_share:.3g} of the corpus' lines, by a hash of the line"


def warn_of_unknown(
    parts: Sequence[TokenPart], tokenizer: Tokenizer, path: Path | None, vocab: int
) -> None:
    """Warn if much of the text is the unknown token: a model learns to predict it too often.

    path    of the tokenizer that the user named, or of the model to start from; None if it was
            trained, on at most `vocab` tokens
    """
    unknown = special_id(tokenizer, "[UNK]")
    unknown_tokens = sum(int(np.count_nonzero(part.ids == unknown)) for part in parts)
    share = unknown_tokens / sum(part.tokens for part in parts)
    if share <= LARGEST_UNKNOWN_SHARE:
        return
    if path is None:
        advice = f"give a larger {argument_name('vocab')} than {vocab}"
    else:
        others = f"{argument_name('tokenizer')} and {argument_name('init')}"
        advice = f"give a tokenizer of such texts, or leave out {others}, so that one is trained"
    problem = f"{share:.0%} of the corpus is [UNK], words that the tokenizer cannot spell"
    warn(f"{problem}: {advice}")


def tokenizer_of(
    sources: Sequence[TextSource],
    vocab: int,
    cut: Segmentation,
    path: Path | None,
    progress: Progress | None,
) -> Tokenizer:
    """The tokenizer at `path`, or without one a tokenizer of at most `vocab` tokens.

    It is trained on all sources together, without the lines that `cut` holds out, or comes from the
    cache.
    """
    if path is not None:
        return load_word_pieces(path)

    def lines() -> Iterator[str]:
        return _lines_to_learn(sources, cut, progress)

    def make(folder: Path) -> None:
        trained = train_tokenizer(lines, vocab)
        write_atomically(folder / "tokenizer.json", trained.to_str())

    weighted = [(source.fingerprint, source.weight) for source in sources]
    inputs = [TOKENIZER_FORMAT, weighted, vocab, cut.holdout]
    return load_word_pieces(cached("tokenizer", inputs, make))


def _lines_to_learn(
    sources: Sequence[TextSource], cut: Segmentation, progress: Progress | None
) -> Iterator[str]:
    """The lines that a tokenizer learns from: all that are not held out, repeated by weight.

    Raises InputError if there is no line at all.
    """
    count = 0
    for source in sources:
        # At least once: the words of a source with a small weight need tokens, too.
        times = max(1, round(source.weight))
        for line in source.lines():
            count += 1
            if progress and count % LINES_PER_REPORT == 0:
                progress(count, 0, "lines read for the tokenizer")  # 0: in all, not known
            if not cut.holds_out(line):
                yield from itertools.repeat(line, times)
    if count == 0:
        raise _no_text(sources)


def _no_text(sources: Sequence[TextSource]) -> InputError:
    names = ", ".join(str(source.path or source.name) for source in sources)
    return InputError(
        f"is empty, no text in {names}", argument=sources[0].argument, use="give texts"
    )
