"""How far a computed log-probability of a filling may be from the exact one."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import torch

ERROR_OF_PASS = {
    torch.float64: 2.0**-42,
    torch.float32: 2.0**-13,
    torch.float16: 2.0**-6,
    torch.bfloat16: 2.0**-3,
}
"""d, in nats, by the format in which the network computes."""


@dataclass(frozen=True)
class Rounding:
    """Bounds on the error of a computed log-probability, and ends of an interval that holds the
    exact one.

    A conditional is a pass of the network and a log-softmax. With d the error of a pass in nats
    and u that of the number kept,

        | log q^ - log q |  <=  d + u |log q|
                for every conditional q of the model, q^ as computed.

    An order o of k blanks multiplies k of them, so p_o lies between e^(-kd) p^_o^(1+u) and
    e^(kd) p^_o^(1-u). p is the mean of p_o over the orders, or comes from products by means and
    maxima (the bound on other fillings). x -> x^(1+u) is convex and x -> x^(1-u) concave, both
    rise, and maxima pass through them, so Jensen's inequality gives the same for the result:

        (1 + u) log p^ - k d   <=   log p   <=   (1 - u) log p^ + k d.

    Sums over fillings are sums of these ends. The order of two fillings is certain if their
    intervals do not meet; the mass that is left is 1 minus the sum of lower ends, and is 0 only
    if nothing is left. Double precision, in which p is formed from the q, adds less than 1e-14
    and is far below d.

    No theorem gives d. Passes of one text in batches of other sizes differ by at most 4e-5 nats
    in the bundled model and 3e-5 in another, in float32; d is three times as much or more, and
    in other formats as much more as their digits are fewer.

    factor     d of each of the factors
    relative   u
    """

    factor: float
    relative: float

    @classmethod
    def of(cls, dtype: torch.dtype) -> Rounding:
        """The rounding of a model that computes in this format; its log-probabilities are kept in
        float32 or finer.
        """
        kept = torch.promote_types(dtype, torch.float32)
        return cls(
            factor=ERROR_OF_PASS.get(dtype, ERROR_OF_PASS[torch.bfloat16]),
            relative=torch.finfo(kept).eps,
        )

    def low(self, log_prob: float, factors: int) -> float:
        """A lower bound of the exact logarithm of a product of this many factors."""
        return log_prob - self._error(log_prob, factors)

    def high(self, log_prob: float, factors: int) -> float:
        """An upper bound of it, never above 0."""
        return min(0.0, log_prob + self._error(log_prob, factors))

    def _error(self, log_prob: float, factors: int) -> float:
        if log_prob == -inf:  # of a product that is 0 as computed; a relative error would be NaN
            return 0.0
        return self.relative * abs(log_prob) + factors * self.factor
