"""A sequence and its variants, as users write them.

Residues are counted from 1; residue i is the i-th regular token of the text. A change is
written A24G. A list of measured variants is a CSV or TSV file with a header, a frame, or a list
of rows. A variant is written as its changes (A24G+L30V, A24G:L30V, A24G,L30V), as the whole
sequence, or as the residues at `positions` alone; WT is the sequence itself. Variants that
occur more than once are one, with the mean of their values.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from unmask.common import checks
from unmask.common.checks import MOST_SHOWN, one_of, shown
from unmask.common.errors import InputError
from unmask.common.files import user_path
from unmask.models.load import Model, model_name
from unmask.models.masked_lm import MaskedLM
from unmask.models.text.alphabet import letter_ids
from unmask.models.text.text_tokenizer import refuse_hopeless
from unmask.runs.lines import (
    STANDARD_INPUT,
    kind_of,
    numbered_lines,
    records,
    rows_of_frame,
    source_name,
)
from unmask.tables.candidates import SMALL_VOCABULARY

NAMED = re.compile(r"(?P<old>\D+)(?P<place>\d+)(?P<new>\D+)")
Change = tuple[int, int]
Row = tuple[str, dict[str, str]]
"""The name of a row in messages, and its cells by column."""
MISSING = {"", "na", "n/a", "nan", "none", "null", "<na>", "nat"}
TRUTH = {"true": 1.0, "false": 0.0}
WILD = {"wt", "wildtype", "wild-type", "wild type", "parent", "_wt"}
BETWEEN = re.compile(r"[+:,;/\s]+")
"""Between the changes of a measured variant, which has a cell of its own."""
WITHIN = re.compile(r"\s*[+:/]\s*")
"""Between the changes of a mutant in a list, where the other marks could be between mutants."""
FEWEST = 3


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
            raise InputError(
                f"the sequence has {len(self.ids)} tokens and the model takes {model.max_length}:"
                " shorten it"
            )
        refuse_gaps(model, text)
        self.where = [t for t, token in enumerate(self.ids) if token not in model.special_ids]
        self.residues = [model.token(self.ids[t]).strip() for t in self.where]
        self.tokens = [model.token(i).strip() for i in self.allowed]
        self.index = {token: i for i, token in enumerate(self.tokens)}
        self.model, self.letters = model, all(len(residue) == 1 for residue in self.residues)

    def spelled(self, text: str) -> list[str]:
        """The residues of another sequence as they are written."""
        if self.letters:
            return list("".join(text.split()))
        return [
            self.model.token(i).strip()
            for i in self.model.words.encode(text)
            if i not in self.model.special_ids
        ]

    def refuse_foreign(self, places: Iterable[int]) -> None:
        """The residues that change must be in the alphabet."""
        for place in places:
            if self.ids[self.where[place - 1]] not in self.allowed:
                raise InputError(
                    f"residue {self.residues[place - 1]}{place} of the sequence is not in the"
                    " alphabet: add it there"
                )

    def change(self, part: str, name: str, silent: bool = False) -> tuple[int, int]:
        """Place and index in the alphabet of one change, such as A24G, of the mutant `name`.

        silent   whether a residue may change into itself
        """
        match = NAMED.fullmatch(part)
        if not match:
            written = name if len(name) <= MOST_SHOWN else shown(name)
            use = (
                "write changes such as A24G, with + between those of one mutant and commas between"
                " mutants"
            )
            raise InputError(f"{written} is not understood: {use}")
        old, new, place = match["old"].strip(), match["new"].strip(), int(match["place"][:9])
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
        """The index of a token in the alphabet."""
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
        if tokens.ids[position] in model.special_ids:
            name = model.token(tokens.ids[position])
            letters = text[slice(*tokens.spans[position])].strip() or name
            problem = f"token {place} of the sequence, {shown(letters)}, is {name} to the model"
            raise InputError(
                f"{problem}, so that residues cannot be counted: replace it by one that the model"
                " knows"
            )


def changes_of(name: str) -> list[str]:
    """The changes of a mutant, such as A24G and L30V of A24G+L30V, A24G:L30V or A24G/L30V."""
    single = NAMED.fullmatch(name)  # also one whose token is a mark, such as cat2:
    return [name] if single else WITHIN.split(name)


def refuse_twice(places: Sequence[int], name: str) -> None:
    """A mutant changes each residue once."""
    if len(set(places)) < len(places):
        raise InputError(f"{name} changes a residue twice: change each once")


def refuse_english(model: Model, sequences: Sequence[str]) -> None:
    """Refuse a sequence of letters without a model: the bundled one reads English."""
    if model_name(model) == "bundled" and not any(
        " " in sequence.strip() for sequence in sequences
    ):
        raise InputError(
            "no model was given, and the bundled one reads English: give a model of such sequences"
            " (model=...)"
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
                f"alphabet {alphabet!r} names one token, and a mutant has another: name two or more"
            )
        return letters
    if len(model.regular_ids) > SMALL_VOCABULARY:
        raise InputError(
            f"the model has {len(model.regular_ids):,} tokens: give the alphabet of those that may"
            " stand at a position, such as ACDEFGHIKLMNPQRSTVWY, or another model"
        )
    return list(model.regular_ids)


def listed(mutations: str | os.PathLike[str] | Sequence[str]) -> list[str]:
    """The names of mutants in a list, with commas between them, or in a file."""
    if isinstance(mutations, str | os.PathLike):
        named = os.path.expanduser(mutations)
        is_file = (
            not isinstance(mutations, str) or named == str(STANDARD_INPUT) or os.path.isfile(named)
        )
        if is_file:
            lines = [line for _, line in numbered_lines(user_path(mutations, "mutations"))]
        else:
            lines = [str(mutations)]
        mutations = [name for line in lines for name in re.split(r"[,\n]", line)]
    names = list(dict.fromkeys(str(name).strip() for name in mutations if str(name).strip()))
    if not names:
        raise InputError(
            "no mutant was named: write them such as A24G or A24G+L30V, with commas between them"
        )
    return names


def places_of(positions: str | Sequence[int], residues: int) -> list[int]:
    """Places of a scan: [24, 30], "24,30-33" or "all"; each once, in order."""
    if isinstance(positions, str):
        if positions == "all":
            return list(range(1, residues + 1))
        spans = [part.partition("-") for part in positions.split(",")]
        try:
            ends = [(int(first), int(last if dash else first)) for first, dash, last in spans]
        except ValueError:
            raise InputError(
                f"positions {positions!r} is not understood: give places such as 24,30-33, or all"
            ) from None
        if any(last - first > residues or last < first for first, last in ends):
            raise InputError(f"positions {positions!r}: the sequence has residues 1 to {residues}")
        positions = [place for first, last in ends for place in range(first, last + 1)]
    places = sorted({checks.whole("position", place, 1, residues) for place in positions})
    if len(places) < len(positions):
        raise InputError(f"positions {list(positions)} name a residue twice: name each once")
    return places


@dataclass(frozen=True)
class Variants:
    """Distinct variants of a parent and their measured values.

    places   the residues that vary, counted from 1
    wild     the parent's letters at them, as indices into the alphabet
    cells    the letters of each variant at them
    column   the column of the values
    notes    what was guessed, averaged or left out
    """

    places: tuple[int, ...]
    wild: Int[np.ndarray, " k"]
    cells: Int[np.ndarray, "n k"]
    values: Float[np.ndarray, " n"]
    column: str
    notes: tuple[str, ...] = ()

    @property
    def changes(self) -> Int[np.ndarray, " n"]:
        """How many residues of each are not the parent's."""
        return np.asarray((self.cells != self.wild).sum(1))

    def names(self, parent: Parent) -> list[str]:
        """A24G+L30V for each, WT for the parent itself."""
        old = [f"{parent.residues[place - 1]}{place}" for place in self.places]
        rows = zip(self.cells.tolist(), (self.cells != self.wild).tolist(), strict=True)
        return [
            "+".join(o + parent.tokens[c] for o, c, d in zip(old, row, made, strict=True) if d)
            or "WT"
            for row, made in rows
        ]


