"""The shapes of drawings that several views have, as JSON, and how their numbers are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import copysign, inf, isfinite, isinf, isnan, log
from typing import TYPE_CHECKING, Any, Literal

from typing_extensions import TypedDict

from unmask.common.formats import percent

if TYPE_CHECKING:
    from unmask.common.result_tables import Table

Share = float
"""How much of a bar or of a colour is drawn: from 0 to 1, or from -1 to 1 where a number has a
sign.
"""
SHARE_DIGITS = 4  # decimals: less than a ten-thousandth of a colour or of a bar is not seen
JsonNumber = float | Literal["Infinity", "-Infinity", "NaN"]
"""A number of an answer: JSON itself has neither infinities nor NaN."""


class Head(TypedDict):
    """A row or a column of a grid.

    id       the number by which addresses name it
    label    what is written
    title    what pointers show and readers of screens say
    token    the token that a click puts in a blank; "" where a click puts none
    number   a number beside the label; "" without one
    share    of the bar at the edge, from 0 to 1; None without bars
    mark     where the bar has a line, from 0 to 1; None without bars
    stands   whether it is the token that stands in the text
    """

    id: int
    label: str
    title: str
    token: str
    number: str
    share: Share | None
    mark: Share | None
    stands: bool


def head(
    id: int,
    label: str,
    title: str,
    token: str = "",
    number: str = "",
    bar: tuple[Share, Share] | None = None,
    stands: bool = False,
) -> Head:
    """A head.

    bar   the share of its bar, and that of the line on the bar; None without a bar
    """
    share = None
    mark = None
    if bar is not None:
        share, mark = bar
    return Head(
        id=id,
        label=label,
        title=title,
        token=token,
        number=number,
        share=share,
        mark=mark,
        stands=stands,
    )


class Layer(TypedDict):
    """One way to colour the cells of a grid.

    name      what it is called in addresses
    label     what is written on its button
    meaning   what its numbers are
    shares    by row and column: the depth of the colour from 0 to 1. A negative share is drawn in
              the second colour. None leaves the cell empty.
    signed    whether any share may be below 0
    scale     what the numbers of the ticks are
    ticks     the numbers along the scale, each at a place from 0 to 1
    """

    name: str
    label: str
    meaning: str
    shares: list[list[Share | None]]
    signed: bool
    scale: str
    ticks: list[tuple[float, str]]


class Cell(TypedDict):
    """A cell of a grid in words: its name, and its numbers."""

    name: str
    numbers: str


class Grid(TypedDict):
    """Coloured cells in rows and columns.

    label     what it is, for readers of screens
    corner    what the rows are, and what the columns are
    rows      the head of each row
    columns   the head of each column
    layers    the ways to colour the cells
    shown     the name of the layer that is shown if the address names none
    cells     by row and column
    edges     lines that say what the bars along the edges are; none without bars
    """

    label: str
    corner: tuple[str, str]
    rows: list[Head]
    columns: list[Head]
    layers: list[Layer]
    shown: str
    cells: list[list[Cell]]
    edges: list[str]


class Told(TypedDict):
    """The numbers of an answer by which two models are compared.

    by       what the numbers are, such as log-probability of completions
    values   the number of each completion, mutant or text, by its name; None where it has none
    """

    by: str
    values: Mapping[str, JsonNumber | None]


class SavedTable(TypedDict):
    """A table for a file: heads and values, without how the values are shown.

    columns   of each its "head", and as "text" whether its values are texts
    """

    columns: list[dict[str, Any]]
    rows: list[list[Any]]


class TableDrawing(SavedTable):
    """A table for a card, as `unmask.common.result_tables.Table.to_dict` gives it.

    shown   how each value is written
    """

    title: str
    shown: list[list[str]]
    notes: list[str]


def saved_table(table: Table) -> SavedTable:
    """The heads and values of a table."""
    described = table.to_dict()
    return {"columns": described["columns"], "rows": described["rows"]}


def percent_of(probability: float) -> str:
    """A probability as a percentage: `percent` writes all of them, and takes the logarithm."""
    if probability <= 0:
        return percent(-inf)
    return percent(log(probability))


def part_of(value: float, largest: float) -> Share:
    """A value as a part of the `largest_size` of the values drawn with it: 0 where all are 0, 1 or
    -1 for infinities. The value is not NaN: a share is a number of JSON.
    """
    if isinf(value):
        return copysign(1.0, value)
    if largest == 0:
        return 0.0
    return round(value / largest, SHARE_DIGITS)


def largest_size(rows: Sequence[Sequence[float | None]]) -> float:
    """The largest finite absolute value of some rows, at which a scale ends. Infinity if they have
    infinities, and no other numbers but 0; 0 if they have none at all.
    """
    sizes = []
    for row in rows:
        sizes += [abs(value) for value in row if value is not None and not isnan(value)]
    largest = max(filter(isfinite, sizes), default=0.0)
    if largest == 0 and inf in sizes:
        return inf
    return largest
