"""Lists of measured variants of a sequence, as users write them.

A list is a CSV or TSV file with a header, a frame, or a list of rows. A variant is written as
its changes (A24G+L30V, A24G:L30V, A24G,L30V), as the whole sequence, or as the residues at
`positions` alone; WT is the sequence itself. Variants that occur more than once are one, with
the mean of their values.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import isfinite, nan
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from unmask.common.checks import one_of, shown
from unmask.common.errors import InputError, argument_name
from unmask.common.files import user_path
from unmask.runs.file_names import kind_of
from unmask.runs.lines import records, rows_of_frame
from unmask.runs.unpacking import source_name
from unmask.studies.variants.naming import CHANGE, refuse_twice
from unmask.studies.variants.parent import Change, Parent

Variant = tuple[Change, ...]
"""The changes of a variant, in the order of their places; none for the parent itself."""
Row = tuple[str, dict[str, str]]
"""The name of a row in messages, and its cells by column."""
MISSING = {"", "na", "n/a", "nan", "none", "null", "<na>", "nat"}
"""Cells that say that a value is missing, in lower case."""
NO_VARIANT = {"", "None", "nan", "NaT", "<NA>"}
"""Cells that say that a variant is missing, in the case in which frames write it: NAN is a
variant of three residues.
"""
TRUTH = {"true": 1.0, "false": 0.0}
"""The numbers of cells that are truth values, in lower case."""
WILD_TYPE = {"wt", "wildtype", "wild-type", "wild type", "parent", "_wt"}
"""Names of the parent itself, in lower case."""
BETWEEN_CHANGES = re.compile(r"[+:,;/\s]+")
"""Between the changes of a measured variant, which has a cell of its own."""
FEWEST = 3
"""The smallest number of distinct variants of a list."""


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
        return [self._name(parent, cell) for cell in self.cells.tolist()]

    def _name(self, parent: Parent, cell: Sequence[int]) -> str:
        made = []
        for place, own, token in zip(self.places, self.wild.tolist(), cell, strict=True):
            if token != own:
                made.append(f"{parent.residues[place - 1]}{place}{parent.tokens[token]}")
        return "+".join(made) or "WT"


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

    positions   the residues that vary [default: those that some variant changes]
    column      the column of the values [default: the only one of numbers]
    variant     the column of the variants [default: the first one without numbers]
    """
    table = _read_table(measured)
    if not table.rows:
        raise InputError(
            f"{table.source} has no rows: give a header, and one variant with its value per row"
        )
    places = None if positions is None else parent.named_places(positions)
    columns = _chosen_columns(table, column, variant)
    read = _read_rows(table, columns, parent, places)
    if read.bad and not skip_bad:
        raise InputError(_about_bad_rows(read.bad, columns))
    notes = [*columns.notes]
    if read.missing:
        notes.append(_about_left_out(read.missing, f"without a value in {columns.value!r}"))
    if read.bad:
        notes.append(_about_left_out(read.bad, "not readable"))
    means = _means(read.values, notes)
    if len(means) < FEWEST:
        raise InputError(
            f"{table.source} has {len(means)} variants with values: give at least {FEWEST}"
        )
    if len(set(means.values())) == 1:
        raise InputError(
            f"{table.source}: {columns.value} is {min(means.values()):g} in every row: give values,"
            " or classes, that differ"
        )
    if places is None:
        places = _changed_places(means)
    parent.refuse_foreign(places)
    residues = [parent.residues[place - 1] for place in places]
    wild = np.array([parent.index[residue] for residue in residues], dtype=int)
    values = list(means.values())
    return Variants(
        places=tuple(places),
        wild=wild,
        cells=_cells(means, places, wild),
        values=np.array(values),
        column=columns.value,
        notes=tuple(notes),
    )


class _Table(NamedTuple):
    """A list before its cells are read; `source` is its name in messages."""

    source: str
    header: list[str]
    rows: list[Row]


class _Columns(NamedTuple):
    """Which columns are read.

    value             that of the measured values
    variant           that of the variants
    is_first_of_many  whether further columns could have the variants
    notes             what was guessed
    """

    value: str
    variant: str
    is_first_of_many: bool
    notes: list[str]


class _ReadRows(NamedTuple):
    """What the rows say.

    values    by variant all of its measured values
    missing   the names of rows without a value
    bad       the rows that cannot be read, each with its error
    """

    values: dict[Variant, list[float]]
    missing: list[str]
    bad: list[str]


