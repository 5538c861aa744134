"""Anderson's acceleration of a fixed-point map, with a safeguard and an estimate of the distance still to go.

For g = G(z) and f = g - z, the next point is g minus the combination of the last changes of g whose changes of f best
cancel f (least squares, weighted by the square root of the probabilities), by at most LONGEST in any coordinate. Where f
then grows out of bounds, the memory is dropped and the plain step from the last good point is taken instead.

A short f does not mean that z is near: along a slow direction an error e shows as f = (1 - lambda) e. The same memory
tells how slow: the largest ratio |dz| / |df| over its span is an estimate of 1 / (1 - lambda), and that times the total
variation of f is the estimated error on which the iteration stops. A slow direction in which little was moved so far
shows when the others have converged, for then f consists of it: the estimate must hold at several reads in a row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

MEMORY = 12
RIDGE = 1e-10
"""Added to the diagonal of the normal equations of unit columns."""
LONGEST = 3.0
"""In nats: how far beyond the plain step a step may go. Two tokens that hardly ever meet others need several such."""
GROWTH = 100.0
"""A step is taken back where f grows by more than this: along a slow direction it may well grow before it shrinks."""
FORGET = 0.9
"""A slow direction that the memory no longer shows counts so much less at each read."""
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


class Acceleration:
    """One iteration, point by point: apply the map to `z` and `receive` the result, while it is `running`."""

    def __init__(self, log_p: Tensor, tolerance: float, max_reads: int, accelerated: bool = True) -> None:
        self.z = self.best = log_p
        self.tolerance, self.max_reads, self.accelerated = tolerance, max_reads, accelerated
        self.memory = _Memory(MEMORY if accelerated else 2)
        self.shortest = self.change = self.error = torch.inf
        self.slowness = SLOWEST_AT_LEAST
        self.reads = self.held = self.restarts = 0

    @property
    def running(self) -> bool:
        return self.reads < self.max_reads and self.held < IN_A_ROW

    def receive(self, g: Tensor) -> None:
        """Take G(z) and choose the next point."""
        self.reads += 1
        self.memory.add(self.z, g)
        found = self.memory.read()
        if not found.length <= GROWTH * self.shortest:
            self.memory.clear()
            self.restarts += 1
            self.z, self.shortest, self.held = self.best, torch.inf, 0
            return
        self.best, self.shortest, self.change = g, found.length, found.change
        met = found.slowness() if found.change > ROUNDING else 0.0
        self.slowness = max(SLOWEST_AT_LEAST, FORGET * self.slowness, met)
        self.error = self.slowness * self.change
        self.held = self.held + 1 if self.error < self.tolerance else 0
        if self.running:
            self.z = self.memory.extrapolated(found.combination()) if self.accelerated else g

    def end(self) -> FixedPoint:
        """Where it is now."""
        return FixedPoint(self.best, self.reads, self.change, self.error, self.held == IN_A_ROW, self.restarts)


def accelerate(
    step: Callable[[Tensor], Tensor], log_p: Tensor, tolerance: float, max_reads: int, accelerated: bool = True
) -> FixedPoint:
    """Iterate `step`, a map of a vector of log-probabilities to another, until the estimated error is under `tolerance`."""
    iteration = Acceleration(log_p, tolerance, max_reads, accelerated)
    while iteration.running:
        iteration.receive(step(iteration.z))
    return iteration.end()


class _Memory:
    """The last points z and their f = g - z."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.clear()

    def clear(self) -> None:
        self.points: list[Tensor] = []
        self.residuals: list[Tensor] = []

    def add(self, z: Tensor, g: Tensor) -> None:
        self.points = [*self.points, z][-self.size - 1 :]
        self.residuals = [*self.residuals, g - z][-self.size - 1 :]

    def read(self) -> _Found:
        """All that the decisions take, from the device in one transfer."""
        z, f = self.points[-1], self.residuals[-1]
        g = z + f
        change = 0.5 * (g.exp() - z.exp()).abs().sum()
        self.dz, self.df = (torch.stack(vectors, 1).diff(dim=1) for vectors in (self.points, self.residuals))
        columns = torch.cat([self.df, self.dz, f[:, None]], 1) * (0.5 * g).exp()[:, None]
        numbers = torch.cat([(columns.T @ columns).flatten(), change[None]]).cpu()
        width = columns.shape[1]
        return _Found(numbers[:-1].reshape(width, width), float(numbers[-1]))

    def extrapolated(self, combination: Tensor) -> Tensor:
        """g less the combination of past changes of g, shortened to LONGEST."""
        g = self.points[-1] + self.residuals[-1]
        if not len(combination):
            return g
        beyond = (self.dz + self.df) @ combination.to(g.device)
        return g - beyond.mul(LONGEST / beyond.abs().amax().clamp_min(LONGEST))


class _Found:
    """Inner products, weighted, of the changes of f, of the changes of z (over the same lengths), and of f itself."""

    def __init__(self, products: Tensor, change: float) -> None:
        m = len(products) // 2
        self.change, self.length = change, float(products[-1, -1]) ** 0.5
        self.scale = products.diagonal()[:m].sqrt().clamp_min(1e-150)
        both = self.scale[:, None] * self.scale
        self.of_f = products[:m, :m] / both + RIDGE * torch.eye(m, dtype=products.dtype)
        self.of_z = products[m:-1, m:-1] / both
        self.with_f = products[:m, -1] / self.scale

    def combination(self) -> Tensor:
        """The weights of past changes whose changes of f best cancel f."""
        return torch.linalg.solve(self.of_f, self.with_f) / self.scale

    def slowness(self) -> float:
        """The largest |dz c| / |df c| over combinations c of the memory."""
        if not len(self.scale):
            return 0.0
        lower = torch.linalg.cholesky(self.of_f)
        inner = torch.linalg.solve_triangular(lower, self.of_z, upper=False)
        ratio = torch.linalg.solve_triangular(lower, inner.T, upper=False)
        return float(torch.linalg.eigvalsh((ratio + ratio.T) / 2)[-1].clamp_min(0).sqrt())
