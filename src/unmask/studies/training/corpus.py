"""From a corpus to the data of a run: its tokenizer, packed rows and held-out rows, with their
fingerprints.

Texts are .txt, .txt.xz, .txt.gz and .jsonl files, or in memory. A line is cut after sentence
ends; its sentences are joined from the left while the segment stays within L tokens, the start
and end tokens included. L is drawn for each line from a few lengths by a hash of its text, so
that a model meets single sentences and whole paragraphs and the cut does not depend on the
order of the corpus. A sentence longer than L is a segment of its own; one longer than the
model's limit is cut between words.

A tokenizer and the tokens of a source are computed once: each has a folder in the user's cache,
named by a fingerprint of all inputs, and appears there when it is whole, also for the other
processes of a run.

In a parallel corpus each line of the second file, or list, translates the same line of the
first. Both share one vocabulary. A pair becomes one segment, "[CLS] source [SEP] target [SEP]"
(`translation/pairs`); too long and empty ones are left out.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import os
import re
import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import numpy as np
from tokenizers import Tokenizer

from unmask.common.errors import InputError, UnmaskWarning
from unmask.common.files import parse_json, user_path, write_atomically, writing
from unmask.models.text.text_tokenizer import read_by_tokenizer
from unmask.models.text.vocabulary import CONTINUES
from unmask.models.text.word_pieces import load_word_pieces, special_id
from unmask.runs.fingerprint import content_hash, file_hash, fingerprint
from unmask.runs.lines import numbered_lines, text_lines
from unmask.runs.progress import Progress
from unmask.studies.training.packing import PackedRows, TokenPart, pack, validation_rows
from unmask.studies.training.recipe import Corpus, Side
from unmask.studies.training.settings import SEGMENTS, TrainSettings
from unmask.studies.training.word_piece_training import train_tokenizer
from unmask.studies.translation.pairs import SHORTEST, SPECIAL, PairLayout

SUFFIXES = (".txt", ".txt.xz", ".txt.gz", ".jsonl")
_SENTENCE_END = re.compile(r"""(?<=[.!?])["'”’)\]]*\s+(?=["'“‘(\[]?[A-Z0-9])""")
_TOKENS_FORMAT, _TOKENIZER_FORMAT = 4, 4
"""Versions of what is cached."""
_LINES_AT_ONCE = 4000
_LINES_PER_REPORT = 50_000
MUCH = 0.02
"""A corpus with a larger share of unknown tokens does not suit its tokenizer."""
Pair = tuple[list[int], list[int]]
"""Tokens of a source and of its translation."""


@dataclass(frozen=True)
class TextSource:
    """One file, or texts in memory, and how often an epoch shows its lines; a .jsonl line has
    its text under "text".
    """

    name: str
    path: Path | None = None
    texts: tuple[str, ...] = ()
    weight: float = 1.0

    @classmethod
    def file(cls, path: Path, weight: float = 1.0, name: str = "corpus") -> TextSource:
        """A file that was given under the argument `name`."""
        known = ", ".join(SUFFIXES)
        if not path.is_file():
            raise InputError(f"{name} {str(path)!r} is not a file: give a {known} file")
        if not path.name.endswith(SUFFIXES):
            raise InputError(f"{name} {str(path)!r} has an unknown ending: give a {known} file")
        return cls(path.name, path, (), weight)

    def lines(self) -> Iterator[str]:
        """The non-empty texts, each as one line."""
        return filter(None, self.every_line())

    def every_line(self) -> Iterator[str]:
        """The texts, each as one line, empty ones too."""
        for number, line in (
            enumerate(self.texts, 1) if self.path is None else numbered_lines(self.path)
        ):
            where = f"text {number}" if self.path is None else f"{self.path} line {number}"
            text = " ".join(line.split()) if self.path is None else line.strip()
            if text and self.path is not None and self.path.suffix == ".jsonl":
                text = _text_field(text, where)
            try:
                text.encode()
            except UnicodeEncodeError:
                raise InputError(
                    f"{where}: half of a surrogate pair, which is not a character: correct the text"
                ) from None
            yield text

    @property
    def fingerprint(self) -> str:
        """A hash of the content."""
        if self.path is None:
            return content_hash("\n".join(" ".join(text.split()) for text in self.texts))
        return file_hash(self.path)

    @property
    def size(self) -> int:
        """Approximate bytes of text."""
        if self.path is None:
            return sum(map(len, self.texts))
        return self.path.stat().st_size * (4 if self.path.suffix in (".xz", ".gz") else 1)


def _text_field(line: str, where: str) -> str:
    try:
        value = parse_json(line)
        problem = 'no text under "text"'
    except ValueError as error:
        value, problem = None, str(error)
    if not isinstance(value, dict) or not isinstance(value.get("text"), str):
        raise InputError(f'{where}: {problem}; give lines like {{"text": "..."}}')
    return " ".join(value["text"].split())


@dataclass(frozen=True)
class Segmentation:
    """How lines become segments, and the share `holdout` of lines, chosen by hash, that
    validation uses.
    """

    lengths: tuple[int, ...] = (24, 64, 128)
    max_length: int = 128
    holdout: float = 0.0

    def holds_out(self, line: str) -> bool:
        """Whether this line belongs to the validation part; the same for equal lines."""
        return self.holdout > 0 and _hash(line, b"holdout") < self.holdout * (1 << 32)

    def length_for(self, line: str) -> int:
        """The target length drawn for this line."""
        return self.lengths[_hash(line, b"length") % len(self.lengths)]


def _hash(line: str, purpose: bytes) -> int:
    return int.from_bytes(
        hashlib.blake2b(line.encode(), digest_size=4, person=purpose).digest(), "little"
    )


def sentences(line: str) -> list[str]:
    """The line's sentences, by punctuation; their concatenation is the line except for white
    space between them.
    """
    out, start = [], 0
    for gap in _SENTENCE_END.finditer(line):
        closing = len(gap.group()) - len(gap.group().lstrip("\"'”’)]"))
        out.append(line[start : gap.start() + closing])
        start = gap.end()
    return [*out, line[start:]]


def segments(tokenizer: Tokenizer, cut: Segmentation, lines: Sequence[str]) -> list[list[int]]:
    """Token ids of the segments of all lines, in order, each with its start and end token."""
    start, end = special_id(tokenizer, "[CLS]"), special_id(tokenizer, "[SEP]")
    split = [sentences(line) for line in lines]
    with read_by_tokenizer("a text of the corpus"):
        encoded = iter(
            tokenizer.encode_batch_fast(
                [s for parts in split for s in parts], add_special_tokens=False
            )
        )
    every: list[list[int]] = []
    for line, parts in zip(lines, split, strict=True):
        room, of_line = cut.length_for(line) - 2, list[list[int]]()
        for ids in (next(encoded).ids for _ in parts):
            if of_line and len(of_line[-1]) + len(ids) <= room:
                of_line[-1] = of_line[-1] + ids
            else:
                of_line += _between_words(tokenizer, ids, cut.max_length - 2)
        every += [[start, *ids, end] for ids in of_line]
    return every


def _between_words(tokenizer: Tokenizer, ids: list[int], room: int) -> list[list[int]]:
    """The ids in pieces of at most `room`, cut before a word if possible."""
    pieces = []
    while len(ids) > room:
        begins = (
            place
            for place in range(room, 0, -1)
            if not str(tokenizer.id_to_token(ids[place])).startswith(CONTINUES)
        )
        end = next(begins, room)
        pieces.append(ids[:end])
        ids = ids[end:]
    return [*pieces, ids] if ids else pieces


def cached(kind: str, inputs: object, make: Callable[[Path], None]) -> Path:
    """The folder of the result for `inputs` (plain values) in the user's cache; `make` fills a
    new one, which moves there.
    """
    cache = user_path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "cache") / "unmask"
    folder = cache / f"{kind}-{hashlib.sha256(json.dumps(inputs).encode()).hexdigest()[:24]}"
    if folder.is_dir():
        return folder
    temporary = folder.with_name(
        f".{folder.name}.{uuid4().hex}.tmp"
    )  # machines that share a cache have equal process ids
    with writing(folder, "free some space, or name another folder in XDG_CACHE_HOME"):
        try:
            temporary.mkdir(parents=True)
            make(temporary)
            temporary.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process made it meanwhile
                raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return folder


