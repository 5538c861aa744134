"""The figures that this package returns: matplotlib's, which a notebook shows without pyplot."""

from __future__ import annotations

import warnings
from io import BytesIO

import matplotlib.figure


class Figure(matplotlib.figure.Figure):
    """A figure of matplotlib that displays as a picture in a notebook, on the last line of a cell."""

    def _repr_png_(self) -> bytes:
        drawn = BytesIO()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing")  # a letter that the font lacks is drawn as a box
            self.savefig(drawn, dpi=110, format="png")
        return drawn.getvalue()
