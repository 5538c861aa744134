"""The tokens of a text source, for training and held out, computed once and kept in the cache."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tokenizers import Tokenizer

from unmask.runs.fingerprint import content_hash
from unmask.runs.progress import Progress
from unmask.studies.training.cache import cached
from unmask.studies.training.packing import TokenPart
from unmask.studies.training.segmentation import Segmentation, segments
from unmask.studies.training.text_sources import TextSource

FORMAT = 4
"""Version of what is cached. It is in the name of the folder: other versions are not read."""
LINES_AT_ONCE = 4000  # lines that are tokenised together, between two reports of progress


class SourceTokens(NamedTuple):
    """The training tokens of a source, its held-out ones, and a fingerprint of both."""

    train: TokenPart
    held_out: TokenPart
    fingerprint: str


def tokenise(
    source: TextSource, tokenizer: Tokenizer, cut: Segmentation, progress: Progress | None = None
) -> SourceTokens:
    """The tokens of a source, from the cache or computed now."""
    inputs = [FORMAT, source.fingerprint, tokenizer.to_str(), dataclasses.asdict(cut)]

    def make(folder: Path) -> None:
        train, held_out = _tokenised(source, tokenizer, cut, progress)
        _save(train, folder, "train")
        _save(held_out, folder, "valid")

    folder = cached("tokens", inputs, make)
    return SourceTokens(
        train=_stored(folder, "train"),
        held_out=_stored(folder, "valid"),
        fingerprint=content_hash(repr(inputs)),
    )


def _tokenised(
    source: TextSource, tokenizer: Tokenizer, cut: Segmentation, progress: Progress | None
) -> tuple[TokenPart, TokenPart]:
    """The training tokens of a source and its held-out ones."""
    id_type = narrowest_id_type(tokenizer)

    def tokens_of(lines: list[str]) -> TokenPart:
        return TokenPart.of(segments(tokenizer, cut, lines), id_type)

    nothing = TokenPart.of([], id_type)  # a source without lines has something to concatenate
    train = [nothing]
    held_out = [nothing]
    lines = source.lines()
    done = 0
    while batch := list(itertools.islice(lines, LINES_AT_ONCE)):
        train.append(tokens_of([line for line in batch if not cut.holds_out(line)]))
        held_out.append(tokens_of([line for line in batch if cut.holds_out(line)]))
        done += len(batch)
        if progress:
            progress(done, 0, f"lines of {source.name} tokenised")
    return _concatenated(train), _concatenated(held_out)


def narrowest_id_type(tokenizer: Tokenizer) -> type[np.unsignedinteger]:
    """The narrowest type that holds every id."""
    return np.uint16 if tokenizer.get_vocab_size() <= 2**16 else np.uint32


def _concatenated(parts: Sequence[TokenPart]) -> TokenPart:
    return TokenPart(
        ids=np.concatenate([part.ids for part in parts]),
        lengths=np.concatenate([part.lengths for part in parts]),
    )


def _save(part: TokenPart, folder: Path, name: str) -> None:
    np.save(folder / f"{name}.ids.npy", part.ids)
    np.save(folder / f"{name}.lengths.npy", part.lengths)


def _stored(folder: Path, name: str) -> TokenPart:
    """A part that `_save` wrote; the system reads its pages from the disk when they are used."""
    return TokenPart(
        ids=np.load(folder / f"{name}.ids.npy", mmap_mode="r"),
        lengths=np.load(folder / f"{name}.lengths.npy", mmap_mode="r"),
    )
