"""Pairwise NLL against the distance of the two tokens (the paper's appendix E), with the counts behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unmask.joints.registry import named

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

DISTANCES = {
    "token_distance": "tokens between the two (0: adjacent)",
    "syntactic_distance": "edges between the two in the dependency tree (0: same word)",
}


MANY_BINS = 8


def bins(distances: Sequence[int], least: int) -> list[tuple[int, int]]:
    """Ranges [low, high] that cover the distances in order, neighbours pooled until a range has `least` pairs or more."""
    found: list[tuple[int, int]] = []
    values, counts = np.unique(np.asarray(distances, dtype=int), return_counts=True)
    low, held = None, 0
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        low, held = (value if low is None else low), held + count
        if held >= least:
            found.append((low, value))
            low, held = None, 0
    if low is not None:
        if found:
            low = found.pop()[0]
        found.append((low, int(values[-1])))
    return found


def distance_figure(rows: pandas.DataFrame, column: str, title: str = "") -> Figure | None:
    """Mean pairwise NLL per token against `column`, one line per construction; None where no pair has that distance."""
    known = rows[rows[column].notna()]
    if known.empty:
        return None
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    names = list(dict.fromkeys(known["construction"]))
    one = known[known["construction"] == names[0]]
    ranges = bins(one[column].astype(int).tolist(), least=max(5, len(one) // 40))
    middle = np.arange(len(ranges))
    figure = Figure(figsize=(7.5, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    behind = axes.twinx()
    axes.set_zorder(behind.get_zorder() + 1)
    axes.patch.set_visible(False)
    counts = [int(one[column].between(low, high).sum()) for low, high in ranges]
    behind.bar(middle, counts, width=0.8, color="#E3E3E3")
    behind.set_ylim(0, 3 * max(counts))
    behind.set_ylabel("pairs (bars)", color="#707070")
    behind.tick_params(axis="y", colors="#707070")
    behind.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    for place, name in enumerate(names):
        mine = known[known["construction"] == name]
        means = [mine[mine[column].between(low, high)]["pair_nll"].mean() / 2 for low, high in ranges]
        construction = named(name)
        look = construction.style
        shift = 0.06 * (place - (len(names) - 1) / 2)
        style: dict[str, Any] = {
            "color": look.colour,
            "marker": look.marker,
            "linestyle": look.line,
            "markersize": 5,
            "linewidth": 1.4,
        }
        axes.plot(middle + shift, means, label=construction.label, **style)
    names = [str(low) if low == high else f"{low}\N{EN DASH}{high}" for low, high in ranges]
    axes.set_xticks(middle, names, fontsize="small" if len(names) > MANY_BINS else None)
    axes.set_xlim(-0.6, len(ranges) - 0.4)
    axes.set_xlabel(DISTANCES[column])
    axes.set_ylabel("pairwise NLL, nats per token (log P-PPL)")
    axes.set_title(title, fontsize=10, parse_math=False)
    axes.spines["top"].set_visible(False)
    behind.spines["top"].set_visible(False)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper", frameon=False, fontsize=9)
    return figure
