"""The numbers of two models side by side, and their differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan
from typing import cast

from typing_extensions import TypedDict

from unmask.common.errors import InputError
from unmask.common.formats import nats
from unmask.common.result_tables import NO_VALUE, Column, Table
from unmask.surfaces.serving.drawings.shapes import JsonNumber, TableDrawing, Told

LISTED = 25  # rows
LEGEND_OF_DASH = "a dash: the answer of this model has no such number"
LEGEND_OF_INFINITIES = "two equal infinities have no difference"


class DifferencesAnswer(TypedDict):
    """The numbers of two models beside each other."""

    table: TableDrawing


def differences(models: Sequence[str], told: Sequence[Told]) -> DifferencesAnswer:
    """The numbers that two models told, and the first minus the second.

    The rows are in the order of the first model; after them come those that the second model alone
    told. The first LISTED of all these rows are in the table, and a note says how many there are.
    """
    told_by_first, told_by_second = told  # the request has two models, and what each told
    quantity = told_by_first["by"]
    other_quantity = told_by_second["by"]
    if quantity != other_quantity:
        raise InputError(
            f"the models told different numbers, {quantity} and {other_quantity}: ask both the same"
        )
    of_first = _numbers(told_by_first["values"])
    of_second = _numbers(told_by_second["values"])
    of_second_alone = [name for name in of_second if name not in of_first]
    names = [*of_first, *of_second_alone]
    listed = names[:LISTED]
    rows: list[list[object]] = []
    for name in listed:
        first = of_first.get(name)
        second = of_second.get(name)
        rows.append([name, first, second, _difference(first, second)])
    notes = [f"difference: {models[0]} minus {models[1]}", *_legends(rows)]
    if len(listed) < len(names):
        notes.append(f"the first {len(listed)} of {len(names):,}, in the order of {models[0]}")
    columns = [
        Column("what", text=True),
        Column(models[0], _nats),
        Column(models[1], _nats),
        Column("difference", _nats),
    ]
    table = Table(columns, rows, title=f"Differences: {quantity}", notes=notes)
    return {"table": cast(TableDrawing, table.to_dict())}


def _difference(first: float | None, second: float | None) -> float | None:
    """The first minus the second; None where one of them is missing, NaN of equal infinities."""
    if first is None or second is None:
        return None
    return first - second


def _legends(rows: Sequence[Sequence[object]]) -> list[str]:
    """What the dashes of these rows mean, if there are any."""
    has_gap = False
    has_equal_infinities = False
    for _, first, second, difference in rows:
        if first is None or second is None:
            has_gap = True
        elif isinstance(difference, float) and isnan(difference):
            has_equal_infinities = True
    legends: list[str] = []
    if has_gap:
        legends.append(LEGEND_OF_DASH)
    if has_equal_infinities:
        legends.append(LEGEND_OF_INFINITIES)
    return legends


def _numbers(values: Mapping[str, JsonNumber | None]) -> dict[str, float | None]:
    """Numbers as floats, also the infinities, which JSON has as words; None in the place of NaN."""
    numbers: dict[str, float | None] = {}
    for name, value in values.items():
        number = None if value is None else float(value)
        if number is not None and isnan(number):
            number = None
        numbers[name] = number
    return numbers


def _nats(value: float) -> str:
    """Three decimals; a dash for NaN, the difference of two equal infinities. The table itself
    writes a dash for None.
    """
    return NO_VALUE if isnan(value) else nats(value)