def _chosen_columns(table: _Table, column: str | None, variant: str | None) -> _Columns:
    """The columns that a user names, or that the cells show."""
    for option, name in (("column", column), ("variant", variant)):
        if name is not None:
            one_of(option, name, table.header)
    numeric = [name for name in table.header if _is_numeric(name, table.rows)]
    notes = []
    if column is None:
        column = _only_measured([name for name in numeric if name != variant], table)
        notes.append(f"measured values from {column!r}, the only column of numbers")
    if variant is not None:
        return _Columns(value=column, variant=variant, is_first_of_many=False, notes=notes)
    texts = [name for name in table.header if name != column and name not in numeric]
    if not texts:
        raise InputError(
            f"{table.source}: every column has numbers: name the column of the variants as"
            f" {argument_name('variant')}"
        )
    if len(texts) > 1:
        notes.append(f"variants from {texts[0]!r}")
    return _Columns(value=column, variant=texts[0], is_first_of_many=len(texts) > 1, notes=notes)


def _only_measured(numeric: Sequence[str], table: _Table) -> str:
    """The only column of numbers."""
    if len(numeric) == 1:
        return numeric[0]
    if numeric:
        problem = f"columns {', '.join(numeric)} have numbers"
    else:
        problem = f"no column of {', '.join(table.header)} has only numbers"
    column = argument_name("column")
    raise InputError(f"{table.source}: {problem}: name the one that is measured as {column}")


def _read_rows(
    table: _Table, columns: _Columns, parent: Parent, places: Sequence[int] | None
) -> _ReadRows:
    """Read all rows; errors are collected."""
    read = _ReadRows(values={}, missing=[], bad=[])
    for where, row in table.rows:
        try:
            value = number(row[columns.value], columns.value)
            if value is None:
                read.missing.append(where)
                continue
            made = read_variant(row[columns.variant], parent, places)
        except InputError as error:
            read.bad.append(f"{where}: {error.marked}")
        else:
            read.values.setdefault(made, []).append(value)
    return read


def _about_bad_rows(bad: Sequence[str], columns: _Columns) -> str:
    """The error of the first bad row, and what could be wrong with all of them."""
    more = ""
    if len(bad) > 1:
        more += f"; {len(bad) - 1:,} more rows cannot be read"
    if columns.is_first_of_many:
        variant = argument_name("variant")
        more += f"; {columns.variant!r} was read, and {variant} names another column"
    skip_them = argument_name("skip_bad", True)
    return f"{bad[0]}{more}: correct or remove them, or skip them by {skip_them}"


def _about_left_out(rows: Sequence[str], why: str) -> str:
    """A note about rows without a value, or that cannot be read."""
    plural = "s" if len(rows) > 1 else ""
    first, _, _ = rows[0].partition(": ")  # of a bad row its name, without the error
    return f"{len(rows):,} row{plural} {why} left out (first: {first})"


def _changed_places(variants: Iterable[Variant]) -> list[int]:
    """The places that some variant changes, in ascending order."""
    changed: set[int] = set()
    for made in variants:
        changed.update(place for place, _ in made)
    return sorted(changed)


def _cells(
    variants: Collection[Variant], places: Sequence[int], wild: Int[np.ndarray, " k"]
) -> Int[np.ndarray, "n k"]:
    """The letters of each variant at these places, as indices into the alphabet; `wild` has the
    parent's.
    """
    cells = np.tile(wild, (len(variants), 1))
    column_of = {place: column for column, place in enumerate(places)}
    for cell, made in zip(cells, variants, strict=True):
        for place, token in made:
            cell[column_of[place]] = token
    return cells