def id_type(tokenizer: Tokenizer) -> type[np.unsignedinteger]:
    """The narrowest type that holds every id."""
    return np.uint16 if tokenizer.get_vocab_size() <= 1 << 16 else np.uint32


def joined(segments: list[list[int]], dtype: type[np.unsignedinteger]) -> TokenPart:
    """Segments of token ids, end to end."""
    lengths = np.fromiter(map(len, segments), np.int32, len(segments))
    return TokenPart(
        np.fromiter(itertools.chain.from_iterable(segments), dtype, int(lengths.sum())), lengths
    )


def tokenise(
    source: TextSource, tokenizer: Tokenizer, cut: Segmentation, progress: Progress | None = None
) -> tuple[TokenPart, TokenPart, str]:
    """The training tokens of a source, its held-out ones, and a fingerprint of both; from the
    cache, or made now.
    """
    inputs = [_TOKENS_FORMAT, source.fingerprint, tokenizer.to_str(), dataclasses.asdict(cut)]

    def make(folder: Path) -> None:
        dtype, lines, done = id_type(tokenizer), source.lines(), 0
        parts = {name: [joined([], dtype)] for name in ("train", "valid")}
        while some := list(itertools.islice(lines, _LINES_AT_ONCE)):
            for name, out in (("train", False), ("valid", True)):
                parts[name].append(
                    joined(
                        segments(
                            tokenizer, cut, [line for line in some if cut.holds_out(line) == out]
                        ),
                        dtype,
                    )
                )
            done += len(some)
            if progress:
                progress(done, 0, f"lines of {source.name} tokenised")
        for name, several in parts.items():
            for what in ("ids", "lengths"):
                np.save(
                    folder / f"{name}.{what}.npy",
                    np.concatenate([getattr(part, what) for part in several]),
                )

    folder = cached("tokens", inputs, make)
    train, valid = (
        TokenPart(
            *(np.load(folder / f"{name}.{what}.npy", mmap_mode="r") for what in ("ids", "lengths"))
        )
        for name in ("train", "valid")
    )
    return train, valid, content_hash(repr(inputs))


