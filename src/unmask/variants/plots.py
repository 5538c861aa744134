"""Figures of variants, with matplotlib: effects and epistasis of mutants, scores against measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unmask.variants.measured import FEWER, STATISTICS

if TYPE_CHECKING:
    from unmask.figures import Figure
    from unmask.variants.measured import Measured
    from unmask.variants.mutants import Mutants


def mutant_map(found: Mutants) -> Figure:
    """Of single mutants their effects; of one pair of places its epistasis by token; of several the largest by pair."""
    pairs = {tuple(place for place, _ in made) for made in found.changes if len(made) == 2}
    measure, size = ("epistasis", 2) if pairs else ("effect", 1)
    places = sorted({place for made in found.changes if len(made) == 2 or not pairs for place, _ in made})
    tokens, residues = list(found.alphabet), [f"{found.wild_type[place - 1]}{place}" for place in places]
    cells: dict[tuple[int, int], float] = {}
    for made, value in zip(found.changes, found.numbers[measure], strict=True):
        if len(made) == size:
            (first, token), (second, other) = made[0], made[-1]
            if not pairs:
                cells[tokens.index(token), places.index(first)] = value
            elif len(pairs) == 1:
                cells[tokens.index(token), tokens.index(other)] = value
            else:
                i, j = places.index(first), places.index(second)
                cells[i, j] = cells[j, i] = max(cells.get((i, j), 0.0), value, key=abs)
    if not pairs:
        title = "effect of each change alone: log-probability beside the sequence's own residue (nats)"
        return _drawn(cells, tokens, residues, title, measure)
    if len(pairs) == 1:
        title = f"epistasis of residues {places[0]} and {places[1]} ({found.joint} joint)"
        rows, columns = ([f"{residue}{token}" for token in tokens] for residue in residues)
        return _drawn(cells, rows, columns, title, measure)
    return _drawn(cells, residues, residues, f"largest epistasis of each pair of residues ({found.joint} joint)", measure)


def _drawn(cells: dict[tuple[int, int], float], rows: list[str], columns: list[str], title: str, measure: str) -> Figure:
    """A heat map; what is not among the cells is grey."""
    from unmask.figures import Figure

    values = np.full((len(rows), len(columns)), np.nan)
    for place, value in cells.items():
        values[place] = value
    largest = float(np.nanmax(np.abs(values))) or 1e-12
    size = (min(24.0, max(5.0, 2.4 + 0.3 * len(columns))), min(24.0, max(3.6, 1.8 + 0.24 * len(rows))))
    figure = Figure(figsize=size, layout="constrained")
    panel = figure.subplots()
    panel.set_facecolor("0.85")
    panel.set_xticks(range(len(columns)), columns, rotation=90, fontsize=7, parse_math=False)
    panel.set_yticks(range(len(rows)), rows, fontsize=7, parse_math=False)
    panel.set_title(title, fontsize=9, parse_math=False)
    image = panel.imshow(values, cmap="RdBu_r", vmin=-largest, vmax=largest, aspect="auto")
    figure.colorbar(image, ax=panel, label=f"{measure} (nats)", shrink=0.8)
    return figure


def measured_figure(found: Measured) -> Figure:
    """Every score with its interval, the best at the top."""
    from unmask.figures import Figure

    rows = found.scores[::-1]
    figure = Figure(figsize=(6.5, min(24.0, max(3.2, 1.4 + 0.24 * len(rows)))), layout="constrained")
    panel = figure.subplots()
    for place, row in enumerate(rows):
        colour = "0.3" if row["score"] == FEWER else "#0072B2"
        panel.plot([row["low"], row["high"]], [place, place], color=colour, linewidth=2)
        panel.plot(row["value"], place, "o", color=colour, markersize=5)
    panel.set_yticks(range(len(rows)), [row["score"] for row in rows], fontsize=8, parse_math=False)
    panel.axvline(0.5 if found.statistic == "auc" else 0.0, color="0.7", linewidth=1, zorder=0)
    panel.set_xlabel(f"{STATISTICS[found.statistic]} with {found.column}", parse_math=False)
    figure.suptitle(f"{len(found):,} variants at {len(found.places)} sites", fontsize=10)
    return figure
