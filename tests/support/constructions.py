"""Constructions as functions of tables, as the tests of their mathematics call them."""

from unmask.joints.constructions.arnold_gokhale import TOLERANCE, Family, Member
from unmask.joints.constructions.closed_forms import HCB, MRF, Chain, MRFLogit, Product
from unmask.joints.constructions.construction import all_constructions
from unmask.joints.family_solution import MAX_READS, after_steps, members_of
from unmask.joints.registry import named

NAMES = [construction.name for construction in all_constructions()]
"""Those that "all" means."""


def of_names(names):
    """The constructions of these names."""
    return [named(name) for name in names]


def product(tables):
    return Product().derive(tables)


def mrf(tables):
    return MRF().derive(tables)


def mrf_logit(tables):
    return MRFLogit().derive(tables)


def hcb(tables, pivot=None):
    return HCB(pivot=pivot).derive(tables)


def chain(tables):
    return Chain().derive(tables)


def family(
    tables,
    alpha,
    restart=0.0,
    steps=None,
    tolerance=TOLERANCE,
    max_reads=MAX_READS,
    initial=None,
    name="",
):
    """A member of the family, with what only tests choose: where it starts, and how many reads."""
    member = Member(alpha, restart)
    name = name or Family(alpha=alpha, restart=restart).name
    if steps is not None:
        return after_steps(tables, name, member, steps, initial)
    return members_of([tables], {name: member}, tolerance, max_reads, initial)[0][0]
