"""What a study hands back: words, tables, numbers and a figure, for the terminal and for the report alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Tick = Callable[[int, int], None]
"""Called with (units done, units in all)."""


@dataclass(frozen=True)
class Table:
    """A titled table; cells are numbers or words, `note` says how to read it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    note: str = ""

    def cells(self) -> list[list[str]]:
        """The cells as text."""
        return [[show(cell) for cell in row] for row in self.rows]


@dataclass(frozen=True)
class Study:
    """One statement of the slides, computed."""

    name: str
    title: str
    slide: str
    findings: Sequence[str]
    tables: Sequence[Table]
    caption: str
    draw: Callable[[], Figure]
    numbers: dict[str, Any] = field(default_factory=dict)


def show(cell: object) -> str:
    """A number to four digits, as a reader would write it."""
    if isinstance(cell, bool) or not isinstance(cell, (int, float)):
        return str(cell)
    if isinstance(cell, int):
        return f"{cell:,}"
    if math.isinf(cell):
        return "∞" if cell > 0 else "-∞"
    if cell == 0:
        return "0"
    if abs(cell) < 1e-3:
        return f"{cell:.1e}"
    if abs(cell) >= 1e5:
        return f"{cell:.4g}"
    cell = float(f"{cell:.3e}")
    digits = max(0, 3 - math.floor(math.log10(abs(cell))))
    return f"{cell:,.{digits}f}"
