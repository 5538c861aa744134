"""From a corpus to the data of a run: tokenizer, packed rows, held-out rows, and their fingerprints.

A parallel corpus is two files, or two lists of texts, of which each line of the second translates the same line of the first.
Both sides share one vocabulary. A pair becomes one segment, "[CLS] source [SEP] target [SEP]" (see `translation/pairs`); what
is too long for its room is left out, with a warning, and so is a pair with an empty side. With a teacher, a causal model of
pairs, the training targets are its translations of the sources (sequence-level distillation, Kim & Rush 2016); held-out pairs
keep their own.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer

from unmask import checks
from unmask.errors import InputError, UnmaskWarning
from unmask.models.text.word_pieces import count_words, load_word_pieces, special_id, train_tokenizer
from unmask.runs.files import read_json, user_path, write_atomically, write_json
from unmask.runs.fingerprint import content_hash, file_hash, fingerprint
from unmask.runs.lines import text_lines
from unmask.runs.progress import Progress
from unmask.training.corpus import SUFFIXES, Segmentation, TextSource, TokenPart, cached, id_type, joined, tokenise
from unmask.training.packing import PackedRows, pack, pack_cached, validation_rows
from unmask.training.settings import TrainSettings
from unmask.translation.beam_search import beam_search, load_causal_pairs
from unmask.translation.pairs import SHORTEST, SPECIAL, PairLayout

_FORMAT = 3
"""Version of cached tokenizers. In 1 ties were broken at random; 2 had fewer letters."""
_LINES_PER_REPORT = 50_000
MUCH = 0.02
"""A corpus with a larger share of unknown tokens does not suit its tokenizer."""
HEAVIEST = 1_000_000
"""The largest weight of a file."""
Given = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""A corpus as a user gives it: a file, several files, or a list of texts."""
Side = str | os.PathLike[str] | Sequence[str]
"""One side of a parallel corpus, as a user names it: a file, or a list of texts."""
Pair = tuple[list[int], list[int]]
"""Tokens of a source and of its translation."""
TEACHER_BEAM = 5


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
    weights = [checks.real("weight", weight, 0, HEAVIEST, above=True) for weight in weights]
    if are_files:
        return [TextSource.file(user_path(p, name), w, field, name) for p, w in zip(given, weights, strict=True)]
    return [TextSource(f"{len(given):,} texts", None, tuple(map(str, given)), weights[0])]


def _looks_like_a_file(text: str) -> bool:
    if text.endswith(SUFFIXES):
        return True
    try:
        return bool(text.strip()) and Path(text).expanduser().exists()
    except (OSError, RuntimeError, ValueError):
        return False


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
    """Everything a run needs of its data; `corpus` is the fingerprint of texts, weights and cut, or of the pairs' tokens."""

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
    tokenizer = _tokenizer(tokenizer_path, sources, settings.vocab, cut, cache, progress)
    stored = [tokenise(source, tokenizer, cut, cache, progress) for source in sources]
    if not any(s.train.tokens for s in stored):
        raise _no_text(sources)
    warn_of_unknown([s.train for s in stored], tokenizer)
    pad = special_id(tokenizer, "[PAD]")
    weights = [s.weight for s in sources]
    packed = pack_cached(stored, weights, settings.buckets, pad, settings.seed, cache)
    limit = held.max_tokens or settings.max_length
    if held.source:
        held_cut = Segmentation((min(limit, settings.max_length),), settings.max_length, 0.0)
        parts = [tokenise(held.source, tokenizer, held_cut, cache, progress).train]
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


def _tokenizer(
    path: Path | None, sources: Sequence[TextSource], vocab: int, cut: Segmentation, cache: Path, progress: Progress | None
) -> Tokenizer:
    """The tokenizer at `path`, or one of at most `vocab` tokens for all sources together, from the cache if possible."""
    if path is not None:
        return load_word_pieces(path)

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


@dataclass(frozen=True)
class Parallel:
    """Both sides of a parallel corpus, and the model, if any, whose translations are trained on."""

    sides: tuple[TextSource, TextSource]
    teacher: Path | None = None

    @classmethod
    def of(cls, given: Sequence[Side], teacher: str | os.PathLike[str] | None = None) -> Parallel:
        """Two files or two lists of texts; the teacher is a model folder."""
        if isinstance(given, str | os.PathLike) or len(given) != 2:
            raise InputError("parallel takes two files, or two lists of texts: the sources and their translations")
        sides = _side(given[0], "source"), _side(given[1], "target")
        return cls(sides, None if teacher is None else user_path(teacher, "distil"))

    def pairs(self) -> list[tuple[str, str]]:
        """The pairs with two sides, in order; both must have the same number of lines, empty ones included."""
        given = [side.texts if side.path is None else [line for _, line in text_lines(side.path)] for side in self.sides]
        source, target = ([" ".join(text.split()) for text in side] for side in given)
        if len(source) != len(target):
            names = [side.path or side.name for side in self.sides]
            raise InputError(
                f"{names[0]} has {len(source):,} lines and {names[1]} {len(target):,}: "
                "give two files of which each line of the second translates the same line of the first"
            )
        return [(s, t) for s, t in zip(source, target, strict=True) if s and t]


