"""Constructions: rules from the unary conditionals of a block to a joint distribution over it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from unmask.errors import InputError
from unmask.joints.chain import chain
from unmask.joints.hcb import hcb
from unmask.joints.joint import Joint
from unmask.joints.mrf import mrf, mrf_logit
from unmask.joints.product import product
from unmask.joints.solver.near_compatible import MEMBERS, arnold_gokhale, balanced, members, pseudo_gibbs
from unmask.tables.unary import Tables

CONSTRUCTIONS: dict[str, Callable[..., Joint]] = {
    rule.__name__: rule for rule in (product, mrf_logit, mrf, hcb, arnold_gokhale, balanced, pseudo_gibbs, chain)
}
DEFAULT_CONSTRUCTION = "balanced"


def derive(tables: Tables, construction: str = DEFAULT_CONSTRUCTION, **options: object) -> Joint:
    """The joint that `construction` derives from the tables."""
    if construction not in CONSTRUCTIONS:
        raise InputError(f"construction {construction!r} is unknown: use one of {', '.join(CONSTRUCTIONS)}")
    return CONSTRUCTIONS[construction](tables, **options)


def derive_all(
    tables: Tables, constructions: Iterable[str] = tuple(CONSTRUCTIONS), options: Mapping[str, Mapping[str, object]] | None = None
) -> list[Joint]:
    """The joints of several constructions, in their order; those that are iterated share their reads of the tables.

    `options`: of single constructions, by name; one that has any is iterated by itself.
    """
    names, given = list(constructions), options or {}
    together = {name: MEMBERS[name] for name in names if name in MEMBERS and not given.get(name)}
    found = dict(zip(together, members(tables, together) if together else [], strict=True))
    return [found.get(name) or derive(tables, name, **given.get(name, {})) for name in names]


__all__ = ["CONSTRUCTIONS", "DEFAULT_CONSTRUCTION", "Joint", "derive", "derive_all", *CONSTRUCTIONS]
