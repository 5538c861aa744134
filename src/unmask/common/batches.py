"""Items in groups of one key, and their rows in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import TypeVar

Item = TypeVar("Item")


def grouped(items: Sequence[Item], key: Callable[[Item], object]) -> list[list[int]]:
    """The indices of the items of each key. Groups are in the order of their first items."""
    groups: dict[object, list[int]] = {}
    for i, item in enumerate(items):
        groups.setdefault(key(item), []).append(i)
    return list(groups.values())


def of_one_key(
    items: Iterable[Item], key: Callable[[Item], int], most: int
) -> Iterator[list[Item]]:
    """Lists of at most `most` items of one key, such as a length; the keys rise."""
    for _, same in groupby(sorted(items, key=key), key):
        while part := list(islice(same, most)):
            yield part


def consecutive(
    items: Iterable[Item], size: Callable[[Item], int], most: int
) -> Iterator[list[Item]]:
    """Lists of items that follow each other, whose sizes add up to at most `most`. An item that
    is larger than that is in a list of its own.
    """
    batch: list[Item] = []
    total = 0
    for item in items:
        if batch and total + size(item) > most:
            yield batch
            batch = []
            total = 0
        batch.append(item)
        total += size(item)
    if batch:
        yield batch


def cut(sized: Iterable[tuple[Item, int]], at_once: int) -> Iterator[list[tuple[Item, slice]]]:
    """Batches of `at_once` rows, the last one shorter, over the rows of all items in their order.

    sized   items, each with its number of rows

    A batch lists items with the slice of their rows that is in it.
    """
    batch: list[tuple[Item, slice]] = []
    free = at_once
    for item, total in sized:
        start = 0
        while start < total:
            rows = slice(start, min(total, start + free))
            batch.append((item, rows))
            free -= rows.stop - start
            start = rows.stop
            if free == 0:
                yield batch
                batch = []
                free = at_once
    if batch:
        yield batch
