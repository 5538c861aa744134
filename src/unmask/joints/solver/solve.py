"""Members of the near-compatible family solved: their marginals, by accelerated sweeps, until they are near enough.

One step is a sweep over the tables (`flow_sweep`, `pair_sweep`) and, of a pair, the likely tokens solved exactly
(`likely_tokens`). The steps are accelerated and stopped by `anderson`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from unmask.joints.registry import Member
from unmask.joints.solver.anderson import Acceleration
from unmask.joints.solver.flow_sweep import sweep
from unmask.joints.solver.likely_tokens import LikelyTokens
from unmask.joints.solver.marginals import Marginals, flat, start, unflat
from unmask.joints.solver.members import Members
from unmask.tables.unary import Tables


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


def solve(
    tables: Tables, members: Sequence[Member] | Members, tolerance: float, max_reads: int, initial: Marginals | None = None
) -> list[Solution]:
    """The fixed points of several members of two sites or more; those of a pair are found side by side, in shared reads.

    `initial`: log marginals to start from, by default those of the product joint.
    """
    given = start(tables) if initial is None else initial
    asked = members if isinstance(members, Members) else Members.of(tables, members)
    runs = [Acceleration(flat(given), tolerance, max_reads) for _ in asked.alpha]
    before, strips = _run(tables, asked, runs)
    ends = [run.end() for run in runs]
    return [
        Solution(unflat(end.log_p, given), end.reads, before + end.reads * (1 + strips), end.change, end.error, end.converged)
        for end in ends
    ]


def _run(tables: Tables, members: Members, runs: Sequence[Acceleration]) -> tuple[int, float]:
    """Iterate the members still running, side by side.

    Returns the reads before the first sweep (a pair's likely tokens are chosen in one) and the share of the tables that the
    likely tokens' strips add to a sweep.
    """
    likely: LikelyTokens | None = None
    before: list[int] = []
    while running := [i for i, run in enumerate(runs) if run.running]:
        if running != before:
            chosen = members.rows(running)
            likely = LikelyTokens(tables, chosen) if tables.sites == 2 else None
            before = running
        moved = sweep(tables, torch.stack([runs[i].z for i in running]), chosen)
        for i, point in zip(running, moved if likely is None else likely.solve(moved), strict=True):
            runs[i].receive(point)
    return (1, likely.strips.share) if likely else (0, 0.0)
