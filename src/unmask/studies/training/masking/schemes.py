"""Our masking schemes: K is drawn position by position, at a rate, or has a given number.

    fixed:R        each position with probability R, independently
                       |K| ~ Binomial(n, R)
    uniform:A-B    a rate ~ U(A, B) for the segment, then as fixed
                       |K| ~ integral over r from A to B of Binomial(n, r) dr / (B - A)
    k:N            exactly N positions, every subset equally likely (all of them if the segment
                   has fewer): L_k of k-MPLE
                       |K| = min(N, n)

n is the number of maskable positions of the segment.
"""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING, Annotated, TypeVar

from annotated_types import Interval

from unmask.common.checks import MOST_TOKENS, shown
from unmask.common.errors import InputError
from unmask.common.methods.method import method
from unmask.studies.training.masking.scheme import MaskingScheme

if TYPE_CHECKING:
    from jaxtyping import Bool
    from torch import Generator, Tensor

    from unmask.studies.training.packed_text import PackedText

Scheme = TypeVar("Scheme", bound=MaskingScheme)
Rate = Annotated[float, Interval(ge=0, le=1)]


@method
class FixedRate(MaskingScheme):
    """Each position with probability R, independently (fixed:R).

    Parameters:
        rate: R.

    >>> unmask.FixedRate(rate=0.15).spelling
    'fixed:0.15'
    """

    name = "fixed"
    place = 1
    rate: Annotated[float, Interval(gt=0, le=1)] = 0.15

    @classmethod
    def spelled(cls, text: str) -> FixedRate | None:
        """The scheme of fixed:R."""
        if not text.startswith("fixed:"):
            return None
        return _of_spelling(cls, text, rate=_number(text, text.removeprefix("fixed:")))

    @property
    def spelling(self) -> str:
        """fixed:R."""
        return f"fixed:{_written(self.rate)}"

    def draw(self, text: PackedText, generator: Generator) -> Bool[Tensor, "R L"]:
        """An independent choice for every position."""
        return (text.noise(generator) < self.rate) & text.maskable

    def number_law(self, n: int) -> list[float]:
        """Binomial(n, R)."""
        return _binomial(n, self.rate)

    def moments(self, tokens_per_segment: float) -> tuple[float, float]:
        """The rate is R in every segment."""
        return self.rate, 0.0


@method
class UniformRate(MaskingScheme):
    """Each position with the segment's own probability, which is uniform from A to B
    (uniform:A-B).

    Parameters:
        low: A.
        high: B.

    >>> unmask.UniformRate(low=0.0, high=1.0).spelling
    'uniform:0-1'
    """

    name = "uniform"
    place = 2
    low: Rate = 0.05
    high: Annotated[float, Interval(gt=0, le=1)] = 0.45

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise InputError(
                f"{self.low:g} is more than the highest rate, {self.high:g}",
                argument="low",
                use="give the lower rate first",
            )

    @classmethod
    def spelled(cls, text: str) -> UniformRate | None:
        """The scheme of uniform:A-B."""
        if not text.startswith("uniform:"):
            return None
        low, dash, high = text.removeprefix("uniform:").partition("-")
        if not dash:
            raise unknown_scheme(text)
        return _of_spelling(cls, text, low=_number(text, low), high=_number(text, high))

    @property
    def spelling(self) -> str:
        """uniform:A-B."""
        return f"uniform:{_written(self.low)}-{_written(self.high)}"

    def draw(self, text: PackedText, generator: Generator) -> Bool[Tensor, "R L"]:
        """A rate for every segment, which its first token draws, and then a choice for every
        position.
        """
        of_segment = text.noise(generator).gather(1, text.start)
        rate = self.low + (self.high - self.low) * of_segment
        return (text.noise(generator) < rate) & text.maskable

    def number_law(self, n: int) -> list[float]:
        """The mean of Binomial(n, r) over the rates r.

        Its probabilities are polynomials in r of degree n, so that Gauss's rule is exact from
        n / 2 + 1 rates on.
        """
        from numpy.polynomial.legendre import leggauss

        nodes, weights = leggauss(n // 2 + 1)  # on [-1, 1], where the weights sum to 2
        law = [0.0] * (n + 1)
        for node, weight in zip(nodes.tolist(), weights.tolist(), strict=True):
            rate = self.low + (self.high - self.low) * (node + 1) / 2
            for k, probability in enumerate(_binomial(n, rate)):
                law[k] += weight / 2 * probability
        return law

    def moments(self, tokens_per_segment: float) -> tuple[float, float]:
        """Those of U(A, B)."""
        return (self.low + self.high) / 2, (self.high - self.low) ** 2 / 12


@method
class ExactlyK(MaskingScheme):
    """Exactly N positions of each segment, every subset equally likely; all of them if the
    segment has fewer (k:N).

    Parameters:
        k: N.

    >>> unmask.ExactlyK(k=3).spelling
    'k:3'
    """

    name = "k"
    place = 3
    k: Annotated[int, Interval(ge=1, le=MOST_TOKENS)] = 1

    @classmethod
    def spelled(cls, text: str) -> ExactlyK | None:
        """The scheme of k:N."""
        if not text.startswith("k:"):
            return None
        number = _number(text, text.removeprefix("k:"))
        if not number.is_integer():  # also infinity
            raise unknown_scheme(text)
        return _of_spelling(cls, text, k=int(number))

    @property
    def spelling(self) -> str:
        """k:N."""
        return f"k:{self.k}"

    def draw(self, text: PackedText, generator: Generator) -> Bool[Tensor, "R L"]:
        """The N maskable positions of each segment with the lowest of independent numbers."""
        lower_ones = text.rank(text.noise(generator), text.maskable)
        return (lower_ones < self.k) & text.maskable

    def number_law(self, n: int) -> list[float]:
        """All of it at min(N, n)."""
        law = [0.0] * (n + 1)
        law[min(self.k, n)] = 1.0
        return law

    def moments(self, tokens_per_segment: float) -> tuple[float, float]:
        """Of segments whose lengths vary, generously: the share is N of the mean length."""
        mean = min(self.k / tokens_per_segment, self.k / (self.k + 2))
        return mean, mean**2


def unknown_scheme(text: str) -> InputError:
    """The error of a text that spells no scheme."""
    return InputError(
        f"{shown(text)} is unknown",
        argument="masking",
        use="give fixed:RATE, uniform:LOW-HIGH or k:NUMBER, rates up to 1, or a scheme of your own"
        " such as my.py:Scheme",
    )


def _of_spelling(cls: type[Scheme], text: str, **options: float) -> Scheme:
    """The scheme with the options that a text spells; an error names the text."""
    try:
        return cls(**options)
    except InputError:  # a number out of range
        raise unknown_scheme(text) from None


def _number(text: str, part: str) -> float:
    """The number in a part of a spelling."""
    try:
        return float(part)
    except ValueError:
        raise unknown_scheme(text) from None


def _written(number: float) -> str:
    """A number as one types it: 1, 0.05."""
    return f"{number:.15g}"


def _binomial(n: int, rate: float) -> list[float]:
    """Binomial(n, rate)."""
    return [comb(n, k) * rate**k * (1 - rate) ** (n - k) for k in range(n + 1)]