def sources(
    corpus: Corpus, weights: Sequence[float] | None = None, name: str = "corpus"
) -> list[TextSource]:
    """One source per file; a list of texts is one source. `weights`: one per source, by default
    1.
    """
    items = [corpus] if isinstance(corpus, str | os.PathLike) else list(corpus)
    if not items:
        raise InputError(f"the {name} is empty: give files or texts")
    names_a_file = [not isinstance(item, str) or _looks_like_a_file(item) for item in items]
    are_files = isinstance(corpus, str | os.PathLike) or any(names_a_file)
    if are_files and not all(names_a_file) and len(items) > 1:
        text = str(items[names_a_file.index(False)])
        raise InputError(
            f"{name} names files, and {text[:60]!r} is not a file: give files, or a list of texts"
        )
    count = len(items) if are_files else 1
    weights = [1.0] * count if weights is None or len(weights) == 0 else weights
    if len(weights) != count:
        raise InputError(
            f"{len(weights)} weights for {count} corpus files: give one --weight per file, in their"
            " order"
        )
    if are_files:
        return [
            TextSource.file(user_path(p, name), w, name)
            for p, w in zip(items, weights, strict=True)
        ]
    return [TextSource(f"{len(items):,} texts", None, tuple(map(str, items)), weights[0])]


def one_source(valid: Corpus | None) -> TextSource | None:
    """Held-out texts, if there are any: one file, or a list of texts."""
    if valid is None:
        return None
    source, *others = sources(valid, name="valid")
    if others:
        raise InputError(f"valid names {1 + len(others)} files: give one")
    return source


def _looks_like_a_file(text: str) -> bool:
    if text.endswith(SUFFIXES):
        return True
    try:
        return bool(text.strip()) and Path(text).expanduser().exists()
    except (OSError, RuntimeError, ValueError):
        return False


@dataclass(frozen=True)
class PairTokens:
    """The training pairs of a parallel corpus: token ids of both sides, without special tokens."""

    layout: PairLayout
    sources: list[list[int]]
    targets: list[list[int]]


@dataclass(frozen=True)
class Prepared:
    """Everything a run needs of its data.

    held     the held-out texts, in words
    corpus   the fingerprint of texts, weights and cut, or of the pairs' tokens
    """

    tokenizer: Tokenizer
    packed: PackedRows
    valid: PackedRows
    sources: tuple[TextSource, ...]
    source_tokens: tuple[int, ...]
    held: str
    corpus: str
    pairs: PairTokens | None = None


