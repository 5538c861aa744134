"""The texts of models of pairs: a source and its translation as one text, in which the translation
begins at a fixed position W.

    [CLS] source [SEP] [PAD] ... [PAD]  target [SEP]
            positions 0 ... W - 1, then W, W + 1, ...

No position attends to [PAD]. Texts with equally long targets therefore have their free positions in
the same places, whatever their sources, and go side by side; and position W + i always means "the
i-th token of the translation" to the model.

PAIR_FILE, in the folder of such a model, has its layout, and which vocabulary and files are its
own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from unmask.common.errors import InputError, argument_name
from unmask.common.files import read_object, write_json
from unmask.models.checkpoint import PAIR_FILE, is_pair_model
from unmask.models.checkpoint_files import WEIGHTS
from unmask.models.text.vocabulary import vocabulary_hash
from unmask.runs.fingerprint import file_hash

START = "[CLS]"
END = "[SEP]"
PAD = "[PAD]"
MASK = "[MASK]"
SPECIAL = (START, END, PAD, MASK)
SHORTEST = 4
"""Tokens of the source's room, at least: its start and end token, and two others."""
LENGTHS_FILE = "length_head.safetensors"  # Of `unmask.models.length_head`


@dataclass(frozen=True)
class PairLayout:
    """Where source and target are, and the ids of the special tokens.

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
        """Tokens of the longest source, without special ones."""
        return self.source_length - 2

    @property
    def longest_target(self) -> int:
        """Tokens of the longest translation, without its end token."""
        return self.max_length - self.source_length - 1

    def segment(self, source: Sequence[int], target: Sequence[int]) -> list[int]:
        """The pair without padding, as it is trained on. Training gives the target the positions
        W, W + 1, ... all the same.
        """
        return [self.start, *source, self.end, *target, self.end]

    def room(self, source: Sequence[int]) -> tuple[int, ...]:
        """The source, of at most `longest_source` tokens, in its room."""
        padding = [self.pad] * (self.longest_source - len(source))
        return (self.start, *source, self.end, *padding)

    def template(self, source: Sequence[int], length: int) -> tuple[int, ...]:
        """The source, and `length` blanks for its translation."""
        blanks = [self.mask] * length
        return (*self.room(source), *blanks, self.end)

    def save(
        self, folder: Path, objective: str, vocabulary: Mapping[str, int], corrects: bool = False
    ) -> None:
        """Write the layout, whether the model was trained to correct what it sees, and which
        vocabulary and files are its own. The weights and the length head must be in the folder.
        """
        hashes = {}
        for name in (WEIGHTS, LENGTHS_FILE):
            if (folder / name).is_file():  # a causal model has no length head
                hashes[name] = file_hash(folder / name)
        description = {
            "source_length": self.source_length,
            "max_length": self.max_length,
            "objective": objective,
            "corrects": corrects,
            "vocabulary": vocabulary_hash(vocabulary),
            "files": hashes,
        }
        write_json(folder / PAIR_FILE, description)


class SavedLayout(NamedTuple):
    """The PAIR_FILE of a folder.

    objective  masked or causal
    corrects   whether the model was trained to correct tokens that it sees
    """

    layout: PairLayout
    objective: str
    corrects: bool


def is_causal_pair_model(folder: Path) -> bool:
    """Whether a folder holds a causal model of pairs."""
    return is_pair_model(folder) and read_object(folder / PAIR_FILE).get("objective") == "causal"


def read_layout(folder: Path, vocabulary: Mapping[str, int]) -> SavedLayout:
    """The layout of a folder; raises if the vocabulary or a file beside it is not the model's own.

    `vocabulary`: of the tokenizer beside it.
    """
    if not is_pair_model(folder):
        raise InputError(
            f"model {str(folder)!r} does not translate (it has no {PAIR_FILE}): give a folder of"
            f" a run of train with {argument_name('parallel')}"
        )
    description = read_object(folder / PAIR_FILE)
    try:
        source_length = int(description["source_length"])
        max_length = int(description["max_length"])
        objective = str(description["objective"])
        own_vocabulary = description["vocabulary"]
        corrects = bool(description["corrects"])
    except (KeyError, TypeError, ValueError):
        raise InputError(
            f"{str(folder / PAIR_FILE)!r} is not understood: train the model again"
        ) from None
    if own_vocabulary != vocabulary_hash(vocabulary):
        raise InputError(
            f"the tokenizer in {str(folder)!r} has other tokens than the model was trained with:"
            " put the tokenizer.json back that the model was trained with"
        )
    _refuse_other_files(folder, description.get("files"))
    layout = PairLayout(
        source_length=source_length,
        max_length=max_length,
        start=vocabulary[START],
        end=vocabulary[END],
        pad=vocabulary[PAD],
        mask=vocabulary[MASK],
    )
    return SavedLayout(layout=layout, objective=objective, corrects=corrects)


def _refuse_other_files(folder: Path, hashes: Any) -> None:
    """Raise if a file is not the one that the model was saved with. Another model's head for the
    length, for example, fits any model of this shape.

    `hashes`: {name: hash} as PAIR_FILE has them. A user who changed a file takes its hash out of
    PAIR_FILE, so any hash may be missing, or all.
    """
    if not isinstance(hashes, dict):
        return
    for name, own_hash in hashes.items():
        path = folder / name
        if path.is_file() and file_hash(path) != own_hash:
            raise InputError(
                f"{name} in {str(folder)!r} is not the file that the model was saved with: put it"
                f' back, or, if you changed it yourself, take "{name}" out of {PAIR_FILE}'
            )
