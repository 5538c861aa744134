"""Anderson's acceleration of a fixed-point iteration z -> G(z) of log-probabilities, with a
safeguard and an estimate of the distance that is left.

Let f = G(z) - z, and let dz and df be the changes of z and f over the last steps. The next point
is

    G(z) - sum_i c_i (dz_i + df_i),        c = argmin | f - sum_i c_i df_i | .

The length | | weights each coordinate by the square root of its probability. If a coordinate of the
sum is larger than LONGEST, the sum is scaled down so that the largest is LONGEST.

Where f becomes more than LONGER_AT_MOST times as long as at the last accepted step, or NaN, the
memory of changes is dropped, and the next point is the plain step from the last point that was
accepted.

**The estimated error.** A short f does not mean that z is near: along a direction of rate lambda
an error e shows as f = (1 - lambda) e. The memory shows the slowest direction that was met so far:

    slowness  =  max_c |dz c| / |df c|,  an estimate of 1 / (1 - lambda)
    error     =  slowness * total variation between z and G(z)

The steps so far may hardly have moved along a slow direction. It shows when the others have
converged, since f is then along it. So the error must be below the tolerance at IN_A_ROW steps in a
row.

**Small coordinates.** Total variation does not see coordinates with next to no mass. So an
iteration also goes on while the map raises some coordinate of its logarithms by `growth_limit` or
more, however little mass it has. When only this is left to do, f is nothing but rounding at the
coordinates with mass. Least squares that cancel this rounding would move small coordinates at
random. So from then on they give every coordinate a weight of at least SMALL.

Several iterations run side by side, one per row of a matrix. They share every operation, and no
row's numbers depend on the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.models.batching import on_device

MEMORY = 12  # Changes that are kept
RIDGE = 1e-10  # Added to the diagonal of the normal equations of unit columns
LONGEST = 3.0
"""In nats: how far beyond the plain step a step may go. Two tokens that hardly ever meet others
need several such.
"""
LONGER_AT_MOST = 100.0
"""A step is taken back where f becomes longer by more than this factor. Along a slow direction f
may well become longer before it becomes shorter.
"""
FORGET = 0.9
"""The estimated slowness is multiplied by this at each step, so a slow direction that the memory
no longer shows is forgotten.
"""
SLOWEST_AT_LEAST = 10.0
"""Lower bound of the estimated slowness, for when the memory has not yet met the slow directions.
"""
RESOLUTION = 1e-12
"""Total variation. A change below this is rounding, from which nothing can be learnt about slow
directions.
"""
SMALL = 1e-6  # A weight. Between 1e-8 and 1e-4 it makes no difference of more than a few steps.
IN_A_ROW = 3  # Steps at which the estimated error must be below the tolerance
SHORTEST = 1e-150
"""The length of a slot of the memory that is not filled, in place of 0. Products are divided by two
lengths, whose product of 1e-300 float64 can still represent.
"""


@dataclass
class FixedPoint:
    """The state of one iteration, and in the end its result.

    log_p         the log-probabilities that it ended at, in one vector
    steps         steps so far, those that were taken back included
    change        total variation between z and G(z) at the last accepted step
    error         estimated distance from the fixed point, in total variation
    steps_below   accepted steps in a row, up to the last, with an error below the tolerance and
                  no growth
    small_counts  whether the least squares count small coordinates
    restarts      steps that were taken back
    reads         cells read over cells of the tables
    last_length   length of f that the next step is compared with: that of the last accepted
                  step, or infinite if there is none that it can be compared with
    slowness      estimate of 1 / (1 - lambda), the largest so far, fading by FORGET at each
                  accepted step
    """

    log_p: Tensor
    steps: int = 0
    change: float = torch.inf
    error: float = torch.inf
    steps_below: int = 0
    small_counts: bool = False
    restarts: int = 0
    reads: float = 0
    last_length: float = torch.inf
    slowness: float = SLOWEST_AT_LEAST

    @property
    def converged(self) -> bool:
        """Whether the error was below the tolerance at IN_A_ROW steps in a row."""
        return self.steps_below >= IN_A_ROW

    def accepts(self, length: float) -> bool:
        """Whether a step with an f of this length is accepted; one of length NaN is not."""
        return length <= LONGER_AT_MOST * self.last_length

    def accept(
        self, length: float, change: float, slowness: float, grows: bool, tolerance: float
    ) -> None:
        """Record a step that is accepted.

        length     of f
        change     total variation between z and G(z)
        slowness   as the memory shows it now
        grows      whether the step raises some coordinate by the limit or more
        tolerance  of the error
        """
        self.last_length = length
        self.change = change
        slowness_shown = slowness if change > RESOLUTION else 0.0
        self.slowness = max(SLOWEST_AT_LEAST, FORGET * self.slowness, slowness_shown)
        self.error = self.slowness * self.change
        is_near = self.error < tolerance
        if is_near and not grows:
            self.steps_below += 1
        else:
            self.steps_below = 0
        if is_near and grows and not self.small_counts:
            self.small_counts = True
            self.last_length = torch.inf  # from now on lengths have other weights

    def take_back(self) -> None:
        """Record a step that is taken back."""
        self.restarts += 1
        self.last_length = torch.inf
        self.steps_below = 0


class Acceleration:
    """Iterations side by side. While some are `running`, apply the map to the rows of `z` and
    `receive` the result.

    `running` has, for each row of `z`, its number at the start. A row that has ended leaves both,
    and its result is in `ends`: G of its last accepted point or, with `ends_before`, its last
    point itself, whose growth is known.
    """

    def __init__(
        self,
        log_p: Float[Tensor, "rows n"],
        tolerance: float,
        max_reads: int,
        growth_limit: float = torch.inf,
        ends_before: bool = False,
    ) -> None:
        self.z = log_p
        self.plain = log_p  # G(z) of the last accepted step; before any, the start
        self.tolerance = tolerance
        self.max_reads = max_reads
        self.growth_limit = growth_limit
        self.ends_before = ends_before
        self.memory = _Memory(MEMORY, log_p)
        self.ends = [FixedPoint(row) for row in log_p]
        self.running = list(range(len(log_p)))
        if max_reads < 1:
            self._end(self.running, log_p)

    def receive(self, g: Float[Tensor, "rows n"]) -> None:
        """Take G(z) of the running rows and choose their next points."""
        self.memory.add(self.z, g)
        products = self.memory.products(g, log_weight=g)
        slowness = products.slowness()  # with the weights of the probabilities alone
        if any(self.ends[row].small_counts for row in self.running):
            # The lengths and the combinations have the weights of the least squares.
            products = self.memory.products(g, log_weight=self._with_small_counted(g))
        taken_back = []
        ended = []
        for place, row in enumerate(self.running):
            end = self.ends[row]
            end.steps += 1
            if end.accepts(products.length[place]):
                end.accept(
                    length=products.length[place],
                    change=products.change[place],
                    slowness=slowness[place],
                    grows=not products.growth[place] < self.growth_limit,  # NaN grows
                    tolerance=self.tolerance,
                )
            else:
                end.take_back()
                taken_back.append(place)
            if end.converged or end.steps >= self.max_reads:
                ended.append(place)
        following = self.memory.extrapolated(g, products.combination())
        if taken_back:
            # The next point of these rows is the plain step from the last accepted point, and it
            # stays their `plain`.
            back = on_device(taken_back, g.device)
            following = following.index_copy(0, back, self.plain[back])
            g = g.index_copy(0, back, self.plain[back])
            self.memory.clear(back)
        points = self.z if self.ends_before else g
        self.z = following
        self.plain = g
        if ended:
            self._end(ended, points)

    def _with_small_counted(self, g: Float[Tensor, "rows n"]) -> Float[Tensor, "rows n"]:
        """The log weights of the least squares: at least log SMALL in the rows in which small
        coordinates count.
        """
        lowest = []  # one column
        for row in self.running:
            if self.ends[row].small_counts:
                lowest.append([log(SMALL)])
            else:
                lowest.append([-torch.inf])
        return g.clamp_min(on_device(lowest, g.device, g.dtype))

    def _end(self, places: Sequence[int], points: Float[Tensor, "rows n"]) -> None:
        """End the rows at these places, each at its point."""
        for place in places:
            end = self.ends[self.running[place]]
            end.log_p = points[place].clone()
            end.reads = float(end.steps)  # each step has read the tables once
        gone = set(places)
        remaining = [place for place in range(len(self.running)) if place not in gone]
        self.running = [self.running[place] for place in remaining]
        kept = on_device(remaining, self.z.device, torch.long)
        self.z = self.z[kept]
        self.plain = self.plain[kept]
        self.memory.keep(kept)


class _Memory:
    """The last `size` changes of the points z (dz) and of f = G(z) - z (df), oldest first.

    Changes of a row from before it was cleared are zero.
    """

    dz: Float[Tensor, "rows slots n"]
    df: Float[Tensor, "rows slots n"]
    z: Float[Tensor, "rows n"]
    f: Float[Tensor, "rows n"]
    fresh: Bool[Tensor, " rows"]
    """Rows that are at their first point, or were cleared: the next point gives no change."""

    def __init__(self, size: int, like: Float[Tensor, "rows n"]) -> None:
        rows, n = like.shape
        self.size = size
        self.dz = like.new_zeros((rows, 0, n))
        self.df = like.new_zeros((rows, 0, n))
        self.z = like
        self.f = like
        self.fresh = torch.ones(rows, dtype=torch.bool, device=like.device)

    def clear(self, rows: Int[Tensor, " cleared"]) -> None:
        """Forget the changes of these rows."""
        self.dz[rows] = 0.0
        self.df[rows] = 0.0
        self.fresh[rows] = True

    def keep(self, rows: Int[Tensor, " kept"]) -> None:
        """Go on with these rows alone."""
        self.dz = self.dz[rows]
        self.df = self.df[rows]
        self.z = self.z[rows]
        self.f = self.f[rows]
        self.fresh = self.fresh[rows]

    def add(self, z: Float[Tensor, "rows n"], g: Float[Tensor, "rows n"]) -> None:
        """Add the changes that the points z and their G(z) are from those before."""
        f = g - z
        self.dz = self._with_change(self.dz, z - self.z)
        self.df = self._with_change(self.df, f - self.f)
        self.z = z
        self.f = f
        self.fresh = torch.zeros_like(self.fresh)

    def _with_change(self, changes: Tensor, change: Tensor) -> Float[Tensor, "rows slots n"]:
        """The last changes and one more; the oldest leaves when `size` are there."""
        change = torch.where(self.fresh[:, None], 0.0, change)
        newest = changes[:, -(self.size - 1) :]
        return torch.cat([newest, change[:, None]], 1)

    def products(
        self, g: Float[Tensor, "rows n"], log_weight: Float[Tensor, "rows n"]
    ) -> _Products:
        """Inner products with these weights, total variations and growths of all rows, from the
        device in one transfer.
        """
        change = 0.5 * (g.exp() - self.z.exp()).abs().sum(1)
        growth = self.f.amax(1)
        vectors = torch.cat([self.df, self.dz, self.f[:, None]], 1)
        columns = vectors * (0.5 * log_weight).exp()[:, None]
        inner = columns @ columns.mT
        numbers = torch.cat([inner.flatten(1), change[:, None], growth[:, None]], 1).cpu()
        width = columns.shape[1]
        inner_on_cpu, change_on_cpu, growth_on_cpu = numbers.split([width**2, 1, 1], 1)
        return _Products(
            inner_on_cpu.reshape(-1, width, width),
            change=change_on_cpu[:, 0].tolist(),
            growth=growth_on_cpu[:, 0].tolist(),
        )

    def extrapolated(
        self, g: Float[Tensor, "rows n"], combination: Float[Tensor, "rows slots"]
    ) -> Float[Tensor, "rows n"]:
        """g less the combination of past changes of g = z + f, shortened to LONGEST."""
        weights = combination.to(g.device, non_blocking=True)[:, None]
        beyond = (weights @ (self.dz + self.df))[:, 0]
        farthest = beyond.abs().amax(1, keepdim=True)
        at_most_one = LONGEST / farthest.clamp_min(LONGEST)
        return g - beyond.mul(at_most_one)


class _Products:
    """Weighted inner products of m changes of f, m changes of z, and f itself.

    Each row has a matrix of 2 m + 1 rows and columns, in this order. The work on them is done on a
    CPU.

    length   of f
    change   total variation between z and G(z)
    growth   the most by which a logarithm rises
    scale    the lengths of the changes of f

    In these, each change (of f or of z) is divided by the length of its change of f:

    of_f     products of the changes of f, with RIDGE added to the diagonal
    of_z     products of the changes of z
    with_f   products of the changes of f with f
    """

    def __init__(
        self, products: Float[Tensor, "rows w w"], change: list[float], growth: list[float]
    ) -> None:
        self.change = change
        self.growth = growth
        self.length: list[float] = products[:, -1, -1].sqrt().tolist()
        width = products.shape[1]
        m = width // 2
        # One row with NaN would make torch's factorisations fail for all: it gets the identity.
        finite = products.isfinite().all(2).all(1)
        identity = torch.eye(width, dtype=products.dtype)
        products = torch.where(finite[:, None, None], products, identity)
        self.scale = products.diagonal(dim1=1, dim2=2)[:, :m].sqrt().clamp_min(SHORTEST)
        scales = self.scale[:, :, None] * self.scale[:, None, :]
        ridge = RIDGE * torch.eye(m, dtype=products.dtype)
        self.of_f = products[:, :m, :m] / scales + ridge
        self.of_z = products[:, m:-1, m:-1] / scales
        self.with_f = products[:, :m, -1] / self.scale

    def combination(self) -> Float[Tensor, "rows slots"]:
        """The weights of past changes whose changes of f best cancel f."""
        return torch.linalg.solve(self.of_f, self.with_f) / self.scale

    def slowness(self) -> list[float]:
        """The largest |dz c| / |df c| over combinations c of the memory, per row; infinite where
        a z moved and its f did not.

        With of_f = L L^T its square is the largest eigenvalue of L^-1 of_z L^-T.
        """
        lower = torch.linalg.cholesky(self.of_f)
        half = torch.linalg.solve_triangular(lower, self.of_z, upper=False)
        ratio = torch.linalg.solve_triangular(lower, half.mT, upper=False)
        finite = ratio.isfinite().all(2).all(1)
        ratio = torch.where(finite[:, None, None], ratio, 0.0)
        symmetric = (ratio + ratio.mT) / 2
        largest = torch.linalg.eigvalsh(symmetric)[:, -1].clamp_min(0).sqrt()
        slowness: list[float] = torch.where(finite, largest, torch.inf).tolist()
        return slowness
