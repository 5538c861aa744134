"""Pairwise NLL against the distance of the two tokens (the paper's appendix E), what a joint gains there, and how many pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unmask.joints.registry import named

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DISTANCES = {
    "token_distance": "tokens between the two (0: adjacent)",
    "syntactic_distance": "edges between the two in the dependency tree (0: same word)",
}


MANY_BINS = 10
"""Ranges from which on their names are written aslant."""
YARDSTICK = "product"
"""The construction whose difference from the others is drawn."""


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
    """Mean pairwise NLL per token against `column`, one line per construction; None where no pair has that distance.

    Below it, where the product is among them: each construction's mean minus the product's. That panel reaches as far above
    zero as the best construction lies below it; what is worse leaves it, and is seen above.
    """
    known = rows[rows[column].notna()]
    if known.empty:
        return None
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(known["construction"]))
    one = known[known["construction"] == names[0]]
    ranges = bins(one[column].astype(int).tolist(), least=max(5, len(one) // 40))
    means = {
        name: np.array([mine[mine[column].between(low, high)]["pair_nll"].mean() / 2 for low, high in ranges])
        for name, mine in known.groupby("construction")
    }
    compared = YARDSTICK in means and len(means) > 1
    heights = [3, 2] if compared else [3]
    figure = Figure(figsize=(7.5, 1.5 + sum(heights)), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(heights), sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    axes = panels[0]
    for name in names:
        axes.plot(means[name], label=named(name).label, **_look(name))
        if compared:
            panels[1].plot(means[name] - means[YARDSTICK], **_look(name))
    _bars(axes, [int(one[column].between(low, high).sum()) for low, high in ranges])
    axes.set_ylabel("pairwise NLL, nats per token (log P-PPL)")
    axes.set_title(title, fontsize=10, parse_math=False)
    if compared:
        apart = np.concatenate([means[name] - means[YARDSTICK] for name in names])
        reach = 1.1 * max(0.05, -apart[np.isfinite(apart)].min(initial=0.0))
        panels[1].set_ylim(-reach, reach)
        panels[1].set_ylabel("minus the product's")
    labels = [str(low) if low == high else f"{low}\N{EN DASH}{high}" for low, high in ranges]
    aslant: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if len(labels) > MANY_BINS else {}
    panels[-1].set_xticks(np.arange(len(ranges)), labels, **aslant)
    panels[-1].set_xlim(-0.6, len(ranges) - 0.4)
    panels[-1].set_xlabel(DISTANCES[column])
    for panel in figure.axes:
        panel.spines["top"].set_visible(False)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper", frameon=False, fontsize=9)
    return figure


def _look(name: str) -> dict[str, Any]:
    """How a construction's line is drawn."""
    style = named(name).style
    return {"color": style.colour, "marker": style.marker, "linestyle": style.line, "markersize": 5, "linewidth": 1.4}


def _bars(axes: Axes, counts: Sequence[int]) -> None:
    """How many pairs each mean is of, behind the lines."""
    from matplotlib.ticker import MaxNLocator

    behind = axes.twinx()
    axes.set_zorder(behind.get_zorder() + 1)
    axes.patch.set_visible(False)
    behind.bar(np.arange(len(counts)), counts, width=0.8, color="#E3E3E3")
    behind.set_ylim(0, 3 * max(counts))
    behind.set_ylabel("pairs (bars)", color="#707070")
    behind.tick_params(axis="y", colors="#707070")
    behind.yaxis.set_major_locator(MaxNLocator(6, integer=True))
