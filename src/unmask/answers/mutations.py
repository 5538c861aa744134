"""Which mutants of a sequence are asked for: names such as A24G+L30V, or a scan of positions.

Residues are counted from 1; residue i is the i-th regular token of the text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import combinations
from math import comb
from pathlib import Path

from unmask import checks
from unmask.errors import InputError
from unmask.models.masked_lm import MaskedLM
from unmask.models.text.text_tokenizer import refuse_hopeless
from unmask.models.text.words import alphabet_ids, alphabet_tokens
from unmask.options.answers import MOST_CHANGES
from unmask.runs.files import user_path
from unmask.runs.lines import STANDARD_INPUT, numbered_lines
from unmask.tables.candidates import MAX_PASSES, SMALL_VOCABULARY
from unmask.tables.unary import pass_count

MOST_ROWS = 5_000_000
NAMED = re.compile(r"(?P<old>\D+)(?P<place>\d+)(?P<new>\D+)")


class Wanted:
    """One sequence, and the mutants of it that are asked for.

    ids, where    the text's token ids, and the positions of its residues among them
    residues      the residues as they are written
    allowed       token ids that may stand at a position; `tokens` are the same as they are written
    sets          for each set of places the fillings asked for, as indices into `allowed`; None: all in which every place changes
    """

    def __init__(
        self,
        model: MaskedLM,
        text: str,
        names: Sequence[str] | None,
        positions: str | Sequence[int] | None,
        changes: int,
        allowed: Sequence[int],
        force: bool,
    ) -> None:
        refuse_hopeless(text, model.max_length, "the sequence")
        self.text, self.ids, self.allowed = text, model.words.encode(text), list(allowed)
        if model.mask_id in self.ids:
            raise InputError("the sequence has a blank: give it whole, and the positions to change")
        if model.max_length is not None and len(self.ids) > model.max_length:
            raise InputError(f"the sequence has {len(self.ids)} tokens and the model takes {model.max_length}: shorten it")
        self.where = [t for t, token in enumerate(self.ids) if token not in model.special_ids]
        self.residues = [model.token(self.ids[t]).strip() for t in self.where]
        self.tokens = [model.token(i).strip() for i in self.allowed]
        self.sets: dict[tuple[int, ...], list[tuple[int, ...]] | None]
        if names is not None:
            self.sets = self._named(names)
        else:
            scanned = places_of(positions if positions is not None else "all", len(self.residues))
            if changes > len(scanned):
                raise InputError(f"{changes} changes together and {len(scanned)} positions: give more positions")
            _check_scan(len(scanned), changes, len(allowed), force)
            self.sets = {some: None for m in range(1, changes + 1) for some in combinations(scanned, m)}
        for places in self.sets:
            for place in places:
                if self.ids[self.where[place - 1]] not in self.allowed:
                    raise InputError(
                        f"residue {self.residues[place - 1]}{place} of the sequence is not in the alphabet: add it there"
                    )
        _check_passes([len(places) for places in self.sets], len(allowed), force)

    def _named(self, names: Sequence[str]) -> dict[tuple[int, ...], list[tuple[int, ...]] | None]:
        wanted: dict[tuple[int, ...], list[tuple[int, ...]] | None] = {}
        for name in names:
            made = sorted(self._change(part.strip(), name) for part in name.split("+"))
            places = tuple(place for place, _ in made)
            if len(set(places)) < len(places):
                raise InputError(f"mutant {name!r} changes a residue twice: change each once")
            if len(places) > MOST_CHANGES:
                raise InputError(f"mutant {name!r} has {len(places)} changes, and up to {MOST_CHANGES} are exact: change fewer")
            cells = wanted.setdefault(places, [])
            assert cells is not None
            cells.append(tuple(token for _, token in made))
        return wanted

    def _change(self, part: str, name: str) -> tuple[int, int]:
        """Place and index in the alphabet of one change, such as A24G."""
        match = NAMED.fullmatch(part)
        if not match:
            raise InputError(f"mutant {name!r} is not understood: write changes such as A24G, with + between them")
        old, new, place = match["old"].strip(), match["new"].strip(), int(match["place"][:9])
        if not 1 <= place <= len(self.residues):
            raise InputError(f"mutant {name!r}: the sequence has residues 1 to {len(self.residues)}, and no {place}")
        if self.residues[place - 1] != old:
            raise InputError(f"mutant {name!r}: residue {place} of the sequence is {self.residues[place - 1]}, not {old}")
        if new not in self.tokens:
            raise InputError(f"mutant {name!r}: {new!r} is not in the alphabet {' '.join(self.tokens)[:80]}: choose one of it")
        if new == old:
            raise InputError(f"mutant {name!r} changes {old} into itself: leave it out")
        return place, self.tokens.index(new)


def allowed_tokens(model: MaskedLM, alphabet: str | Path | Sequence[str] | None) -> list[int]:
    """Ids of the tokens that may stand at a position: the alphabet's, or every regular one of a small vocabulary."""
    if alphabet is not None:
        named = alphabet_ids(model.words, alphabet_tokens(alphabet))
        if len(named) < 2:
            raise InputError(f"alphabet {alphabet!r} names one token, and a mutant has another: name two or more")
        return named
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


def _check_scan(places: int, changes: int, alphabet: int, force: bool) -> None:
    rows = sum(comb(places, m) * (alphabet - 1) ** m for m in range(1, changes + 1))
    if rows > MOST_ROWS and not force:
        raise InputError(
            f"{changes} changes among {places} positions are {rows:,} mutants (limit {MOST_ROWS:,}): scan fewer positions, "
            "change fewer together, or use --force"
        )


def _check_passes(sizes: Sequence[int], alphabet: int, force: bool) -> None:
    passes = sum(pass_count([alphabet] * size) for size in sizes)
    if passes > MAX_PASSES and not force:
        raise InputError(
            f"these mutants need {passes:,} passes of the model (limit {MAX_PASSES:,}): scan fewer positions, use a smaller "
            "alphabet, or --force"
        )
