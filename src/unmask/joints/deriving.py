"""From the tables of a block to its joint:

    mu = construction.derive(tables)       of two blanks or more
    mu(x) = q(x | context)                 of one blank, whatever the construction

Members of the near-compatible family are solved side by side, over all blocks at once. What a
user's own construction returns is held to the laws of a joint: its probabilities are numbers, and
sum to 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from math import isfinite
from typing import Any, cast

import torch
from torch import Tensor

from unmask.common.border.calls import checked
from unmask.common.checks import one_of, shown
from unmask.common.errors import InputError
from unmask.common.methods.own_code import first_line_of, is_ours, place_in
from unmask.joints.constructions.arnold_gokhale import solved_together
from unmask.joints.constructions.construction import (
    Construction,
    OfFunction,
    Rule,
    Rules,
    all_constructions,
)
from unmask.joints.family_solution import members_of
from unmask.joints.joint import Joint
from unmask.joints.registry import DEFAULT, INDEPENDENT, named
from unmask.joints.rules import SumRule
from unmask.tables.unary import Tables

MOST_OFF = {torch.float32: 1e-3, torch.float64: 1e-6}
"""How far the sum of an own joint's probabilities may be from 1, by rounding: a table of 10^9 cells
in float32 is off by less.
"""


@checked
def derive(tables: Tables, construction: Rule = DEFAULT, **options: object) -> Joint:
    """The joint that a construction derives from the tables. With one blank every construction
    is the model's conditional.

    Parameters:
        tables: The conditionals of a block.
        construction: A name of `unmask.CONSTRUCTIONS`, or family:ALPHA,LAMBDA; an object such as
            unmask.HCB(pivot=...), of a class of your own, too; or a function from tables to a
            joint.
        options: Options of the construction, such as steps=50 of "arnold_gokhale".

    Returns:
        The joint, a rule over these tables.

    >>> tables = unmask.fill("The [MASK] [MASK] at the casino.", candidates=16).joint.tables
    >>> unmask.derive(tables, "chain").shape
    (16, 16)
    """
    return derived(tables, _with_options(cast(Construction, construction), options))


@checked
def derive_all(
    tables: Tables,
    constructions: Rules = "all",
    options: Mapping[str, Mapping[str, object]] | None = None,
) -> list[Joint]:
    """The joints of several constructions, in their order; those that are iterated share their
    reads of the tables.

    Parameters:
        tables: The conditionals of a block.
        constructions: All, or some, as `derive` takes them.
        options: Options of single constructions, by name.

    Returns:
        The joints, rules over these tables.

    >>> tables = unmask.fill("The [MASK] [MASK] at the casino.", candidates=16).joint.tables
    >>> [joint.name for joint in unmask.derive_all(tables, ["product", "mrf"])]
    ['product', 'mrf']
    """
    wanted = {one.name: one for one in cast("tuple[Construction, ...]", constructions)}
    for name, of_construction in (options or {}).items():
        one_of("options of construction", name, wanted)
        wanted[name] = _with_options(wanted[name], of_construction)
    (joints,) = derive_blocks([tables], list(wanted.values()))
    return joints


def _with_options(construction: Construction, options: Mapping[str, object]) -> Construction:
    """The construction with these options in the place of its own."""
    known = [one.name for one in fields(cast(Any, construction)) if one.init]
    for option in options:
        if option not in known:
            takes = "it takes none"
            if known:
                takes = f"its options are {', '.join(known)}"
            raise InputError(f"construction {construction.name} has no option {option!r}: {takes}")
    if not options:
        return construction
    return cast(Construction, replace(cast(Any, construction), **options))


# ---- what rooms call ----


def derive_blocks(
    blocks: Sequence[Tables], constructions: Sequence[Construction] | None = None
) -> list[list[Joint]]:
    """The joints of several constructions over several blocks of one shape, whose fixed points are
    found side by side: a list for each block, in the order of the constructions.

    constructions   of different names [default: all]
    """
    wanted = all_constructions() if constructions is None else constructions
    members = solved_together(wanted)
    solved: list[dict[str, Joint]] = [{} for _ in blocks]
    if members and blocks[0].sites > 1:
        solved = [{joint.name: joint for joint in joints} for joints in members_of(blocks, members)]
    of_blocks = []
    for tables, already in zip(blocks, solved, strict=True):
        joints = []
        for construction in wanted:
            joint = already.get(construction.name)
            if joint is None:
                joint = derived(tables, construction)
            joints.append(joint)
        of_blocks.append(joints)
    return of_blocks


def derived(tables: Tables, construction: Construction) -> Joint:
    """The joint of one construction; of one blank always the model's conditional."""
    if tables.sites == 1:
        return replace(cast(Joint, named(INDEPENDENT).derive(tables)), name=construction.name)
    if is_ours(type(construction)) and not isinstance(construction, OfFunction):
        return cast(Joint, construction.derive(tables))
    return _own_joint(tables, construction)


def _own_joint(tables: Tables, construction: Construction) -> Joint:
    """What a user's own construction makes of the tables, if it is a joint over them."""
    name = construction.name
    try:
        made = construction.derive(tables)
    except InputError:
        raise
    except Exception as error:
        named = (
            construction.function if isinstance(construction, OfFunction) else type(construction)
        )
        where = place_in(named, error)
        raise InputError(
            f"construction {name} fails: {first_line_of(error)} ({where}): mend it"
        ) from error
    if isinstance(made, Joint):
        joint = replace(made, name=name)
    elif isinstance(made, Tensor):
        joint = Joint(name=name, tables=tables, rule=SumRule((made,)), known_log_z=0.0)
        _refuse_other_cells(name, made, tables)
    else:
        raise InputError(
            f"construction {name} returns {shown(made)}: return a Joint, or the log-probabilities"
            " of all cells as a tensor"
        )
    if joint.tables is not tables:
        raise InputError(
            f"construction {name} returns a joint over other tables: return one over the tables"
            " that it is given"
        )
    _refuse_no_distribution(joint)
    return joint


def _refuse_other_cells(name: str, log_probs: Tensor, tables: Tables) -> None:
    if tuple(log_probs.shape) != tables.shape or not log_probs.is_floating_point():
        raise InputError(
            f"construction {name} returns a tensor of {log_probs.dtype} and shape"
            f" {tuple(log_probs.shape)}: return log-probabilities of shape {tables.shape}"
        )


def _refuse_no_distribution(joint: Joint) -> None:
    """Raise if some probability of an own joint is not a number, or if they do not sum to 1."""
    every_axis = tuple(range(joint.sites))
    sums = []
    for index in joint._tiles():
        cells = joint.rule(index)
        if bool(cells.isnan().any()):
            raise InputError(f"construction {joint.name} returns NaN: mend it")
        sums.append(cells.double().logsumexp(every_axis))
    log_sum = float(torch.stack(sums).logsumexp(0))
    if not isfinite(log_sum):
        raise InputError(
            f"the cells of construction {joint.name} sum to exp({log_sum:g}): return"
            " log-probabilities that some filling has"
        )
    if joint.known_log_z is None:
        return  # the cells are normalised by their own sum
    total = torch.tensor(log_sum - joint.known_log_z, dtype=torch.float64).exp().item()
    most_off = MOST_OFF[torch.float32]
    if joint.tables.log_q[0].dtype == torch.float64:
        most_off = MOST_OFF[torch.float64]
    if not abs(total - 1) <= most_off:
        raise InputError(
            f"the probabilities of construction {joint.name} sum to {total:.6g}: normalise them, or"
            " return a Joint that knows no log Z"
        )
