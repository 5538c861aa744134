"""Members of the near-compatible family solved: their marginals, by accelerated sweeps, until they are near enough.

One step is a sweep over the tables (`flow_sweep`) and, of a pair, the likely tokens solved exactly (`likely_tokens`). The steps
are accelerated and stopped by `anderson`.

Where the model rules tokens out, such a path can end at marginals that do not solve the equations: with u[x] = e^-700 for a u[x]
of 0.1, a step moves next to nothing in total variation. `members_of` therefore checks the vectors that it returns; if they fail,
`solve_carefully` starts again from the uniform distribution, in float64 and by sweeps alone.

The check (`Standing`) is a property of the vectors, whatever path led to them. At a fixed point both maps that have it leave
every marginal where it is: the plain step (eq. 5) and the sweep.

    moved     the larger total variation by which either map moves a marginal
    growth    the largest log-ratio by which either map raises the marginal of one context

Total variation alone says nothing of contexts with next to no mass, which may yet be about to grow. Without restarts and with
alpha = 0 the plain step raises a marginal by minus the derivative of the objective (eq. 4) by its logarithm, however small the
marginal is: where nothing grows and nothing moves, no direction lowers the objective. A token that other tokens hardly
ever lead to has a small derivative; the sweep, which divides by the flow out, shows it in full. A marginal without mass may
shrink: it goes to zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from unmask.joints.faithfulness import JointReading
from unmask.joints.solver.anderson import Acceleration
from unmask.joints.solver.flow_sweep import sweep
from unmask.joints.solver.likely_tokens import LikelyTokens
from unmask.joints.solver.members import LOWEST, Marginals, Members, centred_rows, flat, start, unflat
from unmask.tables.unary import Tables

GROWS = 1e-2
"""In nats. Marginals that have converged grow by 1e-6 to 1e-4."""
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
    runs = Acceleration(points, tolerance, max_reads, GROWS / 2)
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
    runs = Acceleration(flat(given).repeat(len(members.owner), 1), tolerance, max_reads, GROWS / 2)
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


ROUNDING = {torch.float32: 2e-5, torch.float64: 1e-10}
"""Total variation that the rounding of the sums may move marginals by."""


@dataclass(frozen=True)
class Standing:
    """How far the two maps move the marginals of one member; NaN where a number is not finite."""

    moved: float
    growth: float

    @property
    def grows(self) -> bool:
        """Whether some marginal is about to grow, or is NaN."""
        return not self.growth < GROWS

    def within(self, tolerance: float, dtype: torch.dtype) -> bool:
        """Whether neither map moves anything by more than the tolerance, or raises anything."""
        return not self.grows and self.moved < max(tolerance, ROUNDING[dtype])


def standings(members: Members, marginals: Sequence[Marginals], readings: Sequence[JointReading]) -> list[Standing]:
    """Of each row, from one sweep; its plain step is in the reading of its rule, which has been made.

    Without restarts the joint does not depend on the common scale of its marginals: all three are compared with a sum of one.
    """
    dtype = members.blocks[0].log_q[0].dtype
    points = torch.stack([flat(log_mu) for log_mu in marginals])
    near, c = centred_rows(points, dtype)
    at = near + c
    scale = at[:, : members.sizes[0]].logsumexp(1, keepdim=True)
    at = torch.where(members.restart > 0, at, at - scale)
    log_z = torch.tensor([[reading.log_z] for reading in readings], dtype=at.dtype, device=at.device)
    plain = torch.stack([flat(reading.log_marginals) for reading in readings]) + torch.where(members.restart > 0, log_z, 0.0)
    moved, growth = [], []
    for after in (sweep(members, points), plain):
        parts = (after.exp() - at.exp()).abs().split(members.sizes, 1)
        moved.append(0.5 * torch.stack([part.sum(1) for part in parts]).amax(0))
        growth.append((after - at).amax(1))
    numbers = torch.stack([torch.stack(moved).amax(0), torch.stack(growth).amax(0)], 1).tolist()
    return [Standing(*row) for row in numbers]
