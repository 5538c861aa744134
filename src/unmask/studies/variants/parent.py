"""A sequence whose variants are measured, as a model reads it.

Residues are counted from 1; residue i is the i-th regular token of the text.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from unmask.common.checks import MOST_SHOWN, shown
from unmask.common.counting import Places, counted_places
from unmask.common.errors import InputError, argument_name
from unmask.models.load import Model, model_name
from unmask.models.masked_lm import MaskedLM
from unmask.models.text.alphabet import letter_ids
from unmask.models.text.text_tokenizer import refuse_hopeless
from unmask.studies.variants.naming import CHANGE
from unmask.tables.default_effort import SMALL_VOCABULARY

Change = tuple[int, int]
"""The place of a residue, and its new token as an index into the alphabet."""


class Parent:
    """A sequence as a model reads it.

    ids, where    the text's token ids, and the positions of its residues among them
    residues      the residues as they are written
    allowed       token ids allowed at a position; `tokens` are the same as they are written
    index         the place of each of `tokens`
    letters       whether every residue is one character
    """

    def __init__(self, model: MaskedLM, text: str, allowed: Sequence[int]) -> None:
        refuse_hopeless(text, model.max_length, "the sequence")
        self.model = model
        self.text = text
        self.ids: list[int] = model.words.encode(text)
        self.allowed: list[int] = list(allowed)
        if model.mask_id in self.ids:
            raise InputError("the sequence has a blank: give it whole, and the positions to change")
        if model.max_length is not None and len(self.ids) > model.max_length:
            raise InputError(
                f"the sequence has {len(self.ids)} tokens and the model takes {model.max_length}:"
                " shorten it"
            )
        refuse_gaps(model, text)
        self.where: list[int] = [
            t for t, token in enumerate(self.ids) if token not in model.special_ids
        ]
        self.residues: list[str] = [model.words.token(self.ids[t]).strip() for t in self.where]
        self.tokens: list[str] = [model.words.token(i).strip() for i in self.allowed]
        self.index: dict[str, int] = {token: i for i, token in enumerate(self.tokens)}
        self.letters: bool = all(len(residue) == 1 for residue in self.residues)

    def named_places(self, places: Places) -> list[int]:
        """The places that a user names, such as "24,30-33", in ascending order."""
        named = counted_places(places, len(self.residues), "the sequence has residues", "positions")
        return sorted(named)

    def positions(self, places: Iterable[int]) -> list[int]:
        """The positions of residues in the text."""
        return [self.where[place - 1] for place in places]

    def spelled(self, text: str) -> list[str]:
        """The residues of another sequence as they are written."""
        if self.letters:
            return list("".join(text.split()))
        ids = self.model.words.encode(text)
        return [self.model.words.token(i).strip() for i in ids if i not in self.model.special_ids]

    def refuse_foreign(self, places: Iterable[int]) -> None:
        """Raise if a residue that changes is not in the alphabet."""
        for place in places:
            if self.ids[self.where[place - 1]] not in self.allowed:
                raise InputError(
                    f"residue {self.residues[place - 1]}{place} of the sequence is not in the"
                    " alphabet: add it there"
                )

    def change(self, part: str, name: str, silent: bool = False) -> Change:
        """One change, such as A24G, of the mutant `name`.

        silent   whether a residue may change into itself
        """
        match = CHANGE.fullmatch(part)
        if not match:
            written = name if len(name) <= MOST_SHOWN else shown(name)
            raise InputError(
                f"{written} is not understood: write changes such as A24G, with + between those of"
                " one mutant and commas between mutants"
            )
        old = match["old"].strip()
        new = match["new"].strip()
        # Nine digits are more than any text has places, and int() refuses thousands of digits.
        place = int(match["place"][:9])
        if not 1 <= place <= len(self.residues):
            raise InputError(
                f"{name}: the sequence has residues 1 to {len(self.residues)}, and no {place}"
            )
        if self.residues[place - 1] != old:
            raise InputError(
                f"{name}: residue {place} of the sequence is {self.residues[place - 1]}, not {old}:"
                " count residues from 1"
            )
        if new == old and not silent:
            raise InputError(f"{name} changes {old} into itself: leave it out")
        return place, self.letter(new, name)

    def letter(self, token: str, name: str) -> int:
        """The index of a token in the alphabet; `name` says whose it is."""
        if token not in self.index:
            raise InputError(
                f"{name}: {token!r} is not in the alphabet {' '.join(self.tokens)[:80]}: choose one"
                " of it"
            )
        return self.index[token]


def refuse_gaps(model: MaskedLM, text: str) -> None:
    """Refuse a sequence with a special token inside, such as that of unknown letters: later
    residues would be miscounted.
    """
    tokens = model.words.tokens_of(text)
    for place, position in enumerate(range(*tokens.inside), 1):
        token = tokens.ids[position]
        if token in model.special_ids:
            name = model.words.token(token)
            first, last = tokens.spans[position]
            letters = text[first:last].strip() or name
            raise InputError(
                f"token {place} of the sequence, {shown(letters)}, is {name} to the model, so that"
                " residues cannot be counted: replace it by one that the model knows"
            )


def refuse_english(model: Model, sequences: Sequence[str]) -> None:
    """Refuse a sequence of letters without a model: the bundled one reads English."""
    has_words = any(" " in sequence.strip() for sequence in sequences)
    if model_name(model) == "bundled" and not has_words:
        raise InputError(
            "no model was given, and the bundled one reads English: give a"
            f" {argument_name('model')} of such sequences"
        )


def residue_ids(
    model: MaskedLM, alphabet: str | os.PathLike[str] | Sequence[str] | None
) -> list[int]:
    """Ids of the tokens allowed at a position: the alphabet's, or all regular ones of a small
    vocabulary.
    """
    letters = letter_ids(model, alphabet)
    if letters is not None:
        if len(letters) < 2:
            raise InputError(
                f"{alphabet!r} names one token, and a mutant has another",
                argument="alphabet",
                use="name two or more",
            )
        return letters
    if len(model.regular_ids) > SMALL_VOCABULARY:
        raise InputError(
            f"the model has {len(model.regular_ids):,} tokens: give an"
            f" {argument_name('alphabet')} of those that may stand at a position, such as"
            " ACDEFGHIKLMNPQRSTVWY, or another model"
        )
    return list(model.regular_ids)
