"""A source and its translation as one text, in which the translation begins at a fixed position W:

    [CLS] source [SEP] [PAD] ... [PAD]  target [SEP]          positions 0 ... W - 1, then W, W + 1, ...

Nobody looks at [PAD]. Texts whose targets are equally long therefore have their free positions in the same places, whatever
their sources, and go side by side; and position W + i means "the i-th token of the translation" to the model, always.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from unmask.errors import InputError
from unmask.runs.files import read_object, write_json
from unmask.runs.fingerprint import content_hash

FILE = "translation.json"
SPECIAL = ("[CLS]", "[SEP]", "[PAD]", "[MASK]")
OWN_TOKENIZER = "put the tokenizer.json back that the model was trained with"
SHORTEST = 4
"""Tokens of either side's room; with fewer there is no word between the special tokens."""


@dataclass(frozen=True)
class PairLayout:
    """Where things stand, and the ids of the special tokens.

    source_length   W: tokens of the source's room, its start and end tokens included
    max_length      tokens of the whole text
    """

    source_length: int
    max_length: int
    start: int
    end: int
    pad: int
    mask: int

    @property
    def longest_source(self) -> int:
        """Tokens of the longest source, special ones apart."""
        return self.source_length - 2

    @property
    def longest_target(self) -> int:
        """Tokens of the longest translation, its end token apart."""
        return self.max_length - self.source_length - 1

    def segment(self, source: Sequence[int], target: Sequence[int]) -> list[int]:
        """The pair without padding, as it is trained on: positions tell where the target begins, not the tokens before it."""
        return [self.start, *source, self.end, *target, self.end]

    def room(self, source: Sequence[int]) -> tuple[int, ...]:
        """The source in its room."""
        if len(source) > self.longest_source:
            raise InputError(
                f"the source has {len(source)} tokens and the model takes {self.longest_source}: shorten it, "
                "or train a model with a larger --max-length"
            )
        return (self.start, *source, self.end, *[self.pad] * (self.longest_source - len(source)))

    def template(self, source: Sequence[int], length: int) -> tuple[int, ...]:
        """The source, and `length` blanks for its translation."""
        return (*self.room(source), *[self.mask] * length, self.end)

    def target(self, ids: Sequence[int]) -> list[int]:
        """The translation's tokens in a whole text."""
        return list(ids[self.source_length : -1])

    def save(self, folder: Path, objective: str, vocabulary: Mapping[str, int], corrects: bool = False) -> None:
        """Note the layout beside the weights, whose tokenizer it is, and whether the model was taught to correct what it sees."""
        lengths = {"source_length": self.source_length, "max_length": self.max_length}
        noted = {**lengths, "objective": objective, "corrects": corrects, "vocabulary": _hash_of(vocabulary)}
        write_json(folder / FILE, noted)


def is_pair_model(folder: Path) -> bool:
    """Whether a folder holds a model of pairs."""
    return (folder / FILE).is_file()


def corrects(folder: Path) -> bool:
    """Whether the model of a folder was taught to correct tokens that it sees; one that only filled blanks was not."""
    return bool(read_object(folder / FILE).get("corrects"))


def read_layout(folder: Path, vocabulary: Mapping[str, int]) -> tuple[PairLayout, str]:
    """The layout of a folder, and the objective that its model was trained with; `vocabulary` of the tokenizer beside it."""
    if not is_pair_model(folder):
        raise InputError(
            f"model {str(folder)!r} does not translate (it has no {FILE}): give a folder of `unmask train --parallel`"
        )
    noted = read_object(folder / FILE)
    try:
        source_length, max_length, objective = int(noted["source_length"]), int(noted["max_length"]), str(noted["objective"])
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{str(folder / FILE)!r} is not understood: train the model again") from None
    missing = next((token for token in SPECIAL if token not in vocabulary), None)
    if missing is not None:
        raise InputError(f"the tokenizer in {str(folder)!r} lacks {missing!r}: {OWN_TOKENIZER}")
    if noted.get("vocabulary", _hash_of(vocabulary)) != _hash_of(vocabulary):
        raise InputError(f"the tokenizer in {str(folder)!r} has other tokens than the model was trained with: {OWN_TOKENIZER}")
    return PairLayout(source_length, max_length, *(vocabulary[token] for token in SPECIAL)), objective


def refuse_other_tokens(folder: Path, vocabulary: Mapping[str, int], outputs: int) -> None:
    """Refuse a tokenizer of another size, in folders of an earlier unmask, which do not note whose it is."""
    if "vocabulary" not in read_object(folder / FILE) and sorted(vocabulary.values()) != list(range(outputs)):
        raise InputError(
            f"the tokenizer in {str(folder)!r} has {len(vocabulary):,} tokens and the model {outputs:,}: {OWN_TOKENIZER}"
        )


def _hash_of(vocabulary: Mapping[str, int]) -> str:
    return content_hash(json.dumps(sorted(vocabulary.items())))
