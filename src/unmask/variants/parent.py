"""The sequence whose variants are asked about: its residues, the letters allowed at them, and how changes are written.

Residues are counted from 1; residue i is the i-th regular token of the text. A change is written A24G.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from unmask import checks
from unmask.answers.asking import letter_ids
from unmask.errors import InputError
from unmask.models.masked_lm import MaskedLM
from unmask.models.text.text_tokenizer import refuse_hopeless
from unmask.runs.files import user_path
from unmask.runs.lines import STANDARD_INPUT, numbered_lines
from unmask.tables.candidates import SMALL_VOCABULARY

NAMED = re.compile(r"(?P<old>\D+)(?P<place>\d+)(?P<new>\D+)")


class Parent:
    """A sequence as a model reads it.

    ids, where    the text's token ids, and the positions of its residues among them
    residues      the residues as they are written
    allowed       token ids allowed at a position; `tokens` are the same as they are written
    """

    def __init__(self, model: MaskedLM, text: str, allowed: Sequence[int]) -> None:
        refuse_hopeless(text, model.max_length, "the sequence")
        self.text, self.ids, self.allowed = text, model.words.encode(text), list(allowed)
        if model.mask_id in self.ids:
            raise InputError("the sequence has a blank: give it whole, and the positions to change")
        if model.max_length is not None and len(self.ids) > model.max_length:
            raise InputError(f"the sequence has {len(self.ids)} tokens and the model takes {model.max_length}: shorten it")
        self.where = [t for t, token in enumerate(self.ids) if token not in model.special_ids]
        self.residues = [model.token(self.ids[t]).strip() for t in self.where]
        self.tokens = [model.token(i).strip() for i in self.allowed]
        self.index = {token: i for i, token in enumerate(self.tokens)}
        self.model, self.letters = model, all(len(residue) == 1 for residue in self.residues)

    def spelled(self, text: str) -> list[str]:
        """The residues of another sequence as they are written."""
        if self.letters:
            return list("".join(text.split()))
        return [self.model.token(i).strip() for i in self.model.words.encode(text) if i not in self.model.special_ids]

    def refuse_foreign(self, places: Iterable[int]) -> None:
        """The residues that change must be in the alphabet."""
        for place in places:
            if self.ids[self.where[place - 1]] not in self.allowed:
                raise InputError(
                    f"residue {self.residues[place - 1]}{place} of the sequence is not in the alphabet: add it there"
                )

    def change(self, part: str, name: str, silent: bool = False) -> tuple[int, int]:
        """Place and index in the alphabet of one change, such as A24G, of the mutant `name`.

        silent   whether a residue may change into itself
        """
        match = NAMED.fullmatch(part)
        if not match:
            raise InputError(f"{name} is not understood: write changes such as A24G, with + between them")
        old, new, place = match["old"].strip(), match["new"].strip(), int(match["place"][:9])
        if not 1 <= place <= len(self.residues):
            raise InputError(f"{name}: the sequence has residues 1 to {len(self.residues)}, and no {place}")
        if self.residues[place - 1] != old:
            raise InputError(
                f"{name}: residue {place} of the sequence is {self.residues[place - 1]}, not {old} (residues count from 1)"
            )
        if new == old and not silent:
            raise InputError(f"{name} changes {old} into itself: leave it out")
        return place, self.letter(new, name)

    def letter(self, token: str, name: str) -> int:
        """The index of a token in the alphabet."""
        if token not in self.index:
            raise InputError(f"{name}: {token!r} is not in the alphabet {' '.join(self.tokens)[:80]}: choose one of it")
        return self.index[token]


def refuse_twice(places: Sequence[int], name: str) -> None:
    """A mutant changes each residue once."""
    if len(set(places)) < len(places):
        raise InputError(f"{name} changes a residue twice: change each once")


def residue_ids(model: MaskedLM, alphabet: str | Path | Sequence[str] | None) -> list[int]:
    """Ids of the tokens allowed at a position: the alphabet's, or all regular ones of a small vocabulary."""
    letters = letter_ids(model, alphabet)
    if letters is not None:
        if len(letters) < 2:
            raise InputError(f"alphabet {alphabet!r} names one token, and a mutant has another: name two or more")
        return letters
    if len(model.regular_ids) > SMALL_VOCABULARY:
        raise InputError(
            f"the model has {len(model.regular_ids):,} tokens: give the alphabet of those that may stand at a position, "
            "such as ACDEFGHIKLMNPQRSTVWY"
        )
    return list(model.regular_ids)


def listed(mutations: str | Path | Sequence[str]) -> list[str]:
    """The names of mutants in a list, with commas between them, or in a file."""
    if isinstance(mutations, str | Path):
        path = user_path(mutations, "mutations")
        is_file = isinstance(mutations, Path) or path == STANDARD_INPUT or os.path.isfile(path)
        lines = [line for _, line in numbered_lines(path)] if is_file else [str(mutations)]
        mutations = [name for line in lines for name in re.split(r"[,\n]", line)]
    names = list(dict.fromkeys(str(name).strip() for name in mutations if str(name).strip()))
    if not names:
        raise InputError("no mutant was named: write them such as A24G or A24G+L30V, with commas between them")
    return names


def places_of(given: str | Sequence[int], residues: int) -> list[int]:
    """Places of a scan: [24, 30], "24,30-33" or "all"; each once, in order."""
    if isinstance(given, str):
        if given == "all":
            return list(range(1, residues + 1))
        spans = [part.partition("-") for part in given.split(",")]
        try:
            ends = [(int(first), int(last or first)) for first, _, last in spans]
        except ValueError:
            raise InputError(f"positions {given!r} is not understood: give places such as 24,30-33, or all") from None
        if any(last - first > residues or last < first for first, last in ends):
            raise InputError(f"positions {given!r}: the sequence has residues 1 to {residues}")
        given = [place for first, last in ends for place in range(first, last + 1)]
    places = sorted({checks.whole("position", place, 1, residues) for place in given})
    if len(places) < len(given):
        raise InputError(f"positions {list(given)} name a residue twice: name each once")
    return places
