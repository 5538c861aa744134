"""Heat maps of mutants: single effects by place and token, epistasis of pairs by token or by place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from unmask.answers.mutants import Mutants


def mutant_map(found: Mutants) -> Figure:
    """Of single mutants their effects; of one pair of places its epistasis by token; of several the largest by pair."""
    pairs = sorted({tuple(place for place, _ in made) for made in found.changes if len(made) == 2})
    if not pairs:
        return _singles(found)
    return _one_pair(found, *pairs[0]) if len(pairs) == 1 else _pairs(found, pairs)


def _singles(found: Mutants) -> Figure:
    places = sorted({place for made in found.changes for place, _ in made})
    values = np.full((len(found.alphabet), len(places)), np.nan)
    for made, effect in zip(found.changes, found.numbers["effect"], strict=True):
        for place, token in made if len(made) == 1 else ():
            values[found.alphabet.index(token), places.index(place)] = effect
    names = [f"{found.wild_type[place - 1]}{place}" for place in places]
    title = "effect of each change alone: log-probability beside the sequence's own residue (nats)"
    return _drawn(values, list(found.alphabet), names, title, "effect (nats)")


def _one_pair(found: Mutants, first: int, second: int) -> Figure:
    values = np.full((len(found.alphabet), len(found.alphabet)), np.nan)
    for made, epistasis in zip(found.changes, found.numbers["epistasis"], strict=True):
        if len(made) == 2:
            values[found.alphabet.index(made[0][1]), found.alphabet.index(made[1][1])] = epistasis
    names = [[f"{found.wild_type[place - 1]}{place}{token}" for token in found.alphabet] for place in (first, second)]
    title = f"epistasis of residues {first} and {second} ({found.joint} joint)"
    return _drawn(values, names[0], names[1], title, "epistasis (nats)")


def _pairs(found: Mutants, pairs: list[tuple[int, ...]]) -> Figure:
    places = sorted({place for pair in pairs for place in pair})
    values = np.full((len(places), len(places)), np.nan)
    for made, epistasis in zip(found.changes, found.numbers["epistasis"], strict=True):
        if len(made) == 2:
            i, j = (places.index(place) for place, _ in made)
            if np.isnan(values[i, j]) or abs(epistasis) > abs(values[i, j]):
                values[i, j] = values[j, i] = epistasis
    names = [f"{found.wild_type[place - 1]}{place}" for place in places]
    return _drawn(values, names, names, f"largest epistasis of each pair of residues ({found.joint} joint)", "epistasis (nats)")


def _drawn(values: np.ndarray, rows: list[str], columns: list[str], title: str, unit: str) -> Figure:
    from matplotlib.figure import Figure

    largest = float(np.nanmax(np.abs(values))) or 1e-12
    size = (min(24.0, max(5.0, 2.4 + 0.3 * len(columns))), min(24.0, max(3.6, 1.8 + 0.24 * len(rows))))
    figure = Figure(figsize=size, layout="constrained")
    panel = figure.subplots()
    image = panel.imshow(values, cmap="RdBu_r", vmin=-largest, vmax=largest, aspect="auto")
    panel.set_facecolor("0.85")
    panel.set_xticks(range(len(columns)), columns, rotation=90, fontsize=7, parse_math=False)
    panel.set_yticks(range(len(rows)), rows, fontsize=7, parse_math=False)
    panel.set_title(title, fontsize=9, parse_math=False)
    figure.colorbar(image, ax=panel, label=unit, shrink=0.8)
    return figure
