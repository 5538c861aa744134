"""Parts of the figures of the lab: panels, colours, curves and bars, drawn without a display."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from unmask.common.figures import Figure
    from unmask.studies.lab.model import Counts

BLUE = "#0072B2"
ORANGE = "#E69F00"
GREEN = "#009E73"
RED = "#D55E00"
PURPLE = "#CC79A7"
GREY = "#6b6b6b"
BAR_COLOURS = (BLUE, ORANGE, GREEN, RED, PURPLE, GREY)

SAMPLES_NEEDED = "samples needed, worst direction\n(maximum likelihood = 1)"
"""The label of an axis in two studies."""
STYLE: Any = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "figure.dpi": 150,
    "font.size": 10,
    "legend.fontsize": 9,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
}
"""matplotlib's settings for every figure of the lab."""
WIDTH = 4.7
"""Of a panel, in inches; with `widths` their mean."""
HEIGHT = 3.9
"""Of a panel, in inches."""


def panels(
    *labels: tuple[str, str, str], widths: Sequence[float] | None = None
) -> tuple[Figure, list[Axes]]:
    """A figure with a row of panels. Each has a title and the labels of its axes, x and y.

    widths   how wide the panels are in proportion to each other [default: equal]
    """
    from unmask.common.figures import Figure

    figure = Figure(figsize=(WIDTH * len(labels), HEIGHT), layout="constrained")
    (row,) = figure.subplots(1, len(labels), squeeze=False, width_ratios=widths)
    for axis, (title, x, y) in zip(row, labels, strict=True):
        axis.set(title=title, xlabel=x, ylabel=y)
    return figure, list(row)


def plain_numbers(*axes: Any) -> None:
    """Label logarithmic axes (`panel.xaxis`, `panel.yaxis`) with 0.01, 0.1, 1 and not with
    powers of ten. Their minor ticks get no labels.
    """
    from unmask.common.figures import FuncFormatter, LogLocator, NullFormatter

    for axis in axes:
        low, high = axis.get_view_interval()
        if high < 200 * low:  # about two decades: powers of ten alone are two or three ticks
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        axis.set_minor_formatter(NullFormatter())


def draw_curve(
    axis: Axes, rows: Sequence[Mapping[str, Any]], *, x: str, y: str, look: str, **style: Any
) -> None:
    """Draw a curve through the values `x` and `y` of the rows.

    look    markers and line as one text, such as "o-"
    style   as `Axes.plot` takes it
    """
    axis.plot([row[x] for row in rows], [row[y] for row in rows], look, **style)


def shades(count: int) -> list[Any]:
    """`count` colours from light to dark, for an ordered series of curves."""
    from unmask.common.figures import colormaps

    # The ends of the map are left out: the lightest colours are hard to see on white.
    return [colormaps["viridis_r"](0.12 + 0.8 * i / max(1, count - 1)) for i in range(count)]


def agreement_bars(axis: Axes, laws: Mapping[str, Counts]) -> None:
    """Laws of how many sites take the last value (`model.agreement_law`), each with its name, as
    bars beside each other.
    """
    sites = max(len(law) for law in laws.values()) - 1
    group_width = 0.8  # of the distance between two numbers of sites
    bar_width = group_width / len(laws)
    for index, (name, law) in enumerate(laws.items()):
        offset = (index - (len(laws) - 1) / 2) * bar_width
        centres = [number + offset for number in range(sites + 1)]
        colour = BAR_COLOURS[index % len(BAR_COLOURS)]
        axis.bar(centres, law, bar_width, color=colour, label=name)
    axis.set(
        xlabel=f"sites, of {sites}, that take the last value",
        ylabel="probability",
        xticks=range(sites + 1),
    )
    axis.legend(loc="upper center")