def prepare(
    sources: Sequence[TextSource],
    settings: TrainSettings,
    share: float,
    valid: TextSource | None = None,
    tokenizer_path: Path | None = None,
    progress: Progress | None = None,
    resumed: bool = False,
) -> Prepared:
    """Tokenise and pack the sources, from the cache if possible; validation uses `valid`, else
    this share of the lines.
    """
    lengths = (
        *(length for length in SEGMENTS if length < settings.max_length),
        settings.max_length,
    )
    cut = Segmentation(lengths, settings.max_length, 0.0 if valid else share)
    tokenizer = _tokenizer(tokenizer_path, sources, settings.vocab, cut, progress)
    train, parts, fingerprints = zip(
        *(tokenise(source, tokenizer, cut, progress) for source in sources), strict=True
    )
    if not any(part.tokens for part in train):
        raise _no_text(sources)
    _warn_of_unknown(train, tokenizer, tokenizer_path, settings.vocab, resumed)
    pad, weights = special_id(tokenizer, "[PAD]"), [source.weight for source in sources]
    packed = pack(train, weights, settings.max_length, pad, settings.seed)
    advice, held = "give a --valid file or a larger --valid-share", _share_in_words(share)
    if valid:
        parts = tokenise(
            valid, tokenizer, Segmentation((settings.max_length,), settings.max_length), progress
        )[:1]
        advice, held = (
            f"--valid {valid.name} has no text, give another file, or omit it",
            valid.name,
        )
    rows = validation_rows(parts, settings.max_length, pad, advice)
    corpus = content_hash(repr([[*fingerprints], weights]))
    return Prepared(
        tokenizer, packed, rows, tuple(sources), tuple(part.tokens for part in train), held, corpus
    )


def _share_in_words(share: float) -> str:
    return f"{share:.3g} of the corpus' lines, by a hash of the line"


def _warn_of_unknown(
    parts: Sequence[TokenPart], tokenizer: Tokenizer, path: Path | None, vocab: int, resumed: bool
) -> None:
    """Warn if much of the text is the unknown token: a model learns to predict it too often. A
    resumed run cannot change it.
    """
    unknown = special_id(tokenizer, "[UNK]")
    share = sum(int(np.count_nonzero(part.ids == unknown)) for part in parts) / sum(
        part.tokens for part in parts
    )
    if share > MUCH and not resumed:
        use = (
            "give a tokenizer of such texts, or leave out --tokenizer and --init, so that one is"
            " trained"
        )
        use = use if path else f"give a larger --vocab than {vocab}"
        what = f"{share:.0%} of the corpus is [UNK], words that the tokenizer cannot spell"
        warnings.warn(f"{what}: {use}", UnmaskWarning, stacklevel=4)


def _tokenizer(
    path: Path | None,
    sources: Sequence[TextSource],
    vocab: int,
    cut: Segmentation,
    progress: Progress | None,
) -> Tokenizer:
    """The tokenizer at `path`, or one of at most `vocab` tokens for all sources together, from
    the cache if possible.
    """
    if path is not None:
        return load_word_pieces(path)

    def lines() -> Iterator[str]:
        count = 0
        for source in sources:
            for line in source.lines():
                count += 1
                if progress and count % _LINES_PER_REPORT == 0:
                    progress(count, 0, "lines read for the tokenizer")
                if not cut.holds_out(line):
                    yield from itertools.repeat(line, max(1, round(source.weight)))
        if not count:
            raise _no_text(sources)

    def make(folder: Path) -> None:
        write_atomically(folder / "tokenizer.json", train_tokenizer(lines, vocab).to_str())

    inputs = [
        _TOKENIZER_FORMAT,
        [(source.fingerprint, source.weight) for source in sources],
        vocab,
        cut.holdout,
    ]
    return load_word_pieces(cached("tokenizer", inputs, make))


def _no_text(sources: Sequence[TextSource]) -> InputError:
    return InputError(
        f"the corpus is empty: no text in {', '.join(str(s.path or s.name) for s in sources)}"
    )