def read_variants(
    measured: Any,
    parent: Parent,
    positions: str | Sequence[int] | None = None,
    column: str | None = None,
    variant: str | None = None,
    skip_bad: bool = False,
) -> Variants:
    """The variants of a list; a row that cannot be read is an error with its number, or, with
    `skip_bad`, is left out.
    """
    source, header, rows = _table(measured)
    if not rows:
        raise InputError(
            f"{source} has no rows: give a header, and one variant with its value per row"
        )
    places = None if positions is None else places_of(positions, len(parent.residues))
    notes: list[str] = []
    for option, name in (("column", column), ("variant", variant)):
        if name is not None:
            one_of(f"{source}: {option}", name, header)
    numeric = [name for name in header if _is_numeric(name, rows)]
    if column is None:
        measured_columns = [name for name in numeric if name != variant]
        if len(measured_columns) != 1:
            several = f"columns {', '.join(measured_columns)} have"
            problem = several if measured_columns else f"no column of {', '.join(header)} has only"
            raise InputError(f"{source}: {problem} numbers: say which is measured (column=...)")
        (column,) = measured_columns
        notes.append(f"measured values from {column!r}, the only column of numbers")
    texts = (
        [name for name in header if name != column and name not in numeric]
        if variant is None
        else [variant]
    )
    if not texts:
        raise InputError(
            f"{source}: every column has numbers: name the column of the variants (variant=...)"
        )
    variant = texts[0]
    notes += [f"variants from {variant!r}"] if len(texts) > 1 else []
    values: dict[tuple[Change, ...], list[float]] = {}
    missing, bad = [], []
    for where, row in rows:
        try:
            value = number(row[column], column)
            if value is None:
                missing.append(where)
                continue
            values.setdefault(read_variant(row[variant], parent, places), []).append(value)
        except InputError as error:
            bad.append(f"{where}: {error}")
    if bad and not skip_bad:
        more = f"; {len(bad) - 1:,} more rows cannot be read" if len(bad) > 1 else ""
        more += (
            f"; {variant!r} was read, and variant=... names another column"
            if len(texts) > 1
            else ""
        )
        raise InputError(f"{bad[0]}{more}: correct or remove them, or skip them (skip_bad=True)")
    for left_out, why in ((missing, f"without a value in {column!r}"), (bad, "not readable")):
        if left_out:
            first = left_out[0].split(": ")[0]
            notes.append(
                f"{len(left_out):,} row{'s' * (len(left_out) > 1)} {why} left out (first: {first})"
            )
    means = _means(values, notes)
    if len(means) < FEWEST:
        raise InputError(f"{source} has {len(means)} variants with values: give at least {FEWEST}")
    if len(set(means.values())) == 1:
        raise InputError(
            f"{source}: {column} is {min(means.values()):g} in every row: give values, or classes,"
            " that differ"
        )
    sites = (
        list(places)
        if places is not None
        else sorted({place for made in means for place, _ in made})
    )
    parent.refuse_foreign(sites)
    wild = np.array([parent.index[parent.residues[place - 1]] for place in sites], dtype=int)
    cells = np.tile(wild, (len(means), 1))
    site_of = {place: site for site, place in enumerate(sites)}
    for cell, made in zip(cells, means, strict=True):
        for place, token in made:
            cell[site_of[place]] = token
    return Variants(tuple(sites), wild, cells, np.array(list(means.values())), column, tuple(notes))


