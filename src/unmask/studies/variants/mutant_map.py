"""The heat map of mutants: of single ones their effects, of double ones their epistasis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float

from unmask.common.errors import InputError

if TYPE_CHECKING:
    from unmask.common.figures import Figure
    from unmask.studies.variants.mutants import Mutants


class Cells(NamedTuple):
    """A map's values, NaN where there is no mutant, and its words.

    measure   which number of the mutants the values are
    """

    values: Float[np.ndarray, "rows columns"]
    rows: Sequence[str]
    columns: Sequence[str]
    measure: str
    title: str


def mutant_map(mutants: Mutants) -> Figure:
    """See `Mutants.figure`; cells without a mutant are grey."""
    from unmask.common.figures import heat_map

    refuse_undrawable([len(made) for made in mutants.changes])
    pairs = {(made[0][0], made[1][0]) for made in mutants.changes if len(made) == 2}
    if not pairs:
        cells = _effects_of_singles(mutants)
    elif len(pairs) == 1:
        cells = _epistasis_by_token(mutants)
    else:
        cells = _epistasis_by_place(mutants)
    # White is 0. Colours of a map of zeros need a range, too.
    largest = float(np.nanmax(np.abs(cells.values))) or 1e-12
    # Inches: room for the labels, and for each cell, between a least and a largest figure.
    width = min(24.0, max(5.0, 2.4 + 0.3 * len(cells.columns)))
    height = min(24.0, max(3.6, 1.8 + 0.24 * len(cells.rows)))
    return heat_map(
        cells.values,
        cells.rows,
        cells.columns,
        title=cells.title,
        label=f"{cells.measure} (nats)",
        size=(width, height),
        cmap="RdBu_r",
        vmin=-largest,
        vmax=largest,
    )


def refuse_undrawable(changes: Sequence[int]) -> None:
    """Raise if no mutant, of which these are the numbers of changes, has a place on a map."""
    if all(count > 2 for count in changes):
        raise InputError(
            f"shows mutants of one or two changes, and those given have {min(changes)} or more",
            argument="figure",
            use="leave it out",
        )


def _effects_of_singles(mutants: Mutants) -> Cells:
    """Tokens by places."""
    places = _places(mutants, changes=1)
    tokens = list(mutants.alphabet)
    values = np.full((len(tokens), len(places)), np.nan)
    for made, effect in zip(mutants.changes, mutants.numbers["effect"], strict=True):
        if len(made) == 1:
            ((place, token),) = made
            values[tokens.index(token), places.index(place)] = effect
    return Cells(
        values=values,
        rows=tokens,
        columns=[_residue(mutants, place) for place in places],
        measure="effect",
        title=(
            "effect of each change alone: log-probability beside the sequence's own residue (nats)"
        ),
    )


def _epistasis_by_token(mutants: Mutants) -> Cells:
    """Of the only pair of places: tokens of the first by tokens of the second."""
    first, second = _places(mutants, changes=2)
    tokens = list(mutants.alphabet)
    values = np.full((len(tokens), len(tokens)), np.nan)
    for made, epistasis in zip(mutants.changes, mutants.numbers["epistasis"], strict=True):
        if len(made) == 2:
            (_, token), (_, other_token) = made
            values[tokens.index(token), tokens.index(other_token)] = epistasis
    return Cells(
        values=values,
        rows=[f"{_residue(mutants, first)}{token}" for token in tokens],
        columns=[f"{_residue(mutants, second)}{token}" for token in tokens],
        measure="epistasis",
        title=f"epistasis of residues {first} and {second} ({mutants.construction} joint)",
    )


def _epistasis_by_place(mutants: Mutants) -> Cells:
    """Places by places: of each pair the epistasis of largest size."""
    places = _places(mutants, changes=2)
    values = np.full((len(places), len(places)), np.nan)
    for made, epistasis in zip(mutants.changes, mutants.numbers["epistasis"], strict=True):
        if len(made) == 2:
            (place, _), (other_place, _) = made
            i = places.index(place)
            j = places.index(other_place)
            largest = max(np.nan_to_num(values[i, j]), epistasis, key=abs)
            values[i, j] = largest
            values[j, i] = largest
    residues = [_residue(mutants, place) for place in places]
    return Cells(
        values=values,
        rows=residues,
        columns=residues,
        measure="epistasis",
        title=f"largest epistasis of each pair of residues ({mutants.construction} joint)",
    )


def _places(mutants: Mutants, changes: int) -> list[int]:
    """The places of the mutants with this many changes, in ascending order."""
    places: set[int] = set()
    for made in mutants.changes:
        if len(made) == changes:
            places.update(place for place, _ in made)
    return sorted(places)


def _residue(mutants: Mutants, place: int) -> str:
    """A residue of the sequence with its place, such as A24."""
    return f"{mutants.wild_type[place - 1]}{place}"
