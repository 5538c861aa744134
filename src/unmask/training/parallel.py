"""A parallel corpus: two files, or two lists of texts, of which each line of the second translates the same line of the first.

Both sides share one vocabulary. A pair becomes one segment, "[CLS] source [SEP] target [SEP]" (see `translation/pairs`); what
is too long for its room is left out, with a warning, and so is a pair with an empty side. With a teacher, a causal model of
pairs, the training targets are its translations of the sources (sequence-level distillation, Kim & Rush 2016); held-out pairs
keep their own.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer

from unmask.errors import InputError, UnmaskWarning
from unmask.models.text.word_pieces import load_word_pieces, special_id
from unmask.runs.files import read_json, user_path, write_json
from unmask.runs.fingerprint import content_hash, file_hash
from unmask.runs.lines import text_lines
from unmask.runs.progress import Progress
from unmask.training.corpus import Segmentation, TextSource
from unmask.training.packing import pack, validation_rows
from unmask.training.prepare import Held, PairTokens, Prepared, trained_tokenizer, warn_of_unknown
from unmask.training.settings import TrainSettings
from unmask.training.token_store import TokenPart, cached, id_type
from unmask.translation.beam_search import beam_search
from unmask.translation.pairs import SHORTEST, PairLayout, load_causal_pairs

Side = str | os.PathLike[str] | Sequence[str]
"""One side of a parallel corpus, as a user names it: a file, or a list of texts."""
TEACHER_BEAM = 5


@dataclass(frozen=True)
class Parallel:
    """Both sides of a parallel corpus, and the model, if any, whose translations are trained on."""

    source: TextSource
    target: TextSource
    teacher: Path | None = None

    @classmethod
    def of(cls, given: Sequence[Side], teacher: str | os.PathLike[str] | None = None) -> Parallel:
        """Two files or two lists of texts; the teacher is a model folder."""
        if isinstance(given, str | os.PathLike) or len(given) != 2:
            raise InputError("parallel takes two files, or two lists of texts: the sources and their translations")
        source, target = (_side(side, name) for side, name in zip(given, ("source", "target"), strict=True))
        return cls(source, target, None if teacher is None else user_path(teacher, "distil"))

    @property
    def sides(self) -> tuple[TextSource, TextSource]:
        """Both sides."""
        return self.source, self.target

    def pairs(self) -> list[tuple[str, str]]:
        """The pairs with two sides, in order."""
        source, target = all_lines(self.source), all_lines(self.target)
        refuse_uneven(self.source, len(source), self.target, len(target))
        return [(s, t) for s, t in zip(source, target, strict=True) if s and t]


def all_lines(side: TextSource) -> list[str]:
    """Every line of a side, empty ones too."""
    if side.path is None:
        return [" ".join(text.split()) for text in side.texts]
    return [" ".join(line.split()) for _, line in text_lines(side.path)]


def refuse_uneven(source: TextSource, sources: int, target: TextSource, targets: int) -> None:
    """Both files must have the same number of lines."""
    if sources != targets:
        raise InputError(
            f"{source.path or source.name} has {sources:,} lines and {target.path or target.name} {targets:,}: "
            "give two files of which each line of the second translates the same line of the first"
        )


def layout_of(settings: TrainSettings, tokenizer: Tokenizer) -> PairLayout:
    """Half of the text for either side."""
    ids = (special_id(tokenizer, token) for token in ("[CLS]", "[SEP]", "[PAD]", "[MASK]"))
    if settings.source_length < SHORTEST:
        raise InputError(f"max_length {settings.max_length} leaves {settings.source_length} tokens for a source: give 8 or more")
    return PairLayout(settings.source_length, settings.max_length, *ids)


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
    path = tokenizer_path or corpus.teacher
    if path is None:
        tokenizer = trained_tokenizer(sides, settings.vocab, Segmentation(), cache, progress)
    else:
        tokenizer = load_word_pieces(path)
    layout, cut = layout_of(settings, tokenizer), Segmentation(holdout=held.share)
    texts = corpus.pairs()
    kept = _fitting(_encoded(tokenizer, texts), layout)
    train = [pair for pair, (source, _) in zip(kept, texts, strict=True) if pair and not cut.holds_out(source)]
    valid = [pair for pair, (source, _) in zip(kept, texts, strict=True) if pair and cut.holds_out(source)]
    if not train:
        raise InputError(f"no pair to train on in {corpus.source.name} and {corpus.target.name}: give more, or longer, texts")
    fingerprint = [side.fingerprint for side in sides]
    if corpus.teacher:
        fingerprint.append(file_hash(corpus.teacher / "model.safetensors"))
        train = _distilled(corpus.teacher, tokenizer, train, fingerprint, cache, device, progress)
    pairs = PairTokens(layout, [source for source, _ in train], [target for _, target in train])
    part, held_part = (_part(layout, some, tokenizer) for some in (train, valid))
    warn_of_unknown([part], tokenizer)
    packed = pack([part], [1.0], settings.buckets, layout.pad, settings.seed)
    rows = validation_rows(
        [held_part], layout.max_length, layout.max_length, layout.pad, advice="give more pairs or a larger --valid-share"
    )
    tokens = tuple(sum(map(len, side)) for side in (pairs.sources, pairs.targets))
    return Prepared(tokenizer, packed, rows, sides, tokens, held, content_hash(repr(fingerprint)), pairs)


def _side(given: Side, name: str) -> TextSource:
    if not isinstance(given, str | os.PathLike):
        return TextSource(f"{len(given):,} {name} texts", None, tuple(map(str, given)))
    path = user_path(given, name)
    if not path.is_file():
        raise InputError(f"{name} {str(path)!r} is not a file: give one with a text per line")
    return TextSource(path.name, path)


Pair = tuple[list[int], list[int]]


def _encoded(tokenizer: Tokenizer, texts: Sequence[tuple[str, str]]) -> list[Pair]:
    sides = [tokenizer.encode_batch_fast([pair[i] for pair in texts], add_special_tokens=False) for i in (0, 1)]
    return [(source.ids, target.ids) for source, target in zip(*sides, strict=True)]


def _fitting(pairs: Sequence[Pair], layout: PairLayout) -> list[Pair | None]:
    """The pairs, None for one that has no room."""
    kept = [(s, t) if 0 < len(s) <= layout.longest_source and 0 < len(t) <= layout.longest_target else None for s, t in pairs]
    out = kept.count(None)
    if out:
        warnings.warn(
            f"{out:,} of {len(kept):,} pairs are longer than {layout.longest_source} source tokens or {layout.longest_target} "
            "target tokens and are left out; a larger --max-length takes them",
            UnmaskWarning,
            stacklevel=3,
        )
    return kept


def _part(layout: PairLayout, pairs: Sequence[Pair], tokenizer: Tokenizer) -> TokenPart:
    segments = [layout.segment(source, target) for source, target in pairs]
    dtype = id_type(tokenizer)
    ids = np.concatenate([np.empty(0, dtype), *(np.array(segment, dtype) for segment in segments)])
    return TokenPart(ids, np.array([len(segment) for segment in segments], np.int32))


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
