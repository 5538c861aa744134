"""Members of the near-compatible family solved: their marginals, by accelerated sweeps, until they are near enough.

One step of a pair is a sweep over the tables (`pair_sweep`) and the likely tokens solved exactly (`likely_tokens`); of k
sites it is a sweep (`flow_sweep`). The steps are accelerated and stopped by `anderson`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from unmask.joints.solver.anderson import Acceleration
from unmask.joints.solver.flow_sweep import sweep
from unmask.joints.solver.likely_tokens import LikelyTokens
from unmask.joints.solver.marginals import Marginals, flat, start, unflat
from unmask.joints.solver.pair_sweep import sweep_pair
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
    tables: Tables, alphas: Sequence[float], tolerance: float, max_reads: int, initial: Marginals | None = None
) -> list[Solution]:
    """The fixed points of several members of two sites or more; those of a pair are found side by side, in shared reads.

    `initial`: log marginals to start from, by default those of the product joint.
    """
    given = start(tables) if initial is None else initial
    runs = [Acceleration(flat(given), tolerance, max_reads) for _ in alphas]
    if tables.sites == 2:
        before, strips = 1, _pair(tables, alphas, runs)
    else:
        before, strips = 0, 0.0
        _sites(tables, alphas, runs, given)
    ends = [run.end() for run in runs]
    return [
        Solution(unflat(end.log_p, given), end.reads, before + end.reads * (1 + strips), end.change, end.error, end.converged)
        for end in ends
    ]


def _pair(tables: Tables, alphas: Sequence[float], runs: Sequence[Acceleration]) -> float:
    """Sweeps of the members still running, the likely tokens solved after each; a read before chooses those.

    Returns the share of the tables that the likely tokens' strips add to a read.
    """
    likely: LikelyTokens | None = None
    while running := [i for i, run in enumerate(runs) if run.running]:
        points = torch.stack([runs[i].z for i in running])
        if likely is None or len(likely.alpha) != len(running):
            likely = LikelyTokens(tables, points.new_tensor([alphas[i] for i in running])[:, None])
        moved = likely.solve(sweep_pair(tables, points, likely.alpha))
        for i, point in zip(running, moved, strict=True):
            runs[i].receive(point)
    return likely.strips.share if likely else 0.0


def _sites(tables: Tables, alphas: Sequence[float], runs: Sequence[Acceleration], like: Marginals) -> None:
    """Sweeps of one member after the other."""
    for alpha, run in zip(alphas, runs, strict=True):
        while run.running:
            run.receive(flat(sweep(tables, unflat(run.z, like), alpha)))