def read_variant(text: str, parent: Parent, places: Sequence[int] | None = None) -> Variant:
    """The changes of one variant.

    places   the residues that may change, whose tokens alone may be written [default: all]
    """
    name = f"variant {shown(text)}"  # as it was written
    text = text.strip()
    if text in NO_VARIANT:
        raise InputError("there is no variant in this row: name its changes, or WT")
    # WT may also be two residues, if these are all that a variant has.
    may_be_residues = places is not None and len(text) == len(places) and text.isupper()
    if text.lower() in WILD_TYPE and not may_be_residues:
        return ()
    parts = BETWEEN_CHANGES.split(text)
    if all(CHANGE.fullmatch(part) for part in parts):
        # Changes of a residue into itself are allowed here, and left out below.
        changes = sorted(parent.change(part, name, silent=True) for part in parts)
        refuse_twice([place for place, _ in changes], name)
    else:
        changes = _spelled_out(text, name, parent, places)
    made = [
        (place, token)
        for place, token in changes
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
) -> list[Change]:
    """The changes of a variant that is written as its residues: all, or those at `places`."""
    tokens = parent.spelled(text)
    all_places = range(1, len(parent.residues) + 1)
    if places is not None and len(tokens) == len(places):
        written_places = places
    elif len(tokens) == len(all_places):
        written_places = all_places
    else:
        if places is None:
            needed = argument_name("positions")
            all_or_some = f"all {len(all_places)} residues; residues alone need {needed}"
        else:
            all_or_some = f"all {len(all_places)} residues, or the {len(places)} of the positions"
        raise InputError(
            f"{name} has {len(tokens)} residues: give changes such as A24G, or {all_or_some}"
        )
    changes = []
    for place, token in zip(written_places, tokens, strict=True):
        # The parent's own residue may be outside the alphabet where it does not change.
        if token != parent.residues[place - 1]:
            changes.append((place, parent.letter(token, f"{name}, residue {place}")))
    return changes


def number(cell: str, column: str) -> float | None:
    """The number in a cell; None if the cell is empty or says that the value is missing."""
    text = cell.strip().lower()
    if text in MISSING:
        return None
    if text in TRUTH:
        return TRUTH[text]
    # Python reads 1_2 as 12; here it is a name, and "1 2" is no number.
    text = text.replace("_", " ")
    try:
        value = float(text)
    except ValueError:
        value = nan
    if isfinite(value):
        return value
    raise InputError(
        f"{column} {shown(cell)} is not a finite number: give one such as 7.5, or leave the cell"
        " empty"
    )


def _is_numeric(column: str, rows: Sequence[Row]) -> bool:
    """Whether all cells of a column that have a value have numbers, and some have one."""
    try:
        numbers = [number(row[column], column) for _, row in rows]
    except InputError:
        return False
    return any(value is not None for value in numbers)


def _read_table(measured: Any) -> _Table:
    """The rows of a file, a frame or a list, as texts."""
    if isinstance(measured, str | os.PathLike):
        path = user_path(measured, "measured")
        # Files of any other ending are read as CSV.
        kind = ".tsv" if kind_of(path) == ".tsv" else ".csv"
        rows = [(where, record) for where, record in records(path, kind) if record]
        header = list(rows[0][1]) if rows else []
        return _Table(source=source_name(path), header=header, rows=rows)
    mappings = rows_of_frame(measured, "measured")
    if not isinstance(mappings, Sequence) or not all(isinstance(row, Mapping) for row in mappings):
        raise InputError(
            f"{shown(measured)} has no rows",
            argument="measured",
            use="give a CSV file, a pandas frame or a list of mappings",
        )
    header_of_any: dict[Any, None] = {}  # the columns of all rows, in the order of the first
    for row in mappings:
        header_of_any |= dict.fromkeys(row)
    not_texts = [key for key in header_of_any if not isinstance(key, str)]
    if not_texts:
        raise InputError(
            f"has the column {shown(not_texts[0])}, which is not a text",
            argument="measured",
            use="name columns by one text each",
        )
    header = list(header_of_any)
    text_rows = []
    for i, row in enumerate(mappings, 1):
        cells = {key: str(row.get(key, "")) for key in header}
        text_rows.append((f"row {i}", cells))
    return _Table(source="measured", header=header, rows=text_rows)


def _means(values_of: Mapping[Variant, list[float]], notes: list[str]) -> dict[Variant, float]:
    """The mean value of each variant that is kept.

    Two distinct values in the whole list are two classes. Variants that were measured as both are
    then left out: their mean would be a third value. Notes about variants that are averaged, or
    left out, are appended to `notes`.
    """
    distinct = set(chain.from_iterable(values_of.values()))
    in_both: set[Variant] = set()
    if len(distinct) == 2:
        in_both = {made for made, values in values_of.items() if len(set(values)) > 1}
    kept = {made: values for made, values in values_of.items() if made not in in_both}
    row_counts = [len(values) for values in kept.values() if len(values) > 1]
    if row_counts:
        notes.append(
            f"variants that occur more than once: {len(row_counts):,} ({sum(row_counts):,} rows);"
            " their values are averaged"
        )
    if in_both:
        notes.append(f"{len(in_both):,} variants are in both classes: left out")
    return {made: sum(values) / len(values) for made, values in kept.items()}
