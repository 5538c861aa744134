"""The figures that this package returns: matplotlib's, which a notebook shows without pyplot.

Modules that draw import matplotlib's names from here. Only files are written, so no backend is
asked for. MPLBACKEND is the user's, and may name one that is not here (Jupyter names its own to
every program that it starts).
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from io import BytesIO
from typing import Any

from unmask.common.errors import MissingLibrary
from unmask.common.lazy import STUDIES


def _import_matplotlib() -> None:
    """Import matplotlib as it is imported elsewhere, except that an unknown MPLBACKEND is no
    error.
    """
    if "matplotlib" in sys.modules:
        return
    backend = os.environ.pop("MPLBACKEND", None)  # matplotlib reads it as it is imported
    try:
        import matplotlib
    except ModuleNotFoundError:
        raise MissingLibrary("matplotlib", STUDIES) from None
    finally:
        if backend is not None:
            os.environ["MPLBACKEND"] = backend
    if backend:
        with suppress(ValueError):  # a backend that is not here
            matplotlib.rcParams["backend"] = backend


_import_matplotlib()  # before the lines below, which import it too
# ruff: noqa: E402
import matplotlib.figure
from matplotlib import colormaps as colormaps
from matplotlib import rc_context as rc_context
from matplotlib.colors import PowerNorm as PowerNorm
from matplotlib.colors import to_rgb as to_rgb
from matplotlib.ticker import FuncFormatter as FuncFormatter
from matplotlib.ticker import LogLocator as LogLocator
from matplotlib.ticker import MaxNLocator as MaxNLocator
from matplotlib.ticker import NullFormatter as NullFormatter


class Figure(matplotlib.figure.Figure):
    """A figure of matplotlib that displays as a picture in a notebook, on the last line of a
    cell.
    """

    def drawn(self, format: str = "png", dpi: int = 150) -> bytes:
        """The content of a file with this figure; `dpi` is in dots per inch."""
        file = BytesIO()
        with warnings.catch_warnings():
            # a letter that the font lacks is drawn as a box
            warnings.filterwarnings("ignore", "Glyph .* missing")
            self.savefig(file, dpi=dpi, format=format)
        return file.getvalue()

    def _repr_png_(self) -> bytes:
        return self.drawn(dpi=110)


def heat_map(
    values: Any,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    label: str,
    size: tuple[float, float],
    **colours: Any,
) -> Figure:
    """One panel of coloured cells; those that are NaN are grey.

    values         one number per row and column
    rows, columns  the names beside them
    label          of the colours
    size           of the figure in inches
    colours        arguments of matplotlib's `imshow` that choose them
    """
    figure = Figure(figsize=size, layout="constrained")
    panel = figure.subplots()
    image = panel.imshow(values, aspect="auto", **colours)
    panel.set_facecolor("0.88")  # seen where a cell has no colour
    panel.set_xticks(
        range(len(columns)), columns, rotation=60, ha="right", fontsize=8, parse_math=False
    )
    panel.set_yticks(range(len(rows)), rows, fontsize=8, parse_math=False)
    panel.set_title(title, fontsize=10, parse_math=False)
    figure.colorbar(image, ax=panel, label=label, shrink=0.8)
    return figure
