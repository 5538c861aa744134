"""The state of one iteration towards the fixed point of a map z -> G(z) of log-probabilities: which
steps it accepts, how far it estimates the fixed point to be, and when it has converged.

Let f = G(z) - z. A step is judged by four numbers (`Step`), and is either accepted or taken back.

**Taken back.** A step is taken back where f is more than LONGER_AT_MOST times as long as at the
last accepted step, or NaN. The iteration then goes on from the last accepted point, by a plain step
and without memory. The step after it is compared with none, so it is accepted unless f is NaN.

**Accepted.** The error is estimated as slowness * change (`unmask.joints.slowness`). Which of three
things follows depends on the error and on the growth:

    1  the error is not below the tolerance     the iteration goes on
    2  it is, but some coordinate still grows   the iteration goes on, for small coordinates
    3  it is, and none grows                    one more step of this kind in a row

Kind 2 is there because total variation does not see coordinates with next to no mass: an iteration
goes on while the map raises some logarithm by the growth limit or more. When only this is left to
do, f is nothing but rounding at the coordinates with mass. Least squares that cancel this rounding
would move small coordinates at random. So from the first such step on `small_counts` is set: the
least squares give small coordinates more weight.

**Converged.** An iteration has converged after IN_A_ROW steps of kind 3 in a row. One would not do:
the steps so far may hardly have moved along a slow direction, which is then missing from the
slowness. It shows when the other directions have converged, because f is then along it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from torch import Tensor

from unmask.joints.slowness import SLOWEST_AT_LEAST, updated_slowness

LONGER_AT_MOST = 100.0
"""A step is taken back where f becomes longer by more than this factor. Along a slow direction f
may well become longer before it becomes shorter.
"""
IN_A_ROW = 3  # Steps at which the estimated error must be below the tolerance
NOTHING_TO_COMPARE = inf  # In place of the last length of f: none is longer


@dataclass(frozen=True)
class Step:
    """What is measured of one step.

    length     of f
    change     total variation between z and G(z)
    growth     the most by which G raises a coordinate, in nats
    slowness   as the changes so far show it
    """

    length: float
    change: float
    growth: float
    slowness: float


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
    last_length   length of f at the last accepted step, or NOTHING_TO_COMPARE
    slowness      estimate of 1 / (1 - lambda) of the slowest direction
    """

    log_p: Tensor
    steps: int = 0
    change: float = inf
    error: float = inf
    steps_below: int = 0
    small_counts: bool = False
    restarts: int = 0
    reads: float = 0
    last_length: float = NOTHING_TO_COMPARE
    slowness: float = SLOWEST_AT_LEAST

    @property
    def converged(self) -> bool:
        """Whether the last IN_A_ROW steps had an error below the tolerance and no growth."""
        return self.steps_below >= IN_A_ROW

    def accepts(self, step: Step) -> bool:
        """Whether a step is accepted. One with NaN is not, because NaN is not below anything."""
        return step.length <= LONGER_AT_MOST * self.last_length

    def accept(self, step: Step, tolerance: float, growth_limit: float) -> None:
        """Record a step that is accepted.

        tolerance     of the error
        growth_limit  the growth from which on the iteration goes on
        """
        self.steps += 1
        self.last_length = step.length
        self.change = step.change
        self.slowness = updated_slowness(self.slowness, shown=step.slowness, change=step.change)
        self.error = self.slowness * self.change

        is_near = self.error < tolerance
        grows = step.growth >= growth_limit
        if not is_near:
            self.steps_below = 0
        elif grows:
            self.steps_below = 0
            self._count_small_coordinates()
        else:
            self.steps_below += 1

    def _count_small_coordinates(self) -> None:
        """Let small coordinates count in the least squares from now on."""
        if not self.small_counts:
            self.small_counts = True
            self.last_length = NOTHING_TO_COMPARE  # lengths have other weights from now on

    def take_back(self) -> None:
        """Record a step that is taken back."""
        self.steps += 1
        self.restarts += 1
        self.last_length = NOTHING_TO_COMPARE
        self.steps_below = 0
