"""Solve members of the near-compatible family: accelerated sweeps move their marginals until these
are near enough to the fixed point.

One step is a sweep over the tables (`unmask.joints.sweeps`) and, of a pair, the likely tokens
solved exactly (`unmask.joints.newton`). Anderson's method accelerates the steps
(`unmask.joints.acceleration`). They end when they are estimated to be near enough to the fixed
point (`unmask.joints.fixed_point`).

Where the model rules tokens out, the steps can end at marginals that do not solve the equations.
From u[x] = e^-700, where u[x] = 0.1 solves them, a step moves next to nothing in total variation.
So `arnold_gokhale.members_of` checks the marginals that it returns
(`unmask.joints.fixed_point_check`). If they fail, `solve_carefully` starts again from the uniform
distribution, in float64 and by sweeps alone.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from unmask.joints.acceleration import Acceleration
from unmask.joints.fixed_point import FixedPoint
from unmask.joints.fixed_point_check import GROWS
from unmask.joints.members import LOWEST, Marginals, Members, flat, start
from unmask.joints.newton import LikelyTokens
from unmask.joints.sweeps import sweep

CELLS_IN_FLOAT64 = 1 << 25
"""Cells of a table. Larger tables are swept in their own dtype: a copy in float64 would need too
much memory.
"""


def growth_limit() -> float:
    """The growth of a step, in nats, at which an iteration goes on.

    It is half of what the check allows, because the step after the last may raise more than the
    last did.
    """
    return GROWS / 2


def solve(
    members: Members, tolerance: float, max_reads: int, initial: Marginals | None = None
) -> list[FixedPoint]:
    """The fixed points of members over blocks of two sites or more, row by row.

    All are found side by side: a row of numbers for each member of each block goes through the
    same operations, and leaves when it has converged. A row ends at the numbers that it would have
    alone, except that a sum of float64 may be added in another order.

    initial   log marginals that every row starts from; by default, those of its block's product
              joint
    """
    if initial is None:
        starts = [flat(start(tables)) for tables in members.blocks]
    else:
        starts = [flat(initial) for _ in members.blocks]
    points = torch.stack([starts[block] for block in members.owner]).clamp_min(LOWEST)
    points = members.with_dead_lowered(points)
    iterations = Acceleration(points, tolerance, max_reads, growth_limit())
    if members.blocks[0].sites > 2:
        _sweep_until_ended(members, iterations)
        return iterations.ends
    likely = LikelyTokens(members)
    _sweep_until_ended(members, iterations, likely)
    ends = []
    for end, block in zip(iterations.ends, members.owner, strict=True):
        # One read chooses the likely tokens. Each step reads the tables once, and the strips.
        reads = 1 + end.steps * (1 + likely.strips.share(block))
        ends.append(replace(end, reads=reads))
    return ends


def solve_carefully(members: Members, tolerance: float, max_reads: int) -> list[FixedPoint]:
    """The fixed points of `solve`, from the uniform distribution, by accelerated sweeps in float64
    without Newton's method.
    """
    members = _without_unused_blocks(members)
    if members.blocks[0].log_q[0].numel() <= CELLS_IN_FLOAT64:
        members = _in_float64(members)
    uniform = flat(start(members.blocks[0], uniform=True))
    points = members.with_dead_lowered(uniform.repeat(len(members.owner), 1))
    # `ends_before`: the growth is known of the point before the last step, not of the one after.
    iterations = Acceleration(points, tolerance, max_reads, growth_limit(), ends_before=True)
    _sweep_until_ended(members, iterations)
    return iterations.ends


def _without_unused_blocks(members: Members) -> Members:
    """The same rows, with the blocks alone that have one."""
    used = sorted(set(members.owner))
    return replace(
        members,
        blocks=tuple(members.blocks[block] for block in used),
        owner=tuple(used.index(block) for block in members.owner),
    )


def _in_float64(members: Members) -> Members:
    """The same rows over tables in float64."""
    blocks = []
    for tables in members.blocks:
        log_q = tuple(table.double() for table in tables.log_q)
        blocks.append(replace(tables, log_q=log_q))
    return replace(members, blocks=tuple(blocks))


def _sweep_until_ended(
    members: Members, iterations: Acceleration, likely: LikelyTokens | None = None
) -> None:
    """Iterate all rows side by side: a sweep, then the likely tokens solved, if these are given."""
    running = iterations.running
    while running:
        stepped = sweep(members, iterations.z)
        if likely is not None:
            stepped = likely.solve(stepped)
        iterations.receive(stepped)  # `iterations.running` is a new list if rows end
        if iterations.running != running:
            still_running = set(iterations.running)
            places = [place for place, row in enumerate(running) if row in still_running]
            running = iterations.running
            members = members.select(places)
            if likely is not None:
                likely.keep(places)