def read_variant(
    text: str, parent: Parent, places: Sequence[int] | None = None
) -> tuple[Change, ...]:
    """The changes of a variant, as places and indices into the alphabet, in order; none for the
    parent itself.
    """
    text, name = text.strip(), f"variant {shown(text)}"
    if text in (
        "",
        "None",
        "nan",
        "NaT",
        "<NA>",
    ):  # as a frame's missing values are written; NAN is three residues
        raise InputError("there is no variant in this row: name its changes, or WT")
    if text.lower() in WILD and not (
        places is not None and len(text) == len(places) and text.isupper()
    ):
        return ()
    parts = BETWEEN.split(text)
    if all(NAMED.fullmatch(part) for part in parts):
        made = sorted(parent.change(part, name, silent=True) for part in parts)
        refuse_twice([place for place, _ in made], name)
    else:
        made = list(_spelled_out(text, name, parent, places))
    made = [
        (place, token)
        for place, token in made
        if parent.tokens[token] != parent.residues[place - 1]
    ]
    for place, _ in made:
        if places is not None and place not in places:
            raise InputError(
                f"{name} changes residue {place}, which is not among the positions: add it there"
            )
    return tuple(made)


def _spelled_out(
    text: str, name: str, parent: Parent, places: Sequence[int] | None
) -> Iterator[Change]:
    tokens = parent.spelled(text)
    every = range(1, len(parent.residues) + 1)
    at = places if places is not None and len(tokens) == len(places) else every
    if len(tokens) != len(at):
        few = (
            f", or the {len(places)} of the positions"
            if places is not None
            else "; residues alone need positions=..."
        )
        raise InputError(
            f"{name} has {len(tokens)} residues: give changes such as A24G, or all {len(every)}"
            f" residues{few}"
        )
    for place, token in zip(at, tokens, strict=True):
        if token != parent.residues[place - 1]:
            yield place, parent.letter(token, f"{name}, residue {place}")


