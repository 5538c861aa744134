"""From a parallel corpus to the data of a run: pairs of a source and its translation.

Each line of the second side translates the same line of the first. Both sides share one vocabulary.
A pair becomes one segment, "[CLS] source [SEP] target [SEP]" (`unmask.models.pair_layout`). Pairs
that are too long, and pairs with an empty side, are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tokenizers import Tokenizer

from unmask.common.errors import InputError, argument_name
from unmask.common.warn import warn
from unmask.models.pair_layout import SHORTEST, SPECIAL, PairLayout
from unmask.models.text.text_tokenizer import read_by_tokenizer
from unmask.models.text.word_pieces import special_id
from unmask.runs.fingerprint import fingerprint
from unmask.runs.progress import Progress
from unmask.studies.training.corpus import (
    PairTokens,
    TrainingData,
    share_in_words,
    tokenizer_of,
    warn_of_unknown,
)
from unmask.studies.training.packing import TokenPart, pack, validation_rows
from unmask.studies.training.segmentation import Segmentation
from unmask.studies.training.settings import TrainSettings
from unmask.studies.training.text_sources import TextSource, in_one_line
from unmask.studies.training.tokenising import narrowest_id_type


class Pair(NamedTuple):
    """A source's text, and the token ids of the source and of its translation."""

    text: str
    source: list[int]
    target: list[int]


def prepare_parallel(
    sides: tuple[TextSource, TextSource],
    settings: TrainSettings,
    valid_share: float,
    tokenizer_path: Path | None = None,
    progress: Progress | None = None,
    resumed: bool = False,
) -> TrainingData:
    """Tokenise and pack the pairs, of which `valid_share` is held out by a hash of the source."""
    # `Segmentation()` holds out nothing: the tokenizer learns from held-out pairs, too.
    everything = Segmentation()
    tokenizer = tokenizer_of(
        sides, settings.vocab, everything, path=tokenizer_path, progress=progress
    )
    if settings.source_length < SHORTEST:
        raise InputError(
            f"{settings.max_length} leaves {settings.source_length} tokens for a source",
            argument="max_length",
            use="give 8 or more",
        )
    layout = _layout(settings, tokenizer)

    fitting = _fitting(tokenizer, _texts_of_pairs(sides), layout)
    cut = Segmentation(holdout=valid_share)
    train = [pair for pair in fitting if not cut.holds_out(pair.text)]
    held_out = [pair for pair in fitting if cut.holds_out(pair.text)]
    if not train:
        raise InputError(
            f"has no pair to train on in {sides[0].name} and {sides[1].name}",
            argument="parallel",
            use="give more, or longer, texts",
        )
    pairs = PairTokens(
        layout=layout,
        sources=[pair.source for pair in train],
        targets=[pair.target for pair in train],
    )

    id_type = narrowest_id_type(tokenizer)
    part = TokenPart.of([layout.segment(pair.source, pair.target) for pair in train], id_type)
    held_out_part = TokenPart.of(
        [layout.segment(pair.source, pair.target) for pair in held_out], id_type
    )
    if not resumed:  # a resumed run keeps its tokenizer
        warn_of_unknown([part], tokenizer, tokenizer_path, settings.vocab)
    packed = pack([part], [1.0], settings.max_length, layout.pad, seed=settings.seed)
    if held_out_part.is_empty:
        larger = argument_name("valid_share")
        raise InputError(f"no pair is held out: give more pairs, or a larger {larger}")
    rows = validation_rows([held_out_part], layout.max_length, layout.pad)
    return TrainingData(
        tokenizer=tokenizer,
        packed=packed,
        valid=rows,
        sources=sides,
        source_tokens=(sum(map(len, pairs.sources)), sum(map(len, pairs.targets))),
        held_out=share_in_words(valid_share),
        fingerprint=fingerprint({"ids": part.ids, "lengths": part.lengths}),
        pairs=pairs,
    )


def _layout(settings: TrainSettings, tokenizer: Tokenizer) -> PairLayout:
    """Where source and target are in the texts of a run."""
    start, end, pad, mask = (special_id(tokenizer, token) for token in SPECIAL)
    return PairLayout(
        source_length=settings.source_length,
        max_length=settings.max_length,
        start=start,
        end=end,
        pad=pad,
        mask=mask,
    )


def _texts_of_pairs(sides: tuple[TextSource, TextSource]) -> list[tuple[str, str]]:
    """(source, target) of the pairs whose sides both have text, in order.

    Both sides must have the same number of lines, empty ones included.
    """
    sources = [in_one_line(text) for text in sides[0].every_line()]
    targets = [in_one_line(text) for text in sides[1].every_line()]
    if len(sources) != len(targets):
        names = [side.path or side.name for side in sides]
        raise InputError(
            f"has {len(sources):,} lines in {names[0]} and {len(targets):,} in {names[1]}",
            argument="parallel",
            use="give two files of which each line of the second translates the same line of the"
            " first",
        )
    pairs = zip(sources, targets, strict=True)
    return [(source, target) for source, target in pairs if source and target]


def _fitting(
    tokenizer: Tokenizer, texts: Sequence[tuple[str, str]], layout: PairLayout
) -> list[Pair]:
    """The pairs whose sides both have tokens and fit their rooms; warns of those left out."""
    source_texts = [source for source, _ in texts]
    target_texts = [target for _, target in texts]
    with read_by_tokenizer("a text of a pair"):
        encoded_sources = tokenizer.encode_batch_fast(source_texts, add_special_tokens=False)
        encoded_targets = tokenizer.encode_batch_fast(target_texts, add_special_tokens=False)
    fitting: list[Pair] = []
    encoded = zip(source_texts, encoded_sources, encoded_targets, strict=True)
    for text, encoded_source, encoded_target in encoded:
        source: list[int] = encoded_source.ids
        target: list[int] = encoded_target.ids
        source_fits = 0 < len(source) <= layout.longest_source
        target_fits = 0 < len(target) <= layout.longest_target
        if source_fits and target_fits:
            fitting.append(Pair(text, source, target))
    left_out = len(texts) - len(fitting)
    if left_out:
        warn(
            f"{left_out:,} of {len(texts):,} pairs are longer than {layout.longest_source} source"
            f" tokens or {layout.longest_target} target tokens and are left out; a larger"
            f" {argument_name('max_length')} takes them"
        )
    return fitting
