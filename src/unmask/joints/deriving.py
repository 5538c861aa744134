"""From tables to joints by the name of a construction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from unmask.joints.arnold_gokhale import members
from unmask.joints.joint import Joint
from unmask.joints.product import product
from unmask.joints.registry import CONSTRUCTIONS, DEFAULT, Construction, named
from unmask.tables.unary import Tables


def derive(tables: Tables, construction: str = DEFAULT, **options: object) -> Joint:
    """The joint that `construction` derives from the tables. With one blank every construction is the model's conditional."""
    return _derived(tables, named(construction), options)


def derive_all(
    tables: Tables, constructions: Iterable[str] = tuple(CONSTRUCTIONS), options: Mapping[str, Mapping[str, object]] | None = None
) -> list[Joint]:
    """The joints of several constructions, in their order; those that are iterated share their reads of the tables.

    `options`: of single constructions, by name; one that has any is iterated by itself.
    """
    asked, given = [named(name) for name in constructions], options or {}
    together = {c.name: c.member for c in asked if c.member is not None and not given.get(c.name)}
    found = dict(zip(together, members(tables, together) if together else [], strict=True))
    return [found.get(c.name) or _derived(tables, c, given.get(c.name, {})) for c in asked]


def _derived(tables: Tables, construction: Construction, options: Mapping[str, object]) -> Joint:
    construction.check(options)
    if tables.sites == 1:
        return replace(product(tables), name=construction.name)
    return construction.rule()(tables, **construction.numbers, **options)
