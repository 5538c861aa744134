"""From tables to joints by the name of a construction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from unmask import checks
from unmask.joints.arnold_gokhale import members_of
from unmask.joints.closed_forms import product
from unmask.joints.joint import Joint
from unmask.joints.registry import CONSTRUCTIONS, DEFAULT, Construction, named
from unmask.signature import checked
from unmask.tables.unary import Tables


@checked
def derive(tables: Tables, construction: str = DEFAULT, **options: object) -> Joint:
    """The joint that `construction` derives from the tables. With one blank every construction is the model's conditional.

    tables         the conditionals of a block
    construction   a name of `unmask.CONSTRUCTIONS`, or "family:ALPHA,LAMBDA"
    options        of the construction, such as steps=50 of "arnold_gokhale"

    >>> tables = unmask.fill("The [MASK] [MASK] at the casino.", candidates=16).joint.tables
    >>> unmask.derive(tables, "chain").shape
    (16, 16)
    """
    return _derived(tables, named(construction), options)


@checked
def derive_all(
    tables: Tables, constructions: Sequence[str] = tuple(CONSTRUCTIONS), options: Mapping[str, Mapping[str, object]] | None = None
) -> list[Joint]:
    """The joints of several constructions, in their order; those that are iterated share their reads of the tables.

    tables          the conditionals of a block
    constructions   their names [default: all of `unmask.CONSTRUCTIONS`]
    options         of single constructions, by name; one that has any is iterated by itself

    >>> tables = unmask.fill("The [MASK] [MASK] at the casino.", candidates=16).joint.tables
    >>> [joint.name for joint in unmask.derive_all(tables, ["product", "mrf"])]
    ['product', 'mrf']
    """
    return derive_blocks([tables], constructions, options)[0]


def derive_blocks(
    blocks: Sequence[Tables],
    constructions: Iterable[str] = tuple(CONSTRUCTIONS),
    options: Mapping[str, Mapping[str, object]] | None = None,
) -> list[list[Joint]]:
    """The same for several blocks of one shape, which are iterated side by side."""
    wanted, options = [named(name) for name in constructions], options or {}
    for name in options:
        checks.one_of("options of construction", name, [construction.name for construction in wanted])
    together = {c.name: c.member for c in wanted if c.member is not None and not options.get(c.name)}
    iterated = members_of(blocks, together) if together else [[] for _ in blocks]
    return [
        [iterated_joints.get(c.name) or _derived(tables, c, options.get(c.name, {})) for c in wanted]
        for tables, iterated_joints in zip(blocks, (dict(zip(together, joints, strict=True)) for joints in iterated), strict=True)
    ]


def _derived(tables: Tables, construction: Construction, options: Mapping[str, object]) -> Joint:
    construction.check(options)
    if tables.sites == 1:
        return replace(product(tables), name=construction.name)
    own = {} if construction.member is None else {"name": construction.name, **construction.member._asdict()}
    return checked(construction.rule())(tables, **own, **options)
