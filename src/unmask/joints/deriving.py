"""From tables to joints by the name of a construction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from unmask.common.border.calls import checked
from unmask.common.border.declarations import hints
from unmask.common.border.values import accepted
from unmask.common.checks import one_of
from unmask.joints.arnold_gokhale import members_of
from unmask.joints.closed_forms import product
from unmask.joints.joint import Joint
from unmask.joints.registry import CONSTRUCTIONS, DEFAULT, Construction, named
from unmask.tables.unary import Tables


@checked
def derive(tables: Tables, construction: str = DEFAULT, **options: object) -> Joint:
    """The joint that `construction` derives from the tables. With one blank every construction
    is the model's conditional.

    tables         the conditionals of a block
    construction   a name of `unmask.CONSTRUCTIONS`, or "family:ALPHA,LAMBDA"
    options        of the construction, such as steps=50 of "arnold_gokhale"

    Returns:
        The joint over the tables' candidates.

    >>> tables = unmask.fill("The [MASK] [MASK] at the casino.", candidates=16).joint.tables
    >>> unmask.derive(tables, "chain").shape
    (16, 16)
    """
    wanted = named(construction)
    return derived(tables, wanted, _accepted_options(wanted, options))


@checked
def derive_all(
    tables: Tables,
    constructions: Sequence[str] = tuple(CONSTRUCTIONS),
    options: Mapping[str, Mapping[str, object]] | None = None,
) -> list[Joint]:
    """The joints of several constructions, in their order; those that are iterated share their
    reads of the tables.

    tables          the conditionals of a block
    constructions   their names [default: all of `unmask.CONSTRUCTIONS`]
    options         of single constructions, by name; one that has any is iterated by itself

    Returns:
        The joints, in the order of the constructions.

    >>> tables = unmask.fill("The [MASK] [MASK] at the casino.", candidates=16).joint.tables
    >>> [joint.name for joint in unmask.derive_all(tables, ["product", "mrf"])]
    ['product', 'mrf']
    """
    wanted = {construction.name: construction for construction in map(named, constructions)}
    accepted_options = {}
    for name, of_construction in (options or {}).items():
        construction = wanted[one_of("options of construction", name, wanted)]
        accepted_options[name] = _accepted_options(construction, of_construction)
    return derive_blocks([tables], constructions, accepted_options)[0]


def derive_blocks(
    blocks: Sequence[Tables],
    constructions: Iterable[str] = tuple(CONSTRUCTIONS),
    options: Mapping[str, Mapping[str, object]] | None = None,
) -> list[list[Joint]]:
    """`derive_all` for several blocks of one shape, whose fixed points are found side by side:
    a list for each block.
    """
    wanted, options = [named(name) for name in constructions], options or {}
    members = {c.name: c.member for c in wanted if c.member is not None and not options.get(c.name)}
    solved: list[dict[str, Joint]] = [{} for _ in blocks]
    if members and blocks[0].sites > 1:
        solved = [{joint.name: joint for joint in joints} for joints in members_of(blocks, members)]
    return [
        [joints.get(c.name) or derived(tables, c, options.get(c.name, {})) for c in wanted]
        for tables, joints in zip(blocks, solved, strict=True)
    ]


def _accepted_options(
    construction: Construction, options: Mapping[str, object]
) -> dict[str, object]:
    """A user's options of a construction, each held to the annotation that its rule has."""
    construction.check(options)
    annotations = hints(construction.rule())
    return {name: accepted(name, value, annotations[name]) for name, value in options.items()}


def derived(
    tables: Tables, construction: Construction, options: Mapping[str, object] | None = None
) -> Joint:
    """The joint of one construction, by its rule; of one blank always the model's conditional."""
    if tables.sites == 1:
        return replace(product(tables), name=construction.name)
    parameters = (
        {}
        if construction.member is None
        else {"name": construction.name, **construction.member._asdict()}
    )
    rule = construction.rule()
    return rule(tables, **parameters, **(options or {}))
