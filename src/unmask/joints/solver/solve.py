"""Members of the near-compatible family solved: their marginals, by accelerated sweeps, until they are near enough.

One step is a sweep over the tables (`flow_sweep`, `pair_sweep`) and, of a pair, the likely tokens solved exactly
(`likely_tokens`). The steps are accelerated and stopped by `anderson`.

Where the model rules tokens out, such a path can end at marginals that do not solve the equations: with u[x] = e^-700 for a u[x]
of 0.1, a step moves next to nothing in total variation. `members_of` therefore checks the vectors that it returns (`standing`);
where they fail, `solve_carefully` starts again from the uniform distribution, in float64 and by sweeps alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from unmask.joints.solver.anderson import Acceleration
from unmask.joints.solver.flow_sweep import sweep
from unmask.joints.solver.likely_tokens import LikelyTokens
from unmask.joints.solver.marginals import LOWEST, Marginals, flat, start, unflat
from unmask.joints.solver.members import Members
from unmask.tables.unary import Tables

CELLS_IN_FLOAT64 = 1 << 25
"""Larger tables are swept in their own dtype: a copy in float64 would need too much memory."""


@dataclass(frozen=True)
class Solution:
    """The marginals of one member, and how they were found.

    steps       iterations
    reads       cells read over cells of the tables: those of the sweeps and of the likely tokens' strips
    change      total variation that the last iteration moved the marginals by
    error       estimated distance from the fixed point, in total variation
    settled     whether the error was below the tolerance at several reads in a row
    """

    log_mu: Marginals
    steps: int
    reads: float
    change: float
    error: float
    settled: bool


def solve(members: Members, tolerance: float, max_reads: int, initial: Marginals | None = None) -> list[Solution]:
    """The fixed points of members over blocks of two sites or more, row by row.

    All are found side by side: a row of numbers for each member of each block goes through the same operations, and leaves when
    it has converged. The numbers of a row are those that it has alone, up to the order in which a sum of float64 is added.
    `initial`: log marginals to start from, by default those of the product joint.
    """
    given = [start(tables) if initial is None else initial for tables in members.blocks]
    points = torch.stack([flat(given[owner]) for owner in members.owner]).clamp_min(LOWEST)
    runs = Acceleration(points, tolerance, max_reads)
    shares = _run(members, runs)
    found = []
    for owner, end in zip(members.owner, runs.end(), strict=True):
        before, share = shares[owner]
        log_mu, reads = unflat(end.log_p, given[owner]), before + end.reads * (1 + share)
        found.append(Solution(log_mu, end.reads, reads, end.change, end.error, end.converged))
    return found


def solve_carefully(members: Members, tolerance: float, max_reads: int) -> list[Solution]:
    """The same from the uniform distribution, by accelerated sweeps in float64 without the likely tokens."""
    asked = sorted(set(members.owner))
    blocks = tuple(_in_float64(members.blocks[block]) for block in asked)
    members = replace(members, blocks=blocks, owner=tuple(asked.index(block) for block in members.owner))
    given = start(blocks[0], uniform=True)
    runs = Acceleration(flat(given).repeat(len(members.owner), 1), tolerance, max_reads)
    running = runs.running
    while running:
        runs.receive(sweep(members, runs.z))
        left = set(runs.running)
        members = members.rows([place for place, row in enumerate(running) if row in left])
        running = runs.running
    return [Solution(unflat(e.log_p, given), e.reads, e.reads, e.change, e.error, e.converged) for e in runs.end()]


def _in_float64(tables: Tables) -> Tables:
    if tables.log_q[0].numel() > CELLS_IN_FLOAT64:
        return tables
    return replace(tables, log_q=tuple(log_q.double() for log_q in tables.log_q))


def _run(members: Members, runs: Acceleration) -> list[tuple[int, float]]:
    """Iterate the rows still running, side by side.

    Returns for each block the reads before the first sweep (a pair's likely tokens are chosen in one) and the share of the
    tables that the likely tokens' strips add to a sweep.
    """
    likely = LikelyTokens(members) if members.blocks[0].sites == 2 else None
    running = runs.running
    while running:
        moved = sweep(members, runs.z)
        runs.receive(moved if likely is None else likely.solve(moved))
        if runs.running != running:
            left = set(runs.running)
            chosen = [place for place, row in enumerate(running) if row in left]
            running, members = runs.running, members.rows(chosen)
            if likely:
                likely.keep(chosen)
    return [(1, likely.strips.share(block)) if likely else (0, 0.0) for block in range(len(members.blocks))]
