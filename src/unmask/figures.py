"""The figures that this package returns: matplotlib's, which a notebook shows without pyplot."""

from __future__ import annotations

import warnings
from io import BytesIO

import matplotlib.figure


class Figure(matplotlib.figure.Figure):
    """A figure of matplotlib that displays as a picture in a notebook, on the last line of a cell."""

    def drawn(self, format: str = "png", dpi: int = 150) -> bytes:
        """The content of a file with this figure."""
        file = BytesIO()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing")  # a letter that the font lacks is drawn as a box
            self.savefig(file, dpi=dpi, format=format)
        return file.getvalue()

    def _repr_png_(self) -> bytes:
        return self.drawn(dpi=110)
