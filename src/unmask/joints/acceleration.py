"""Iterations towards fixed points side by side, one per row of a matrix: the steps are Anderson's
(`unmask.joints.anderson`), and each row is guarded and ended by its own state
(`unmask.joints.fixed_point`).

The rows share every operation, and no row's numbers depend on the others. In one step

    1  the changes of z and f = G(z) - z are remembered,
    2  the step of each row is measured, with one transfer from the device for all rows,
    3  the state of each row accepts the step or takes it back,
    4  the next point is Anderson's, or G of the last accepted point where the step is taken back,
    5  the rows that have converged, or may not read more, leave.

A row's `number` is its place in the matrix at the start, its `place` is that in the matrix now.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, log

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.joints.anderson import Changes, Products
from unmask.joints.fixed_point import FixedPoint, Step
from unmask.joints.slowness import slowness_shown
from unmask.models.batching import on_device

SMALL = 1e-6
"""The least weight of a coordinate in the least squares of a row in which small coordinates count.
Between 1e-8 and 1e-4 it makes no difference of more than a few steps.
"""


class Acceleration:
    """Iterations side by side. While some are `running`, apply the map to the rows of `z` and
    `receive` the result.

    z         the points to which the map is to be applied, one per running row
    running   numbers of the rows that have not ended, by their places in `z`
    ends      the states of all rows by their numbers: the results of those that have ended

    A row ends at G of its last accepted point. With `ends_before` it ends instead at the point that
    the map was last applied to, accepted or not: its growth has been measured, that of G of it has
    not.
    """

    def __init__(
        self,
        log_p: Float[Tensor, "rows n"],
        tolerance: float,
        max_reads: int,
        growth_limit: float = inf,
        ends_before: bool = False,
    ) -> None:
        self.tolerance = tolerance
        self.max_reads = max_reads
        self.growth_limit = growth_limit
        self.ends_before = ends_before
        self.z: Tensor = log_p
        self.accepted_g: Tensor = log_p  # G of the last accepted point; before any, the start
        self.changes: Changes = Changes(log_p)
        self.ends: list[FixedPoint] = [FixedPoint(row) for row in log_p]
        self.running: list[int] = list(range(len(log_p)))
        if max_reads < 1:
            every_place = range(len(log_p))
            self._end(every_place, points=log_p)

    def receive(self, g: Float[Tensor, "rows n"]) -> None:
        """Take G(z) of the running rows and choose their next points."""
        self.changes.add(self.z, g)
        steps, least_squares = self._measured(g)
        taken_back = self._judged(steps)
        next_z = self.changes.next_point(g, least_squares.combination())
        accepted_g = g
        if taken_back:
            back = on_device(taken_back, g.device)
            again_from = self.accepted_g[back]
            next_z = next_z.index_copy(0, back, again_from)
            accepted_g = accepted_g.index_copy(0, back, again_from)
            self.changes.clear(back)

        if self.ends_before:
            points = self.z
        else:
            points = accepted_g
        self.z = next_z
        self.accepted_g = accepted_g
        ended = self._ended()
        if ended:
            self._end(ended, points)

    def _measured(self, g: Float[Tensor, "rows n"]) -> tuple[list[Step], Products]:
        """The step of each running row, and the products of the least squares.

        The slowness always has the weights of the probabilities. The least squares, and the length
        of f, have these weights or, in rows in which small coordinates count, larger ones.
        """
        change = 0.5 * (g.exp() - self.z.exp()).abs().sum(dim=1, keepdim=True)
        growth = self.changes.f.amax(dim=1, keepdim=True)
        inner = self.changes.inner_products(log_weight=g)
        inner, change, growth = _on_cpu(inner, change, growth)
        by_probability = Products.of(inner)
        slowness = slowness_shown(by_probability)

        least_squares = by_probability
        if any(end.small_counts for end in self._running_ends()):
            inner = self.changes.inner_products(log_weight=self._with_small_counted(g))
            least_squares = Products.of(inner.cpu())

        numbers = zip(
            least_squares.length_of_f,
            change[:, 0].tolist(),
            growth[:, 0].tolist(),
            slowness,
            strict=True,
        )
        steps = [
            Step(length=length, change=moved, growth=raised, slowness=slow)
            for length, moved, raised, slow in numbers
        ]
        return steps, least_squares

    def _with_small_counted(self, g: Float[Tensor, "rows n"]) -> Float[Tensor, "rows n"]:
        """The log weights of the least squares: at least log SMALL in the rows in which small
        coordinates count.
        """
        lowest = []  # one column
        for end in self._running_ends():
            if end.small_counts:
                lowest.append([log(SMALL)])
            else:
                lowest.append([-inf])
        return g.clamp_min(on_device(lowest, g.device, g.dtype))

    def _judged(self, steps: Sequence[Step]) -> list[int]:
        """Let the states of the running rows record their steps; places of those taken back."""
        taken_back = []
        for place, (end, step) in enumerate(zip(self._running_ends(), steps, strict=True)):
            if end.accepts(step):
                end.accept(step, self.tolerance, self.growth_limit)
            else:
                end.take_back()
                taken_back.append(place)
        return taken_back

    def _running_ends(self) -> list[FixedPoint]:
        """The states of the running rows, by place."""
        return [self.ends[number] for number in self.running]

    def _ended(self) -> list[int]:
        """Places of the rows that have converged or may not read more."""
        return [
            place
            for place, end in enumerate(self._running_ends())
            if end.converged or end.steps >= self.max_reads
        ]

    def _end(self, places: Sequence[int], points: Float[Tensor, "rows n"]) -> None:
        """End the rows at these places, each at its point, and go on with the others."""
        for place in places:
            end = self.ends[self.running[place]]
            end.log_p = points[place].clone()
            end.reads = float(end.steps)  # each step has read the tables once
        gone = set(places)
        remaining = [place for place in range(len(self.running)) if place not in gone]
        self.running = [self.running[place] for place in remaining]
        kept = on_device(remaining, self.z.device, torch.long)
        self.z = self.z[kept]
        self.accepted_g = self.accepted_g[kept]
        self.changes.keep(kept)


def _on_cpu(*tensors: Tensor) -> list[Tensor]:
    """The tensors on the CPU, by one transfer for all. Each has the same rows."""
    flat = [tensor.flatten(1) for tensor in tensors]
    widths = [tensor.shape[1] for tensor in flat]
    parts = torch.cat(flat, dim=1).cpu().split(widths, dim=1)
    return [part.reshape(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]