def parallel_sides(sides: Sequence[Side]) -> tuple[TextSource, TextSource]:
    """Both sides of a parallel corpus: two files, or two lists of texts."""
    if isinstance(sides, str | os.PathLike) or len(sides) != 2:
        raise InputError(
            "parallel takes two files, or two lists of texts: the sources and their translations"
        )
    return _side(sides[0], "source"), _side(sides[1], "target")


def _pairs(sides: tuple[TextSource, TextSource]) -> list[tuple[str, str]]:
    """The pairs with two sides, in order; both must have the same number of lines, empty ones
    included.
    """
    source, target = ([" ".join(text.split()) for text in side.every_line()] for side in sides)
    if len(source) != len(target):
        names = [side.path or side.name for side in sides]
        raise InputError(
            f"{names[0]} has {len(source):,} lines and {names[1]} {len(target):,}: "
            "give two files of which each line of the second translates the same line of the first"
        )
    return [(s, t) for s, t in zip(source, target, strict=True) if s and t]


def prepare_parallel(
    sides: tuple[TextSource, TextSource],
    settings: TrainSettings,
    share: float,
    tokenizer_path: Path | None = None,
    progress: Progress | None = None,
    resumed: bool = False,
) -> Prepared:
    """Tokenise and pack the pairs, of which this share is held out."""
    tokenizer = _tokenizer(tokenizer_path, sides, settings.vocab, Segmentation(), progress)
    if settings.source_length < SHORTEST:
        raise InputError(
            f"max_length {settings.max_length} leaves {settings.source_length} tokens for a source:"
            " give 8 or more"
        )
    layout = PairLayout(
        settings.source_length,
        settings.max_length,
        *(special_id(tokenizer, token) for token in SPECIAL),
    )
    fitting, cut = _fitting(tokenizer, _pairs(sides), layout), Segmentation(holdout=share)
    train, valid = (
        [pair for source, pair in fitting if cut.holds_out(source) == out] for out in (False, True)
    )
    if not train:
        raise InputError(
            f"no pair to train on in {sides[0].name} and {sides[1].name}: give more, or longer,"
            " texts"
        )
    pairs = PairTokens(layout, [source for source, _ in train], [target for _, target in train])
    part, held_part = (
        joined([layout.segment(*pair) for pair in some], id_type(tokenizer))
        for some in (train, valid)
    )
    _warn_of_unknown([part], tokenizer, tokenizer_path, settings.vocab, resumed)
    packed = pack([part], [1.0], settings.max_length, layout.pad, settings.seed)
    rows = validation_rows(
        [held_part], layout.max_length, layout.pad, "give more pairs or a larger --valid-share"
    )
    tokens = tuple(sum(map(len, side)) for side in (pairs.sources, pairs.targets))
    return Prepared(
        tokenizer,
        packed,
        rows,
        sides,
        tokens,
        _share_in_words(share),
        fingerprint(vars(part)),
        pairs,
    )


def _side(side: Side, name: str) -> TextSource:
    if not isinstance(side, str | os.PathLike):
        return TextSource(f"{len(side):,} {name} texts", None, tuple(map(str, side)))
    path = user_path(side, name)
    if not path.is_file():
        raise InputError(f"{name} {str(path)!r} is not a file: give one with a text per line")
    if path.suffix != ".jsonl":
        text_lines(path)  # refuses other records
    return TextSource(path.name, path)


def _fitting(
    tokenizer: Tokenizer, texts: Sequence[tuple[str, str]], layout: PairLayout
) -> list[tuple[str, Pair]]:
    """The source's text and both sides' tokens of every pair that has room."""
    with read_by_tokenizer("a text of a pair"):
        sides = [
            tokenizer.encode_batch_fast([pair[i] for pair in texts], add_special_tokens=False)
            for i in (0, 1)
        ]
    pairs = [(text, (s.ids, t.ids)) for (text, _), s, t in zip(texts, *sides, strict=True)]
    longest = layout.longest_source, layout.longest_target
    fitting = [
        (text, pair)
        for text, pair in pairs
        if all(0 < len(side) <= n for side, n in zip(pair, longest, strict=True))
    ]
    if len(fitting) < len(pairs):
        warnings.warn(
            f"{len(pairs) - len(fitting):,} of {len(pairs):,} pairs are longer than {longest[0]}"
            f" source tokens or {longest[1]} target tokens and are left out; a larger --max-length"
            " takes them",
            UnmaskWarning,
            stacklevel=3,
        )
    return fitting
