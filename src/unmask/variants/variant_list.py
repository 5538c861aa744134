"""A list of variants with measured values: a CSV or TSV file with a header, a frame, or a list of rows.

A variant is written as its changes (A24G+L30V, A24G:L30V, A24G,L30V), as the whole sequence, or as the residues at `positions`
alone; WT is the sequence itself. Variants that occur more than once are one, with the mean of their values.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from unmask.checks import one_of, shown
from unmask.errors import InputError
from unmask.runs.files import user_path
from unmask.runs.lines import numbered_lines, source_name
from unmask.variants.parent import NAMED, Parent, places_of, refuse_twice

Change = tuple[int, int]
Row = tuple[str, dict[str, str]]
"""The name of a row in messages, and its cells by column."""
MISSING = {"", "na", "n/a", "nan", "none", "null", "<na>"}
TRUTH = {"true": 1.0, "false": 0.0}
WILD = {"wt", "wildtype", "wild-type", "wild type", "parent", "_wt"}
BETWEEN = re.compile(r"[+:,;/\s]+")
GAPS = {"-": "a gap", ".": "a gap", "*": "a stop", "X": "the unknown residue X", "x": "the unknown residue x"}
FEWEST = 3


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
        counted: np.ndarray = (self.cells != self.wild).sum(1)
        return counted

    def names(self, parent: Parent) -> list[str]:
        """A24G+L30V for each, WT for the parent itself."""
        old = [f"{parent.residues[place - 1]}{place}" for place in self.places]
        rows = zip(self.cells.tolist(), (self.cells != self.wild).tolist(), strict=True)
        return ["+".join(o + parent.tokens[c] for o, c, d in zip(old, row, made, strict=True) if d) or "WT" for row, made in rows]


def read_variants(
    measured: Any,
    parent: Parent,
    positions: str | Sequence[int] | None = None,
    column: str | None = None,
    variant: str | None = None,
    skip_bad: bool = False,
) -> Variants:
    """The variants of a list; a row that cannot be read is an error with its number, or, with `skip_bad`, is left out."""
    source, header, rows = _table(measured)
    if not rows:
        raise InputError(f"{source} has no rows: give a header, and one variant with its value per row")
    places = None if positions is None else places_of(positions, len(parent.residues))
    notes: list[str] = []
    for option, name in (("column", column), ("variant", variant)):
        if name is not None:
            one_of(f"{source}: {option}", name, header)
    numeric = [name for name in header if _is_numeric(name, rows)]
    if column is None:
        column = _only_column([name for name in numeric if name != variant], source, header, notes)
    if variant is None:
        others = [name for name in header if name != column and name not in numeric]
        variant = _variant_column(others, source, rows[0], parent, places, notes)
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
        raise InputError(f"{bad[0]}{more}: correct or remove them, or skip them with --skip-bad")
    for left_out, why in ((missing, f"without a value in {column!r}"), (bad, "not readable")):
        if left_out:
            first = left_out[0].split(": ")[0]
            notes.append(f"{len(left_out):,} row{'s' * (len(left_out) > 1)} {why} left out (first: {first})")
    means = _means(values, notes)
    if len(means) < FEWEST:
        raise InputError(f"{source} has {len(means)} variants with values: give at least {FEWEST}")
    if len(set(means.values())) == 1:
        raise InputError(f"{source}: {column} is {min(means.values()):g} in every row: give values, or classes, that differ")
    sites = list(places) if places is not None else sorted({place for made in means for place, _ in made})
    parent.refuse_foreign(sites)
    wild = np.array([parent.index[parent.residues[place - 1]] for place in sites], dtype=int)
    cells = np.tile(wild, (len(means), 1))
    site_of = {place: site for site, place in enumerate(sites)}
    for cell, made in zip(cells, means, strict=True):
        for place, token in made:
            cell[site_of[place]] = token
    return Variants(tuple(sites), wild, cells, np.array(list(means.values())), column, tuple(notes))


def read_variant(text: str, parent: Parent, places: Sequence[int] | None = None) -> tuple[Change, ...]:
    """The changes of a variant, as places and indices into the alphabet, in order; none for the parent itself."""
    text, name = text.strip(), f"variant {shown(text)}"
    if not text:
        raise InputError("there is no variant in this row: name its changes, or WT")
    if text.lower() in WILD and not (places is not None and len(text) == len(places) and text.isupper()):
        return ()
    parts = BETWEEN.split(text)
    if all(NAMED.fullmatch(part) for part in parts):
        made = sorted(parent.change(part, name, silent=True) for part in parts)
        refuse_twice([place for place, _ in made], name)
    else:
        made = list(_spelled_out(text, name, parent, places))
    made = [(place, token) for place, token in made if parent.tokens[token] != parent.residues[place - 1]]
    for place, _ in made:
        if places is not None and place not in places:
            raise InputError(f"{name} changes residue {place}, which is not among the positions: add it there")
    return tuple(made)


def _spelled_out(text: str, name: str, parent: Parent, places: Sequence[int] | None) -> Iterator[Change]:
    tokens = parent.spelled(text)
    every = range(1, len(parent.residues) + 1)
    at = places if places is not None and len(tokens) == len(places) else every
    if len(tokens) != len(at):
        few = f", or the {len(places)} of the positions" if places is not None else "; residues alone need --positions"
        raise InputError(f"{name} has {len(tokens)} residues: give changes such as A24G, or all {len(every)} residues{few}")
    for place, token in zip(at, tokens, strict=True):
        if token != parent.residues[place - 1]:
            if token in GAPS and token not in parent.index:
                raise InputError(f"{name} has {GAPS[token]} at residue {place}: only substitutions can be scored")
            yield place, parent.letter(token, name)


def number(cell: str, column: str) -> float | None:
    """The number in a cell; None if the cell is empty or says that the value is missing."""
    text = cell.strip().lower()
    if text in MISSING:
        return None
    try:
        value = TRUTH[text] if text in TRUTH else float(text.replace("_", " "))
    except ValueError:
        raise InputError(f"{column} {shown(cell)} is not a number: give one such as 7.5, or leave the cell empty") from None
    if not isfinite(value):
        raise InputError(f"{column} {shown(cell)} is not finite: give a number such as 7.5, or leave the cell empty")
    return value


def _is_numeric(column: str, rows: Sequence[Row]) -> bool:
    try:
        return any([number(row[column], column) is not None for _, row in rows])
    except InputError:
        return False


def _only_column(numeric: Sequence[str], source: str, header: Sequence[str], notes: list[str]) -> str:
    if len(numeric) != 1:
        some = f"columns {', '.join(numeric)} have" if numeric else f"no column of {', '.join(header)} has only"
        raise InputError(f"{source}: {some} numbers: say which is measured with --column")
    notes.append(f"measured values from {numeric[0]!r}, the only column of numbers")
    return numeric[0]


def _variant_column(
    columns: Sequence[str], source: str, first: Row, parent: Parent, places: Sequence[int] | None, notes: list[str]
) -> str:
    """The first column whose first cell can be read as a variant."""
    why = "every column has numbers"
    for name in columns:
        try:
            read_variant(first[1][name], parent, places)
        except InputError as error:
            why = f"the first row of none of {', '.join(columns)} can be read ({error})"
        else:
            if len(columns) > 1:
                notes.append(f"variants from {name!r}")
            return name
    if len(columns) == 1:
        return columns[0]
    raise InputError(f"{source}: {why}: name the column of the variants with --variant")


def _table(measured: Any) -> tuple[str, list[str], list[Row]]:
    """The name of the source, its columns and its rows."""
    if isinstance(measured, str | Path):
        return _file_table(user_path(measured, "measured"))
    records = measured.to_dict("records") if type(measured).__name__ == "DataFrame" else measured
    if not isinstance(records, Sequence) or not all(isinstance(row, Mapping) for row in records):
        raise InputError(f"measured {shown(measured)} has no rows: give a CSV file, a pandas frame or a list of mappings")
    header = list(dict.fromkeys(str(key) for row in records for key in row))

    def cell(value: object) -> str:
        missing = value is None or isinstance(value, float) and value != value
        return "" if missing or str(value) in ("<NA>", "NaT") else str(value)

    return "measured", header, [(f"row {i}", {name: cell(row.get(name)) for name in header}) for i, row in enumerate(records, 1)]


def _file_table(path: Path) -> tuple[str, list[str], list[Row]]:
    source, lines = source_name(path), numbered_lines(path)
    _, first = next(lines, (0, ""))
    between = max("\t;,", key=first.count)
    header = [name.strip() for name in next(csv.reader([first], delimiter=between), [])]
    if twice := [name for name, times in Counter(header).items() if times > 1]:
        raise InputError(f"{source} names column {twice[0]!r} twice: rename one")
    rows: list[Row] = []
    reader = csv.reader((f"{line}\n" for _, line in lines), delimiter=between)
    while True:
        where = f"{source} line {reader.line_num + 2}"
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise InputError(f"{where}: {error}: correct the file") from None
        if cells is None:
            return source, header, rows
        if any(cell.strip() for cell in cells):
            if len(cells) != len(header):
                raise InputError(
                    f"{where}: {len(cells)} cells, and the header has {len(header)}: "
                    "put variants with commas in quotes, or write A24G+L30V"
                )
            rows.append((where, dict(zip(header, cells, strict=True))))


def _means(read: Mapping[tuple[Change, ...], list[float]], notes: list[str]) -> dict[tuple[Change, ...], float]:
    """The mean value of each variant; of two classes, variants that were measured as both are left out."""
    classes = len({value for values in read.values() for value in values}) == 2
    both = {made for made, values in read.items() if classes and len(set(values)) > 1}
    repeated = [values for made, values in read.items() if len(values) > 1 and made not in both]
    if repeated:
        rows = sum(map(len, repeated))
        notes.append(f"variants that occur more than once: {len(repeated):,} ({rows:,} rows); their values are averaged")
    if both:
        notes.append(f"{len(both):,} variants are in both classes: left out")
    return {made: sum(values) / len(values) for made, values in read.items() if made not in both}
