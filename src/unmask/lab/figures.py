"""The look of the lab's figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.runs.files import atomic_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from unmask.figures import Figure

BLUE, ORANGE, GREEN, RED, PURPLE, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#6b6b6b"
SERIES = (BLUE, ORANGE, GREEN, RED, PURPLE, GREY)

STYLE: Any = {
    "figure.dpi": 150,
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
}


def panels(titles: Sequence[str], widths: Sequence[float] | None = None) -> tuple[Figure, list[Axes]]:
    """A row of titled panels, drawn without a display."""
    from unmask.figures import Figure

    count = len(titles)
    figure = Figure(figsize=(4.7 * count, 3.9), layout="constrained")
    axes = figure.subplots(1, count, squeeze=False, width_ratios=widths)[0]
    for axis, title in zip(axes, titles, strict=True):
        axis.set_title(title)
    return figure, list(axes)


def save(draw: Callable[[], Figure], path: Path) -> None:
    """Draw in the lab's style and write a PNG, whole or not at all."""
    from matplotlib import rc_context

    with rc_context(STYLE), atomic_path(path) as temporary:
        draw().savefig(temporary, dpi=150, format="png")


def plain_numbers(axis: Any) -> None:
    """Label a logarithmic axis with 0.01, 0.1, 1 instead of powers, and its minor ticks not at all."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    if high < 200 * low:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_formatter(NullFormatter())


def shades(count: int) -> list[Any]:
    """`count` colours from light to dark, for an ordered series."""
    from matplotlib import colormaps

    return [colormaps["viridis_r"](0.12 + 0.8 * i / max(1, count - 1)) for i in range(count)]
