"""Mutants as coloured cells: a row for each new residue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import comb, isnan
from typing import TYPE_CHECKING

from typing_extensions import TypedDict

from unmask.common.formats import nats
from unmask.common.plain import in_json
from unmask.surfaces.serving.drawings.shapes import (
    Cell,
    Grid,
    Head,
    Layer,
    Share,
    Told,
    head,
    largest_size,
    part_of,
)

if TYPE_CHECKING:
    from unmask.verbs.mutants import Mutants

MUTANT_NUMBERS = {
    "effect": "log-probability of the mutant minus that of the sequence",
    "singles": "the sum of the effects of each change alone",
    "epistasis": "the effect minus the singles: 0 where the changes add up",
    "interaction": "the effect minus the effects of each change alone inside the joint",
}
"""The numbers of a mutant that the page colours, and what they are."""
SHOWN_OF_DOUBLES = "epistasis"
SHOWN_OF_SINGLES = "effect"
MOST_NAMED = 4  # residues that a title names; of more it says how many there are
NUMBERED = 10  # the first residue has its number, and each tenth one
TOLD_DECIMALS = 6
"""Decimals of the effects that are told to the table beside another model.

The table shows three. With six the effects of 20,000 mutants of two models fit into a request.
"""
Changes = tuple[tuple[int, str], ...]
"""(place, token) of each change of a mutant, by ascending place; places are counted from 1."""


class MutantsDrawing(TypedDict):
    """What is drawn of mutants.

    title      what the map shows
    grid       its rows and columns are
               of single changes: new residues, and the residues of the sequence;
               of two changes at two residues: the new residues of one, and of the other;
               of two changes among more residues: these residues, and again these
    residues   the residues of the sequence with their places, such as A24
    part       how many sets of residues are measured, where that is not all of them; else ""
    told       effects of the mutants, largest first
    """

    title: str
    grid: Grid
    residues: list[str]
    part: str
    told: Told


@dataclass(frozen=True)
class _Scan:
    """The mutants that were measured, by their changes.

    wild_type    the tokens of the sequence
    by_changes   of each mutant its numbers, by their names
    """

    wild_type: Sequence[str]
    by_changes: Mapping[Changes, Mapping[str, float]]

    @classmethod
    def of(cls, mutants: Mutants) -> _Scan:
        """All mutants of a result."""
        by_changes: dict[Changes, dict[str, float]] = {}
        for n, made in enumerate(mutants.changes):
            by_changes[tuple(sorted(made))] = {
                kind: mutants.numbers[kind][n] for kind in MUTANT_NUMBERS
            }
        return cls(wild_type=mutants.wild_type, by_changes=by_changes)

    def changes_to(self, *tokens: tuple[int, str]) -> Changes:
        """The changes that put tokens at places: none where the sequence has the token there."""
        changes: list[tuple[int, str]] = []
        for place, token in sorted(tokens):
            if self.wild_type[place - 1] != token:
                changes.append((place, token))
        return tuple(changes)

    def name(self, changes: Changes) -> str:
        """The name of a mutant, such as E3K+V5A."""
        if not changes:
            return "the sequence"
        return "+".join(f"{self.residue(place)}{token}" for place, token in changes)

    def residue(self, place: int) -> str:
        """A residue of the sequence with its place, such as A24."""
        return f"{self.wild_type[place - 1]}{place}"

    def value(self, changes: Changes, kind: str) -> float | None:
        """A number of a mutant; None of what was not measured, and of the sequence itself, which
        has no changes and is no mutant.
        """
        numbers = self.by_changes.get(changes)
        return None if numbers is None else numbers[kind]


def drawn_mutants(mutants: Mutants, positions: Sequence[int], changes: int) -> MutantsDrawing:
    """What the page draws of the mutants of a scan.

    positions   the places of the residues that were asked for, as many as `changes` or more
    changes     how many of them change together: 1 or 2
    """
    scan = _Scan.of(mutants)
    places = sorted(set(positions))
    if changes == 1:
        title = _title_of_singles(scan, places)
        grid = _grid_of_singles(mutants, scan)
    elif len(places) == 2:
        title = f"Double mutants of {_joined(scan, places)}"
        grid = _grid_of_pair(mutants, scan, places)
    else:
        title = f"Double mutants of {len(places)} residues"
        grid = _grid_of_pairs(scan, places)
    return {
        "title": title,
        "grid": grid,
        "residues": [scan.residue(place) for place in range(1, len(mutants.wild_type) + 1)],
        "part": _part(mutants, places, changes),
        "told": _told(mutants),
    }


def _title_of_singles(scan: _Scan, places: Sequence[int]) -> str:
    if len(places) == len(scan.wild_type):
        return "Every single mutant"
    if len(places) <= MOST_NAMED:
        return f"Single mutants of {_joined(scan, places)}"
    return f"Single mutants of {len(places)} residues"


def _joined(scan: _Scan, places: Sequence[int]) -> str:
    return " and ".join(scan.residue(place) for place in places)


def _part(mutants: Mutants, places: Sequence[int], changes: int) -> str:
    """How many sets of residues are measured, of those that were asked for; "" if all are."""
    measured: set[tuple[int, ...]] = set()
    for made in mutants.changes:
        if len(made) == changes:
            measured.add(tuple(sorted(place for place, _ in made)))
    asked = comb(len(places), changes)
    if len(measured) == asked:
        return ""
    what = "residues" if changes == 1 else f"sets of {changes} residues"
    return f"{len(measured):,} of {asked:,} {what}"


def _told(mutants: Mutants) -> Told:
    """The effects, largest first; those that are NaN come last."""
    effects = list(zip(mutants.names, mutants.numbers["effect"], strict=True))

    def largest_first(named: tuple[str, float]) -> tuple[bool, float]:
        _, effect = named
        return (isnan(effect), -effect)

    effects.sort(key=largest_first)
    values = {name: round(effect, TOLD_DECIMALS) for name, effect in effects}
    return {"by": "effects of mutants, in nats", "values": in_json(values)}


def _grid_of_singles(mutants: Mutants, scan: _Scan) -> Grid:
    places = range(1, len(mutants.wild_type) + 1)
    changes_of_cells: list[list[Changes]] = []
    cells: list[list[Cell]] = []
    for token in mutants.alphabet:
        changes_of_row: list[Changes] = []
        cells_of_row: list[Cell] = []
        for place in places:
            made = scan.changes_to((place, token))
            name = f"{scan.residue(place)}{token}"  # A24A, too, where nothing changes
            changes_of_row.append(made)
            cells_of_row.append(_cell(scan, made, name, [SHOWN_OF_SINGLES]))
        changes_of_cells.append(changes_of_row)
        cells.append(cells_of_row)
    columns: list[Head] = []
    for place in places:
        is_numbered = place == 1 or place % NUMBERED == 0
        number = str(place) if is_numbered else ""
        token = mutants.wild_type[place - 1]
        id_of_column = place - 1  # addresses count residues from 0
        columns.append(head(id_of_column, token, title=scan.residue(place), number=number))
    return {
        "label": "effects of single changes",
        "corner": ("new residue", "residue of the sequence"),
        "rows": _heads_of_alphabet(mutants.alphabet),
        "columns": columns,
        "layers": [_layer_of_changes(SHOWN_OF_SINGLES, scan, changes_of_cells)],
        "shown": SHOWN_OF_SINGLES,
        "cells": cells,
        "edges": [],
    }


def _grid_of_pair(mutants: Mutants, scan: _Scan, places: Sequence[int]) -> Grid:
    """All changes of two residues: rows and columns are what they become."""
    first, second = places
    changes_of_cells: list[list[Changes]] = []
    cells: list[list[Cell]] = []
    for token in mutants.alphabet:
        changes_of_row: list[Changes] = []
        cells_of_row: list[Cell] = []
        for other in mutants.alphabet:
            made = scan.changes_to((first, token), (second, other))
            changes_of_row.append(made)
            cells_of_row.append(_cell(scan, made, scan.name(made), MUTANT_NUMBERS))
        changes_of_cells.append(changes_of_row)
        cells.append(cells_of_row)
    return {
        "label": "map of double mutants",
        "corner": (f"{scan.residue(first)} becomes", f"{scan.residue(second)} becomes"),
        "rows": _heads_of_alphabet(mutants.alphabet),
        "columns": _heads_of_alphabet(mutants.alphabet),
        "layers": [_layer_of_changes(kind, scan, changes_of_cells) for kind in MUTANT_NUMBERS],
        "shown": SHOWN_OF_DOUBLES,
        "cells": cells,
        "edges": [],
    }


def _grid_of_pairs(scan: _Scan, places: Sequence[int]) -> Grid:
    """Residues by residues: of each two the double mutant whose epistasis is farthest from 0."""
    farthest = _farthest_from_0(scan)
    values: list[list[float | None]] = []
    cells: list[list[Cell]] = []
    for first in places:
        values_of_row: list[float | None] = []
        cells_of_row: list[Cell] = []
        for second in places:
            made = farthest.get((min(first, second), max(first, second)))
            if first == second:
                value = None
                cell = Cell(name=scan.residue(first), numbers="one residue")
            elif made is None:
                value = None
                cell = Cell(name=_joined(scan, sorted((first, second))), numbers="not measured")
            else:
                value = scan.value(made, SHOWN_OF_DOUBLES)
                cell = _cell(scan, made, scan.name(made), MUTANT_NUMBERS)
            values_of_row.append(value)
            cells_of_row.append(cell)
        values.append(values_of_row)
        cells.append(cells_of_row)
    heads = [head(place - 1, scan.residue(place), title=scan.residue(place)) for place in places]
    meaning = "Of two residues the largest epistasis, up or down: the effect minus the singles."
    return {
        "label": "largest epistasis of each two residues",
        "corner": ("residue", "residue"),
        "rows": heads,
        "columns": heads,
        "layers": [_layer(SHOWN_OF_DOUBLES, meaning, values)],
        "shown": SHOWN_OF_DOUBLES,
        "cells": cells,
        "edges": [],
    }


def _farthest_from_0(scan: _Scan) -> dict[tuple[int, int], Changes]:
    """By two places, the double mutant whose epistasis is farthest from 0. One without a number,
    NaN, is there if no other of these places has one.
    """
    found: dict[tuple[int, int], Changes] = {}
    sizes: dict[tuple[int, int], float] = {}
    for changes, numbers in scan.by_changes.items():
        if len(changes) != 2:
            continue
        (first, _), (second, _) = changes
        size = abs(numbers[SHOWN_OF_DOUBLES])
        if isnan(size):
            size = -1.0  # below that of any number
        if (first, second) not in found or size > sizes[first, second]:
            sizes[first, second] = size
            found[first, second] = changes
    return found


def _heads_of_alphabet(alphabet: Sequence[str]) -> list[Head]:
    return [head(place, token, title=token) for place, token in enumerate(alphabet)]


def _cell(scan: _Scan, changes: Changes, name: str, kinds: Iterable[str]) -> Cell:
    """A mutant with its numbers of these kinds, or why it has none."""
    if not changes:
        return {"name": name, "numbers": "as in the sequence"}
    numbers = scan.by_changes.get(changes)
    if numbers is None:
        return {"name": name, "numbers": "not measured"}
    written = [f"{kind} {nats(numbers[kind])}" for kind in kinds]
    return {"name": name, "numbers": f"{', '.join(written)} nats"}


def _layer_of_changes(kind: str, scan: _Scan, changes_of_cells: list[list[Changes]]) -> Layer:
    """A number of the mutant in each cell."""
    values: list[list[float | None]] = []
    for changes_of_row in changes_of_cells:
        values.append([scan.value(made, kind) for made in changes_of_row])
    return _layer(kind, f"{kind}: {MUTANT_NUMBERS[kind]}.", values)


def _layer(kind: str, meaning: str, values: list[list[float | None]]) -> Layer:
    """Numbers on a linear scale, from minus their largest finite size to that size."""
    largest = largest_size(values)
    shares: list[list[Share | None]] = []
    for row in values:
        shares.append([_share(value, largest) for value in row])
    return {
        "name": kind,
        "label": kind,
        "meaning": meaning,
        "shares": shares,
        "signed": True,
        "scale": "nats",
        "ticks": [(0.0, nats(-largest)), (0.5, "0"), (1.0, f"+{nats(largest)}")],
    }


def _share(value: float | None, largest: float) -> Share | None:
    """The depth of a colour; a cell without a number is empty."""
    if value is None or isnan(value):
        return None
    return part_of(value, largest)
