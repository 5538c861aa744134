"""The result of a study: words, tables, numbers and a figure, for the terminal, the report and a notebook."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

from unmask.runs.files import plain
from unmask.runs.progress import Progress

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Table:
    """A titled table; cells are numbers or words, `note` explains it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    note: str = ""

    def cells(self) -> list[list[str]]:
        """The cells as text."""
        return [[show(cell) for cell in row] for row in self.rows]

    def to_frame(self) -> pandas.DataFrame:
        """The table as a data frame, numbers as they are."""
        import pandas

        return pandas.DataFrame([list(row) for row in self.rows], columns=list(self.columns))


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

    def to_dict(self) -> dict[str, Any]:
        """The object that `--json` prints and NAME.json holds: options, and every number behind tables and figure."""
        return dict(plain({"study": self.name, "title": self.title, **self.numbers}))

    def to_frame(self) -> pandas.DataFrame:
        """The first table, which is the study's main one; `tables` has all."""
        return self.tables[0].to_frame()

    def _repr_html_(self) -> str:
        findings = "".join(f"<li>{escape(without_markdown(finding))}</li>" for finding in self.findings)
        tables = "".join(f"<p><b>{escape(t.title)}</b></p>{_html(t)}<p>{escape(t.note)}</p>" for t in self.tables)
        return f"<h3>{escape(self.title)}</h3><ul>{findings}</ul>{tables}"


def counted(progress: Progress | None, total: int, what: str) -> Callable[[], None]:
    """A function to call after each of `total` parts of a study; it reports them to `progress`."""
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        if progress:
            progress(done, total, what)

    return step


def without_rounding(value: float, below: float = 1e-12) -> float:
    """`value`, or 0 if its size is below `below`: rounding errors are not shown."""
    return 0.0 if abs(value) < below else value


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


def without_markdown(finding: str) -> str:
    """A finding without its stars."""
    return finding.replace("*", "")


def _html(table: Table) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in table.columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.cells())
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