def prepare_parallel(
    corpus: Parallel,
    settings: TrainSettings,
    held: Held,
    cache: Path,
    device: torch.device,
    tokenizer_path: Path | None = None,
    progress: Progress | None = None,
) -> Prepared:
    """Tokenise and pack the pairs; the teacher's translations come from the cache where it holds them."""
    sides = corpus.sides
    tokenizer = _tokenizer(tokenizer_path or corpus.teacher, sides, settings.vocab, Segmentation(), cache, progress)
    if settings.source_length < SHORTEST:
        raise InputError(f"max_length {settings.max_length} leaves {settings.source_length} tokens for a source: give 8 or more")
    layout = PairLayout(settings.source_length, settings.max_length, *(special_id(tokenizer, token) for token in SPECIAL))
    cut = Segmentation(holdout=held.share)
    parts: dict[bool, list[Pair]] = {False: [], True: []}
    for source, pair in _fitting(tokenizer, corpus.pairs(), layout):
        parts[cut.holds_out(source)].append(pair)
    train, valid = parts.values()
    if not train:
        raise InputError(f"no pair to train on in {sides[0].name} and {sides[1].name}: give more, or longer, texts")
    if corpus.teacher:
        inputs = [*(side.fingerprint for side in sides), file_hash(corpus.teacher / "model.safetensors")]
        train = _distilled(corpus.teacher, tokenizer, train, inputs, cache, device, progress)
    pairs = PairTokens(layout, [source for source, _ in train], [target for _, target in train])
    part, held_part = (joined([layout.segment(*pair) for pair in some], id_type(tokenizer)) for some in (train, valid))
    warn_of_unknown([part], tokenizer)
    packed = pack([part], [1.0], settings.buckets, layout.pad, settings.seed)
    limit, advice = held.max_tokens or layout.max_length, "give more pairs or a larger --valid-share"
    rows = validation_rows([held_part], limit, layout.max_length, layout.pad, advice=advice)
    tokens = tuple(sum(map(len, side)) for side in (pairs.sources, pairs.targets))
    return Prepared(tokenizer, packed, rows, sides, tokens, held, fingerprint(vars(part)), pairs)


def _side(given: Side, name: str) -> TextSource:
    if not isinstance(given, str | os.PathLike):
        texts = TextSource(f"{len(given):,} {name} texts", None, tuple(map(str, given)))
        for _ in texts.lines():  # refuses what is not text
            pass
        return texts
    path = user_path(given, name)
    if not path.is_file():
        raise InputError(f"{name} {str(path)!r} is not a file: give one with a text per line")
    return TextSource(path.name, path)


def _fitting(tokenizer: Tokenizer, texts: Sequence[tuple[str, str]], layout: PairLayout) -> list[tuple[str, Pair]]:
    """The source's text and both sides' tokens of every pair that has room."""
    sides = [tokenizer.encode_batch_fast([pair[i] for pair in texts], add_special_tokens=False) for i in (0, 1)]
    pairs = [(text, (s.ids, t.ids)) for (text, _), s, t in zip(texts, *sides, strict=True)]
    longest = layout.longest_source, layout.longest_target
    kept = [(text, pair) for text, pair in pairs if all(0 < len(side) <= most for side, most in zip(pair, longest, strict=True))]
    if len(kept) < len(pairs):
        warnings.warn(
            f"{len(pairs) - len(kept):,} of {len(pairs):,} pairs are longer than {longest[0]} source tokens or {longest[1]} "
            "target tokens and are left out; a larger --max-length takes them",
            UnmaskWarning,
            stacklevel=3,
        )
    return kept


def _distilled(
    teacher: Path,
    tokenizer: Tokenizer,
    pairs: Sequence[Pair],
    inputs: Sequence[str],
    cache: Path,
    device: torch.device,
    progress: Progress | None,
) -> list[Pair]:
    """The sources with the teacher's translations; one that comes out empty keeps its own."""

    def make(folder: Path) -> None:
        if tokenizer.get_vocab() != load_word_pieces(teacher).get_vocab():
            raise InputError(f"distil {str(teacher)!r} has another vocabulary: leave out --tokenizer")
        dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        model = load_causal_pairs(teacher, tokenizer, device, dtype)
        limits = [2 * len(source) + 10 for source, _ in pairs]
        found = beam_search(model, [source for source, _ in pairs], TEACHER_BEAM, most=limits, progress=progress)
        write_json(folder / "targets.json", [one.tokens for one in found])

    known = [*inputs, content_hash(repr([source for source, _ in pairs])), str(TEACHER_BEAM)]
    targets = read_json(cached(cache, "distilled", known, make) / "targets.json")
    return [(source, new or old) for (source, old), new in zip(pairs, targets, strict=True)]
