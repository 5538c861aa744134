"""Beams: a quick way to whole fillings, along a few orders of the blanks.

A beam begins with every blank masked. At each step it fills the next blank of its order, and
keeps the states with the largest product of the q so far.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from unmask.tables.exploration import Exploration, State

BEAM_ORDERS = 4  # Orders along which each variant has a beam; `_orders_of_beams` lists them
PARTS_OF_BUDGET = 3  # Of so many equal parts of the passes, the beams of all variants take one

Beam = list[tuple[float, State]]
"""(log of the product of the q along the order, state), best first."""


def affordable_width(exploration: Exploration, index: int, passes: int) -> int:
    """How wide the beams of the variant of this index may be, and at least 1, for all beams to
    keep to their part of a search's `passes`.

    The variants share that part equally. A beam takes a pass per step for each state it keeps.
    """
    passes_of_beams = passes // PARTS_OF_BUDGET
    passes_of_variant = passes_of_beams // len(exploration.variants)
    steps = exploration.variants[index].sites
    return max(1, passes_of_variant // (BEAM_ORDERS * steps))


def follow_beams(
    exploration: Exploration, index: int, width: int, after_step: Callable[[], None]
) -> None:
    """Pass over the states of the beams of a variant, whose root is passed.

    index       the variant's
    width       states that each beam keeps at each step, at most
    after_step  called after the passes of every step, which all beams share
    """
    root = exploration.states[exploration.roots[index]]
    orders = _orders_of_beams(exploration, root)
    beams: list[Beam] = [[(0.0, root)] for _ in orders]
    for sites_of_step in zip(*orders, strict=True):  # the site that each beam fills next
        in_beams: list[State] = []
        for beam in beams:
            in_beams += [state for _, state in beam]
        exploration.reveal(in_beams)
        after_step()
        beams = [
            _next_beam(exploration, beam, site, width)
            for beam, site in zip(beams, sites_of_step, strict=True)
        ]


def _orders_of_beams(exploration: Exploration, root: State) -> list[list[int]]:
    """Left to right, the surest site first, and both backwards."""
    left_to_right = list(range(len(root) - 1))  # root[0] is the variant
    surest_first = exploration.surest(root)
    return [left_to_right, left_to_right[::-1], surest_first, surest_first[::-1]]


def _next_beam(
    exploration: Exploration, beam: Sequence[tuple[float, State]], site: int, width: int
) -> Beam:
    """The `width` best states after a move at `site` from a beam's states."""
    longer: Beam = []
    for log_prob, state in beam:
        for log_q, after in exploration.moves(state, site, width):
            longer.append((log_prob + log_q, after))
    return sorted(longer, reverse=True)[:width]
