"""Members of the near-compatible family solved: their marginals, by accelerated sweeps, until
they are near enough.

One step is a sweep over the tables (`unmask.joints.sweeps`) and, of a pair, the likely tokens
solved exactly (`unmask.joints.newton`). Anderson's method accelerates the steps, with a
safeguard and an estimate of the distance left. For g = G(z) and f = g - z, the next point is g
minus the combination of the last changes of g whose changes of f best cancel f (least squares,
weighted by the square root of the probabilities), by at most LONGEST in any coordinate. Where f
then grows out of bounds, the memory is dropped and the plain step from the last good point is
taken instead.

A short f does not mean that z is near: along a slow direction an error e shows as f = (1 -
lambda) e. The same memory shows how slow: the largest ratio |dz| / |df| over its span is an
estimate of 1 / (1 - lambda), and that times the total variation of f is the estimated error on
which the iteration stops. A slow direction in which little was moved so far shows when the
others have converged, for then f consists of it: the estimate must hold at several reads in a
row.

Total variation does not see coordinates with next to no mass. So an iteration also goes on
while the map raises some coordinate of its logarithms by `grows` or more, however little mass
it has. When only that is left, f is rounding where there is mass, and what cancels it moves
small coordinates at random: from then on the least squares give every one a weight of at least
SMALL.

Several iterations run side by side, a row each: they share every operation, and no row's
numbers depend on the others.

Where the model rules tokens out, such a path can end at marginals that do not solve the
equations: with u[x] = e^-700 for a u[x] of 0.1, a step moves next to nothing in total
variation. `members_of` therefore checks the vectors that it returns; if they fail,
`solve_carefully` starts again from the uniform distribution, in float64 and by sweeps alone.
`FixedPointCheck` is a property of the vectors, whatever path led to them: two maps have this
fixed point, the plain step (eq. 5) and the sweep, and neither may move a marginal.

    moved     the larger total variation by which either map moves a marginal
    growth    the largest log-ratio by which either map raises the marginal of one context

Without restarts and with alpha = 0 the plain step raises a marginal by minus the derivative of
the objective (eq. 4) by its logarithm, however small the marginal is: where nothing grows and
nothing moves, no direction lowers the objective. The sweep, which divides by the flow out,
shows growth in full of a token that others hardly ever lead to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.joints.newton import LikelyTokens
from unmask.joints.reading import JointReading
from unmask.joints.sweeps import LOWEST, Marginals, Members, centred_rows, flat, start, sweep
from unmask.models.batching import on_device

MEMORY = 12
RIDGE = 1e-10  # Added to the diagonal of the normal equations of unit columns
LONGEST = 3.0
"""In nats: how far beyond the plain step a step may go. Two tokens that hardly ever meet others
need several such.
"""
GROWTH = 100.0
"""A step is taken back where f grows by more than this: along a slow direction it may well grow
before it shrinks.
"""
FORGET = 0.9  # A slow direction that the memory no longer shows is multiplied by this at each read
SLOWEST_AT_LEAST = 10.0
"""Lower bound of the estimated 1 / (1 - lambda), for when the memory has not yet met the slow
directions.
"""
RESOLUTION = (
    1e-12  # A change below this is rounding, from which nothing can be learnt about slow directions
)
SMALL = 1e-6  # Between 1e-8 and 1e-4 it makes no difference of more than a few steps
IN_A_ROW = 3  # Reads at which the estimated error must be under the tolerance


@dataclass
class FixedPoint:
    """The state of an iteration, and in the end its result.

    log_p        the log marginals, in one vector
    steps        iterations
    change       total variation of the last plain step
    error        estimated distance from the fixed point, in total variation
    small_counts whether the least squares count small coordinates
    reads_below  reads in a row, up to the last, with an error below the tolerance
    restarts     steps that were taken back
    reads        cells read over cells of the tables
    shortest     norm of f at the last step that was not taken back
    slowness     estimate of 1 / (1 - lambda)
    """

    log_p: Tensor
    steps: int = 0
    change: float = torch.inf
    error: float = torch.inf
    reads_below: int = 0
    small_counts: bool = False
    restarts: int = 0
    reads: float = 0
    shortest: float = torch.inf
    slowness: float = SLOWEST_AT_LEAST

    @property
    def converged(self) -> bool:
        """Whether the error was below the tolerance at IN_A_ROW reads in a row."""
        return self.reads_below >= IN_A_ROW


class Acceleration:
    """Iterations side by side: apply the map to the rows of `z` and `receive` the result, while
    some are `running`.

    A row that has ended leaves `z`; `running` lists those that are left, by their number at the
    start. It ends at what the map made of its last point, or (`ends_before`) at that point
    itself, whose growth is known.
    """

    def __init__(
        self,
        log_p: Float[Tensor, "rows n"],
        tolerance: float,
        max_reads: int,
        grows: float = torch.inf,
        ends_before: bool = False,
    ) -> None:
        self.z = self.best = log_p
        self.tolerance, self.max_reads, self.grows, self.ends_before = (
            tolerance,
            max_reads,
            grows,
            ends_before,
        )
        self.memory = _Memory(MEMORY, log_p)
        self.ends = [FixedPoint(row) for row in log_p]
        self.running = list(range(len(log_p)))
        self._end([row for row in self.running if max_reads < 1], log_p)

    def receive(self, g: Float[Tensor, "rows n"]) -> None:
        """Take G(z) of the running rows and choose their next points."""
        self.memory.add(self.z, g)
        products = self.memory.read(g)
        slowness = products.slowness()
        if any(counts := [self.ends[row].small_counts for row in self.running]):
            lowest = [[log(SMALL) if count else -torch.inf] for count in counts]
            products = self.memory.read(g.clamp_min(on_device(lowest, g.device, g.dtype)))
        taken_back, ended = [], []
        for place, row in enumerate(self.running):
            p = self.ends[row]
            p.steps += 1
            if not products.length[place] <= GROWTH * p.shortest:
                p.restarts += 1
                p.shortest, p.reads_below = torch.inf, 0
                taken_back.append(place)
            else:
                p.shortest, p.change = products.length[place], products.change[place]
                met = slowness[place] if p.change > RESOLUTION else 0.0
                p.slowness = max(SLOWEST_AT_LEAST, FORGET * p.slowness, met)
                p.error = p.slowness * p.change
                near, grows = p.error < self.tolerance, not products.growth[place] < self.grows
                p.reads_below = p.reads_below + 1 if near and not grows else 0
                if near and grows and not p.small_counts:
                    p.small_counts, p.shortest = True, torch.inf
            if p.steps >= self.max_reads or p.converged:
                ended.append(place)
        after = self.memory.extrapolated(products.combination())
        if taken_back:
            back = on_device(taken_back, g.device)
            after, g = (
                after.index_copy(0, back, self.best[back]),
                g.index_copy(0, back, self.best[back]),
            )
            self.memory.clear(back)
        ends = self.z if self.ends_before else g
        self.z, self.best = after, g
        if ended:
            self._end(ended, ends)

    def _end(self, places: Sequence[int], points: Float[Tensor, "rows n"]) -> None:
        """Rows that leave, at these points."""
        for place in places:
            end = self.ends[self.running[place]]
            end.log_p, end.reads = points[place].clone(), end.steps
        gone = set(places)
        remaining = [place for place in range(len(self.running)) if place not in gone]
        keep = on_device(remaining, self.z.device, torch.long)
        self.running = [self.running[place] for place in remaining]
        self.z, self.best = self.z[keep], self.best[keep]
        self.memory.keep(keep)


class _Memory:
    """The last changes of the points z and of their f = g - z; those of slots that are not
    filled are zero.
    """

    def __init__(self, size: int, like: Float[Tensor, "rows n"]) -> None:
        self.size = size
        self.dz, self.df = (like.new_zeros((len(like), 0, like.shape[1])) for _ in range(2))
        self.z = self.f = like
        self.fresh = torch.ones(len(like), dtype=torch.bool, device=like.device)

    def clear(self, rows: Tensor) -> None:
        self.dz[rows], self.df[rows] = 0.0, 0.0
        self.fresh[rows] = True

    def keep(self, rows: Tensor) -> None:
        self.dz, self.df, self.z, self.f, self.fresh = (
            x[rows] for x in (self.dz, self.df, self.z, self.f, self.fresh)
        )

    def add(self, z: Tensor, g: Tensor) -> None:
        f = g - z
        changes = [
            torch.where(self.fresh[:, None], 0.0, new - old)
            for new, old in ((z, self.z), (f, self.f))
        ]
        self.dz, self.df = (
            torch.cat([old[:, -self.size + 1 :], new[:, None]], 1)
            for old, new in zip((self.dz, self.df), changes, strict=True)
        )
        self.z, self.f, self.g = z, f, g
        self.fresh = torch.zeros_like(self.fresh)

    def read(self, log_weight: Tensor) -> _Products:
        """Inner products with these weights, changes and growths of all rows, from the device
        in one transfer.
        """
        change, growth = 0.5 * (self.g.exp() - self.z.exp()).abs().sum(1), self.f.amax(1)
        columns = (
            torch.cat([self.df, self.dz, self.f[:, None]], 1) * (0.5 * log_weight).exp()[:, None]
        )
        width = columns.shape[1]
        numbers = torch.cat(
            [(columns @ columns.mT).flatten(1), change[:, None], growth[:, None]], 1
        ).cpu()
        return _Products(
            numbers[:, :-2].reshape(-1, width, width),
            numbers[:, -2].tolist(),
            numbers[:, -1].tolist(),
        )

    def extrapolated(self, combination: Float[Tensor, "rows slots"]) -> Tensor:
        """g less the combination of past changes of g, shortened to LONGEST."""
        beyond = (combination.to(self.g.device, non_blocking=True)[:, None] @ (self.dz + self.df))[
            :, 0
        ]
        return self.g - beyond.mul(LONGEST / beyond.abs().amax(1, keepdim=True).clamp_min(LONGEST))


class _Products:
    """Inner products, weighted, of the changes of f, of the changes of z (over the same
    lengths), and of f itself.
    """

    def __init__(
        self, products: Float[Tensor, "rows w w"], change: list[float], growth: list[float]
    ) -> None:
        m = products.shape[1] // 2
        self.change, self.growth, self.length = change, growth, products[:, -1, -1].sqrt().tolist()
        sound = products.isfinite().all(2).all(1)
        products = torch.where(
            sound[:, None, None], products, torch.eye(2 * m + 1, dtype=products.dtype)
        )
        self.scale = products.diagonal(dim1=1, dim2=2)[:, :m].sqrt().clamp_min(1e-150)
        both = self.scale[:, :, None] * self.scale[:, None, :]
        self.of_f = products[:, :m, :m] / both + RIDGE * torch.eye(m, dtype=products.dtype)
        self.of_z = products[:, m:-1, m:-1] / both
        self.with_f = products[:, :m, -1] / self.scale

    def combination(self) -> Float[Tensor, "rows slots"]:
        """The weights of past changes whose changes of f best cancel f."""
        return torch.linalg.solve(self.of_f, self.with_f) / self.scale

    def slowness(self) -> list[float]:
        """The largest |dz c| / |df c| over combinations c of the memory; infinite where a z
        moved and its f did not.
        """
        lower = torch.linalg.cholesky(self.of_f)
        inner = torch.linalg.solve_triangular(lower, self.of_z, upper=False)
        ratio = torch.linalg.solve_triangular(lower, inner.mT, upper=False)
        finite = ratio.isfinite().all(2).all(1)
        ratio = torch.where(finite[:, None, None], ratio, 0.0)
        largest = torch.linalg.eigvalsh((ratio + ratio.mT) / 2)[:, -1].clamp_min(0).sqrt()
        slowness: list[float] = torch.where(finite, largest, torch.inf).tolist()
        return slowness


GROWS = 1e-2  # In nats. Marginals that have converged grow by 1e-6 to 1e-4.
CELLS_IN_FLOAT64 = (
    1 << 25
)  # Larger tables are swept in their own dtype: a copy in float64 would need too much memory


def solve(
    members: Members, tolerance: float, max_reads: int, initial: Marginals | None = None
) -> list[FixedPoint]:
    """The fixed points of members over blocks of two sites or more, row by row.

    All are found side by side: a row of numbers for each member of each block goes through the
    same operations, and leaves when it has converged. The numbers of a row are those that it
    has alone, up to the order in which a sum of float64 is added. `initial`: log marginals to
    start from, by default those of the product joint.
    """
    begins = [flat(start(tables) if initial is None else initial) for tables in members.blocks]
    points = torch.stack([begins[owner] for owner in members.owner]).clamp_min(LOWEST)
    runs = Acceleration(members.with_dead_lowered(points), tolerance, max_reads, GROWS / 2)
    shares = _run(members, runs, LikelyTokens(members) if members.blocks[0].sites == 2 else None)
    reads = [(shares[owner][0], 1 + shares[owner][1]) for owner in members.owner]
    return [
        replace(end, reads=first + end.steps * each)
        for end, (first, each) in zip(runs.ends, reads, strict=True)
    ]


def solve_carefully(members: Members, tolerance: float, max_reads: int) -> list[FixedPoint]:
    """The fixed points of `solve`, from the uniform distribution, by accelerated sweeps in
    float64 without Newton's method.
    """
    owners = sorted(set(members.owner))
    few = members.blocks[0].log_q[0].numel() <= CELLS_IN_FLOAT64
    blocks = tuple(members.blocks[block] for block in owners)
    blocks = (
        tuple(replace(tables, log_q=tuple(q.double() for q in tables.log_q)) for tables in blocks)
        if few
        else blocks
    )
    members = replace(
        members, blocks=blocks, owner=tuple(owners.index(block) for block in members.owner)
    )
    uniform = flat(start(blocks[0], uniform=True))
    points = members.with_dead_lowered(uniform.repeat(len(members.owner), 1))
    runs = Acceleration(points, tolerance, max_reads, GROWS / 2, ends_before=True)
    _run(members, runs, None)
    return runs.ends


def _run(
    members: Members, runs: Acceleration, likely: LikelyTokens | None
) -> list[tuple[int, float]]:
    """Iterate the rows still running, side by side.

    Returns for each block the reads before the first sweep (a pair's likely tokens are chosen
    in one) and the share of the tables that the likely tokens' strips add to a sweep.
    """
    running = runs.running
    while running:
        moved = sweep(members, runs.z)
        runs.receive(moved if likely is None else likely.solve(moved))
        if runs.running != running:
            remaining = set(runs.running)
            chosen = [place for place, row in enumerate(running) if row in remaining]
            running, members = runs.running, members.select(chosen)
            if likely:
                likely.keep(chosen)
    return [
        (1, likely.strips.share(block)) if likely else (0, 0.0)
        for block in range(len(members.blocks))
    ]


ROUNDING = {
    torch.float32: 2e-5,
    torch.float64: 1e-10,
}  # Total variation that the rounding of the sums may move marginals by


@dataclass(frozen=True)
class FixedPointCheck:
    """The distance by which plain step and sweep move the marginals of one member; see above.
    NaN if one is not finite.
    """

    moved: float
    growth: float

    @property
    def grows(self) -> bool:
        """Whether some marginal is about to grow, or is NaN."""
        return not self.growth < GROWS

    def within(self, tolerance: float, dtype: torch.dtype) -> bool:
        """Whether neither map moves anything by more than the tolerance, or raises anything."""
        return not self.grows and self.moved < max(tolerance, ROUNDING[dtype])


def check_fixed_points(
    members: Members, marginals: Sequence[Marginals], readings: Sequence[JointReading]
) -> list[FixedPointCheck]:
    """The check of each row's marginals: from one sweep, and from the plain step, which is in
    the reading of the row's rule.

    Without restarts the joint does not depend on the common scale of its marginals: all three
    are compared with a sum of one.
    """
    dtype = members.blocks[0].log_q[0].dtype
    points = torch.stack([flat(log_mu) for log_mu in marginals])
    near, c = centred_rows(points, dtype, members.dead)
    at = near + c
    scale = at[:, : members.sizes[0]].logsumexp(1, keepdim=True)
    at = torch.where(members.restart > 0, at, at - scale)
    log_z = on_device([[reading.log_z] for reading in readings], at.device, at.dtype)
    plain = torch.stack([flat(reading.log_marginals) for reading in readings]) + torch.where(
        members.restart > 0, log_z, 0.0
    )
    moved, growth = [], []
    for after in (sweep(members, points), plain):
        parts = (after.exp() - at.exp()).abs().split(members.sizes, 1)
        moved.append(0.5 * torch.stack([part.sum(1) for part in parts]).amax(0))
        rises = after - at
        growth.append(
            (rises if members.dead is None else rises.masked_fill(members.dead, -torch.inf)).amax(1)
        )
    numbers = torch.stack([torch.stack(moved).amax(0), torch.stack(growth).amax(0)], 1).tolist()
    return [FixedPointCheck(*row) for row in numbers]
