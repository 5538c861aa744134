"""Pairwise NLL against the distance of a pair's tokens (appendix E of the paper in `summary`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unmask.joints.registry import INDEPENDENT, label_of, style_of

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from unmask.common.figures import Figure

DISTANCES = {
    "token_distance": "tokens between the two (0: adjacent)",
    "syntactic_distance": "edges between the two in the dependency tree (0: same word)",
}
LEAST_REACH = 0.05  # nats: the lower panel shows at least as much on either side of zero
BARS = "#E3E3E3"
BARS_TEXT = "#707070"


def bins(distances: Sequence[int], least: int) -> list[tuple[int, int]]:
    """Ranges [low, high] that cover the distances in order, neighbours pooled until a range has
    `least` pairs or more.

    What is left at the end joins the last range.
    """
    values, counts = np.unique(np.asarray(distances, dtype=int), return_counts=True)
    ranges: list[tuple[int, int]] = []
    pooled: list[int] = []  # distances that wait for more pairs
    pairs = 0
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        pooled.append(value)
        pairs += count
        if pairs >= least:
            ranges.append((pooled[0], pooled[-1]))
            pooled = []
            pairs = 0
    if not pooled:
        return ranges
    if not ranges:
        return [(pooled[0], pooled[-1])]
    low, _ = ranges.pop()
    return [*ranges, (low, pooled[-1])]


def distance_figure(
    rows: Sequence[Mapping[str, Any]], column: str, title: str = ""
) -> Figure | None:
    """Mean pairwise NLL per token against `column`, one line per construction; None where no
    pair has that distance.

    Below it, where the product is among them: each construction's mean minus the product's.
    That panel reaches as far above zero as the best construction lies below it; what is worse
    leaves it, and is seen above.
    """
    with_distance = [row for row in rows if row[column] is not None]
    if not with_distance:
        return None
    from unmask.common.figures import Figure
    from unmask.common.lazy import pandas

    known = pandas.DataFrame(with_distance)

    names = list(dict.fromkeys(known["construction"]))
    pairs = known[known["construction"] == names[0]]  # each pair once
    ranges = bins(pairs[column].astype(int).tolist(), least=max(5, len(pairs) // 40))
    means = {
        name: _means(of_name, column, ranges) for name, of_name in known.groupby("construction")
    }
    compared = INDEPENDENT in means and len(means) > 1
    heights = [3, 2] if compared else [3]  # inches
    figure = Figure(figsize=(7.5, 1.5 + sum(heights)), layout="constrained")
    panels = figure.subplots(len(heights), sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    axes = panels[0]
    for name in names:
        axes.plot(means[name], label=label_of(name), **_look(name))
        if compared:
            panels[1].plot(means[name] - means[INDEPENDENT], **_look(name))
    _bars(axes, [int(pairs[column].between(low, high).sum()) for low, high in ranges])
    axes.set_ylabel("pairwise NLL, nats per token (log P-PPL)")
    axes.set_title(title, fontsize=10, parse_math=False)
    if compared:
        differences = np.concatenate([means[name] - means[INDEPENDENT] for name in names])
        lowest = differences[np.isfinite(differences)].min(initial=0.0)
        reach = 1.1 * max(LEAST_REACH, -lowest)
        panels[1].set_ylim(-reach, reach)
        panels[1].set_ylabel("minus the product's")
    _distances_below(panels[-1], column, ranges)
    for panel in figure.axes:
        panel.spines["top"].set_visible(False)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", frameon=False, fontsize=9)
    return figure


def _means(rows: pandas.DataFrame, column: str, ranges: Sequence[tuple[int, int]]) -> np.ndarray:
    """A construction's mean pairwise NLL per token in each range; NaN without a pair."""
    return np.array(
        [rows[rows[column].between(low, high)]["pair_nll"].mean() / 2 for low, high in ranges]
    )


def _look(name: str) -> dict[str, Any]:
    """How a construction's line is drawn."""
    style = style_of(name)
    return {
        "color": style.colour,
        "marker": style.marker,
        "linestyle": style.line,
        "markersize": 5,
        "linewidth": 1.4,
    }


def _bars(axes: Axes, counts: Sequence[int]) -> None:
    """How many pairs each mean is of, behind the lines."""
    from unmask.common.figures import MaxNLocator

    behind = axes.twinx()
    axes.set_zorder(behind.get_zorder() + 1)
    axes.patch.set_visible(False)  # else it covers the bars
    behind.bar(np.arange(len(counts)), counts, width=0.8, color=BARS)
    behind.set_ylim(0, 3 * max(counts))  # bars fill the lowest third
    behind.set_ylabel("pairs (bars)", color=BARS_TEXT)
    behind.tick_params(axis="y", colors=BARS_TEXT)
    behind.yaxis.set_major_locator(MaxNLocator(6, integer=True))


def _distances_below(axes: Axes, column: str, ranges: Sequence[tuple[int, int]]) -> None:
    """Name the ranges below the lowest panel; many of them aslant, so that they do not overlap."""
    labels = [str(low) if low == high else f"{low}\N{EN DASH}{high}" for low, high in ranges]
    aslant: dict[str, Any] = {}
    if len(labels) > 10:
        aslant = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(np.arange(len(ranges)), labels, **aslant)
    axes.set_xlim(-0.6, len(ranges) - 0.4)
    axes.set_xlabel(DISTANCES[column])
