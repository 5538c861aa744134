"""Members of the near-compatible family solved: their marginals, by accelerated sweeps, until they are near enough.

One step is a sweep over the tables (`flow_sweep`, `pair_sweep`) and, of a pair, the likely tokens solved exactly
(`likely_tokens`). The steps are accelerated and stopped by `anderson`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from unmask.joints.solver.anderson import Acceleration
from unmask.joints.solver.flow_sweep import sweep
from unmask.joints.solver.likely_tokens import LikelyTokens
from unmask.joints.solver.marginals import LOWEST, Marginals, flat, start, unflat
from unmask.joints.solver.members import Members


@dataclass(frozen=True)
class Solution:
    """The marginals of one member, and how they were found.

    steps       iterations
    reads       cells read over cells of the tables: those of the sweeps and of the likely tokens' strips
    change      total variation that the last iteration moved the marginals by
    error       estimated distance from the fixed point, in total variation
    converged   whether the error was below the tolerance at several reads in a row
    """

    log_mu: Marginals
    steps: int
    reads: float
    change: float
    error: float
    converged: bool


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