def number(cell: str, column: str) -> float | None:
    """The number in a cell; None if the cell is empty or says that the value is missing."""
    text = cell.strip().lower()
    if text in MISSING:
        return None
    with suppress(ValueError):
        value = TRUTH[text] if text in TRUTH else float(text.replace("_", " "))
        if isfinite(value):
            return value
    raise InputError(
        f"{column} {shown(cell)} is not a finite number: give one such as 7.5, or leave the cell"
        " empty"
    )


def _is_numeric(column: str, rows: Sequence[Row]) -> bool:
    """Whether all cells of a column that have a value have numbers, and some have one."""
    try:
        return any([number(row[column], column) is not None for _, row in rows])
    except InputError:
        return False


def _table(measured: Any) -> tuple[str, list[str], list[Row]]:
    """The name of the source, its columns and its rows."""
    if isinstance(measured, str | os.PathLike):
        path = user_path(measured, "measured")
        kind = ".tsv" if kind_of(path) == ".tsv" else ".csv"
        rows = [(where, record) for where, record in records(path, kind) if record]
        return source_name(path), list(rows[0][1]) if rows else [], rows
    mappings = rows_of_frame(measured, "measured")
    if not isinstance(mappings, Sequence) or not all(isinstance(row, Mapping) for row in mappings):
        raise InputError(
            f"measured {shown(measured)} has no rows: give a CSV file, a pandas frame or a list of"
            " mappings"
        )
    header = list(dict.fromkeys(key for row in mappings for key in row))
    if others := [key for key in header if not isinstance(key, str)]:
        raise InputError(
            f"measured has the column {shown(others[0])}, which is not a text: name columns by one"
            " text each"
        )
    return (
        "measured",
        header,
        [
            (f"row {i}", {key: str(row.get(key, "")) for key in header})
            for i, row in enumerate(mappings, 1)
        ],
    )


def _means(
    by_variant: Mapping[tuple[Change, ...], list[float]], notes: list[str]
) -> dict[tuple[Change, ...], float]:
    """The mean value of each variant; of two classes, variants that were measured as both are
    left out.
    """
    classes = len({value for values in by_variant.values() for value in values}) == 2
    both = {made for made, values in by_variant.items() if classes and len(set(values)) > 1}
    repeated = [
        values for made, values in by_variant.items() if len(values) > 1 and made not in both
    ]
    if repeated:
        rows = sum(map(len, repeated))
        notes.append(
            f"variants that occur more than once: {len(repeated):,} ({rows:,} rows); their values"
            " are averaged"
        )
    if both:
        notes.append(f"{len(both):,} variants are in both classes: left out")
    return {
        made: sum(values) / len(values) for made, values in by_variant.items() if made not in both
    }
