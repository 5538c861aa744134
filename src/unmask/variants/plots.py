"""Figures of variants, with matplotlib: effects and epistasis of mutants, scores against measurements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unmask.variants.comparing import FEWER
from unmask.variants.epistasis import NEAR
from unmask.variants.measured import STATISTICS

if TYPE_CHECKING:
    from unmask.figures import Figure
    from unmask.variants.epistasis import Epistasis
    from unmask.variants.measured import Measured
    from unmask.variants.mutants import Mutants

COLOURS = ("#D55E00", "#009E73", "#CC79A7", "#E69F00")
BESIDE = 2
"""Scores beside the measured interactions: those that agree best."""


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
    image = _heat_map(panel, values, rows, columns, title, cmap="RdBu_r", vmin=-largest, vmax=largest, aspect="auto")
    figure.colorbar(image, ax=panel, label=f"{measure} (nats)", shrink=0.8)
    return figure


def _heat_map(panel: Any, values: np.ndarray, rows: Sequence[str], columns: Sequence[str], title: str, **colours: Any) -> Any:
    """The image of a panel; NaN is grey."""
    panel.set_facecolor("0.85")
    panel.set_xticks(range(len(columns)), columns, rotation=90, fontsize=7, parse_math=False)
    panel.set_yticks(range(len(rows)), rows, fontsize=7, parse_math=False)
    panel.set_title(title, fontsize=9, parse_math=False)
    return panel.imshow(values, **colours)


def measured_figure(found: Measured) -> Figure:
    """Every score with its interval beside additive fits; and what dependence adds, by number of changes and by region."""
    from unmask.figures import Figure

    rows = found.rows[::-1]
    contrasts = list(dict.fromkeys((row["dependent"], row["independent"]) for row in found.groups))
    groups = list(dict.fromkeys((row["by"], row["group"]) for row in found.groups))[::-1]
    height = min(24.0, max(3.2, 1.4 + 0.24 * max(len(rows) + len(found.fits), len(groups))))
    figure = Figure(figsize=(11.0 if groups else 6.5, height), layout="constrained")
    panels = figure.subplots(1, 2 if groups else 1, squeeze=False)[0]
    bars = [*((f"additive fit to {fit['measured']}", fit, "0.6") for fit in found.fits[::-1])]
    bars += [(row["score"], row, "#0072B2" if row["score"] != FEWER else "0.3") for row in rows]
    for place, (_, row, colour) in enumerate(bars):
        panels[0].plot([row["low"], row["high"]], [place, place], color=colour, linewidth=2)
        panels[0].plot(row["value"], place, "o", color=colour, markersize=5)
    panels[0].set_yticks(range(len(bars)), [name for name, _, _ in bars], fontsize=8, parse_math=False)
    panels[0].axvline(0.5 if found.statistic == "auc" else 0.0, color="0.7", linewidth=1, zorder=0)
    panels[0].set_xlabel(f"{STATISTICS[found.statistic]} with {found.column}", parse_math=False)
    for place, (contrast, colour, mark) in enumerate(zip(contrasts, COLOURS, "os^D", strict=False)):
        for row in [row for row in found.groups if (row["dependent"], row["independent"]) == contrast]:
            at = groups.index((row["by"], row["group"])) + 0.2 * (0.5 * (len(contrasts) - 1) - place)
            panels[1].plot([row["low"], row["high"]], [at, at], color=colour, linewidth=1.5)
            panels[1].plot(row["difference"], at, mark, color=colour, markersize=4)
        panels[1].plot([], [], mark, color=colour, label=f"{contrast[0]} - {contrast[1]}")
    if groups:
        shown = [{"changes": f"{group} changes", "region": f"with {group}"}.get(by, "all") for by, group in groups]
        panels[1].set_yticks(range(len(groups)), shown, fontsize=8, parse_math=False)
        panels[1].axvline(0, color="0.7", linewidth=1, zorder=0)
        panels[1].set_xlabel(f"what dependence adds ({STATISTICS[found.statistic]})")
        panels[1].legend(fontsize=8, loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
    figure.suptitle(f"{len(found):,} variants at {len(found.places)} sites", fontsize=10)
    return figure


def epistasis_figure(found: Epistasis) -> Figure:
    """Strengths of pairs of sites: measured in the first panel, the scores that agree best in the others; contacts have dots."""
    from unmask.figures import Figure

    names = ["measured", *(row["score"] for row in found.rows[:BESIDE])]
    k, place = len(found.sites), {site: i for i, site in enumerate(found.sites)}
    figure = Figure(figsize=(min(24.0, len(names) * (2.2 + 0.2 * k)), min(24.0, 2.0 + 0.2 * k)), layout="constrained")
    for panel, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        values = np.full((k, k), np.nan)
        for row in found.table:
            i, j = place[row["first"]], place[row["second"]]
            values[i, j] = values[j, i] = row[name]
            if row["distance"] < NEAR:
                panel.plot([i, j], [j, i], ".", color="black", markersize=3)
        rho = next((f" (rho {row['strength']:.2f})" for row in found.rows if row["score"] == name), "")
        image = _heat_map(panel, values, found.sites, found.sites, f"{name}{rho}", cmap="viridis", vmin=0)
        figure.colorbar(image, ax=panel, shrink=0.7)
    figure.suptitle("strength of the interaction of each pair of residues", fontsize=10)
    return figure
