"""Anderson's acceleration of fixed-point maps, with a safeguard and an estimate of the distance still to go.

For g = G(z) and f = g - z, the next point is g minus the combination of the last changes of g whose changes of f best
cancel f (least squares, weighted by the square root of the probabilities), by at most LONGEST in any coordinate. Where f
then grows out of bounds, the memory is dropped and the plain step from the last good point is taken instead.

A short f does not mean that z is near: along a slow direction an error e shows as f = (1 - lambda) e. The same memory
shows how slow: the largest ratio |dz| / |df| over its span is an estimate of 1 / (1 - lambda), and that times the total
variation of f is the estimated error on which the iteration stops. A slow direction in which little was moved so far
shows when the others have converged, for then f consists of it: the estimate must hold at several reads in a row.

Total variation does not see coordinates with next to no mass. So an iteration also goes on while the map raises some coordinate
of its logarithms by `grows` or more, however little mass it has.

Several iterations, of maps of one size, run side by side, a row each: they share every operation and one transfer from the
device per read, and no row's numbers depend on which others there are. A slot of the memory that a row has not filled is a
column of zeros, which the least squares leave out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

MEMORY = 12
RIDGE = 1e-10
"""Added to the diagonal of the normal equations of unit columns."""
LONGEST = 3.0
"""In nats: how far beyond the plain step a step may go. Two tokens that hardly ever meet others need several such."""
GROWTH = 100.0
"""A step is taken back where f grows by more than this: along a slow direction it may well grow before it shrinks."""
FORGET = 0.9
"""A slow direction that the memory no longer shows is multiplied by this at each read."""
SLOWEST_AT_LEAST = 10.0
"""Lower bound of the estimated 1 / (1 - lambda), for when the memory has not yet met the slow directions."""
ROUNDING = 1e-12
"""A change below this is rounding, from which nothing can be learnt about slow directions."""
IN_A_ROW = 3
"""Reads at which the estimated error must be under the tolerance."""


@dataclass(frozen=True)
class FixedPoint:
    """Where an iteration ended. change: total variation of the last plain step; error: of what is estimated to be left."""

    log_p: Tensor
    reads: int
    change: float
    error: float
    converged: bool
    restarts: int


@dataclass
class _Progress:
    """How far one row is."""

    shortest: float = torch.inf
    change: float = torch.inf
    error: float = torch.inf
    slowness: float = SLOWEST_AT_LEAST
    reads: int = 0
    held: int = 0
    restarts: int = 0


class Acceleration:
    """Iterations side by side: apply the map to the rows of `z` and `receive` the result, while some are `running`.

    A row that has ended leaves `z`; `running` lists those that are left, by their number at the start.
    """

    def __init__(self, log_p: Float[Tensor, "rows n"], tolerance: float, max_reads: int, grows: float = torch.inf) -> None:
        self.z = self.best = log_p
        self.tolerance, self.max_reads, self.grows = tolerance, max_reads, grows
        self.memory = _Memory(MEMORY, log_p)
        self.progress = [_Progress() for _ in log_p]
        self.ends: list[FixedPoint | None] = [None] * len(log_p)
        self.running = list(range(len(log_p)))
        self._end([row for row in self.running if max_reads < 1])

    def receive(self, g: Float[Tensor, "rows n"]) -> None:
        """Take G(z) of the running rows and choose their next points."""
        self.memory.add(self.z, g)
        found = self.memory.read()
        slowness = found.slowness()
        taken_back, ended = [], []
        for place, row in enumerate(self.running):
            p = self.progress[row]
            p.reads += 1
            if not found.length[place] <= GROWTH * p.shortest:
                p.restarts += 1
                p.shortest, p.held = torch.inf, 0
                taken_back.append(place)
            else:
                p.shortest, p.change = found.length[place], found.change[place]
                met = slowness[place] if p.change > ROUNDING else 0.0
                p.slowness = max(SLOWEST_AT_LEAST, FORGET * p.slowness, met)
                p.error = p.slowness * p.change
                p.held = p.held + 1 if p.error < self.tolerance and found.growth[place] < self.grows else 0
            if p.reads >= self.max_reads or p.held >= IN_A_ROW:
                ended.append(place)
        after = self.memory.extrapolated(found.combination())
        if taken_back:
            back = torch.tensor(taken_back, device=g.device)
            after, g = after.index_copy(0, back, self.best[back]), g.index_copy(0, back, self.best[back])
            self.memory.clear(back)
        self.z, self.best = after, g
        if ended:
            self._end(ended)

    def _end(self, places: Sequence[int]) -> None:
        """Rows that leave."""
        for place in places:
            p, row = self.progress[self.running[place]], self.running[place]
            self.ends[row] = FixedPoint(self.best[place].clone(), p.reads, p.change, p.error, p.held == IN_A_ROW, p.restarts)
        gone = set(places)
        left = [place for place in range(len(self.running)) if place not in gone]
        keep = torch.tensor(left, dtype=torch.long, device=self.z.device)
        self.running = [self.running[place] for place in left]
        self.z, self.best = self.z[keep], self.best[keep]
        self.memory.keep(keep)

    def end(self) -> list[FixedPoint]:
        """Where every row ended."""
        return [end for end in self.ends if end is not None]


class _Memory:
    """The last changes of the points z and of their f = g - z; those of slots that are not filled are zero."""

    def __init__(self, size: int, like: Float[Tensor, "rows n"]) -> None:
        self.size = size
        self.dz, self.df = (like.new_zeros((len(like), 0, like.shape[1])) for _ in range(2))
        self.z = self.f = like
        self.fresh = torch.ones(len(like), dtype=torch.bool, device=like.device)

    def clear(self, rows: Tensor) -> None:
        self.dz[rows], self.df[rows] = 0.0, 0.0
        self.fresh[rows] = True

    def keep(self, rows: Tensor) -> None:
        self.dz, self.df, self.z, self.f, self.fresh = (x[rows] for x in (self.dz, self.df, self.z, self.f, self.fresh))

    def add(self, z: Tensor, g: Tensor) -> None:
        f = g - z
        changes = [torch.where(self.fresh[:, None], 0.0, new - old) for new, old in ((z, self.z), (f, self.f))]
        self.dz, self.df = (
            torch.cat([old[:, -self.size + 1 :], new[:, None]], 1) for old, new in zip((self.dz, self.df), changes, strict=True)
        )
        self.z, self.f, self.g = z, f, g
        self.fresh = torch.zeros_like(self.fresh)

    def read(self) -> _Found:
        """All that the decisions take, from the device in one transfer."""
        change, growth = 0.5 * (self.g.exp() - self.z.exp()).abs().sum(1), self.f.amax(1)
        columns = torch.cat([self.df, self.dz, self.f[:, None]], 1) * (0.5 * self.g).exp()[:, None]
        width = columns.shape[1]
        numbers = torch.cat([(columns @ columns.mT).flatten(1), change[:, None], growth[:, None]], 1).cpu()
        return _Found(numbers[:, :-2].reshape(-1, width, width), numbers[:, -2].tolist(), numbers[:, -1].tolist())

    def extrapolated(self, combination: Float[Tensor, "rows slots"]) -> Tensor:
        """g less the combination of past changes of g, shortened to LONGEST."""
        beyond = (combination.to(self.g.device)[:, None] @ (self.dz + self.df))[:, 0]
        return self.g - beyond.mul(LONGEST / beyond.abs().amax(1, keepdim=True).clamp_min(LONGEST))


class _Found:
    """Inner products, weighted, of the changes of f, of the changes of z (over the same lengths), and of f itself."""

    def __init__(self, products: Float[Tensor, "rows w w"], change: list[float], growth: list[float]) -> None:
        m = products.shape[1] // 2
        self.change, self.growth, self.length = change, growth, products[:, -1, -1].sqrt().tolist()
        sound = products.isfinite().all(2).all(1)
        products = torch.where(sound[:, None, None], products, torch.eye(2 * m + 1, dtype=products.dtype))
        self.scale = products.diagonal(dim1=1, dim2=2)[:, :m].sqrt().clamp_min(1e-150)
        both = self.scale[:, :, None] * self.scale[:, None, :]
        self.of_f = products[:, :m, :m] / both + RIDGE * torch.eye(m, dtype=products.dtype)
        self.of_z = products[:, m:-1, m:-1] / both
        self.with_f = products[:, :m, -1] / self.scale

    def combination(self) -> Float[Tensor, "rows slots"]:
        """The weights of past changes whose changes of f best cancel f."""
        return torch.linalg.solve(self.of_f, self.with_f) / self.scale

    def slowness(self) -> list[float]:
        """The largest |dz c| / |df c| over combinations c of the memory; infinite where a z moved and its f did not."""
        lower = torch.linalg.cholesky(self.of_f)
        inner = torch.linalg.solve_triangular(lower, self.of_z, upper=False)
        ratio = torch.linalg.solve_triangular(lower, inner.mT, upper=False)
        finite = ratio.isfinite().all(2).all(1)
        ratio = torch.where(finite[:, None, None], ratio, 0.0)
        largest = torch.linalg.eigvalsh((ratio + ratio.mT) / 2)[:, -1].clamp_min(0).sqrt()
        found: list[float] = torch.where(finite, largest, torch.inf).tolist()
        return found
