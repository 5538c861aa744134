"""Masking schemes: the law of the set K of positions that a model must predict, drawn again for every segment.

    fixed:R        each position with probability R, independently
    uniform:A-B    a rate ~ U(A, B) for the segment, then as fixed
    k:N            exactly N positions, every subset equally likely (all of them if the segment has fewer): L_k of k-MPLE
    span:R         runs of tokens: a span starts at each position with probability s, its length is geometric with the
                   given mean, cut at `longest`; K is the union. s is such that a position with `longest` - 1 others
                   before it in its segment is masked with probability R
    words:R        each whole word, all of its pieces together, with probability R, independently
    W*A+W*B        a mixture: the segment follows scheme A or B with probabilities proportional to W

Special tokens are never masked. `Replacement` decides what a masked position shows: by default always the
mask token, so that the conditionals a model learns are those of the text and not of a corrupted text.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, isfinite, sqrt
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

from unmask.checks import numbers
from unmask.errors import InputError
from unmask.training.packing import PackedText, Vocabulary


class Moments(NamedTuple):
    """Mean share of masked tokens, variance of a segment's rate, and number of tokens that are masked together."""

    mean: float
    rate_variance: float = 0.0
    clump: float = 1.0


def noise(text: PackedText, generator: Generator) -> Float[Tensor, "R L"]:
    """Independent U(0, 1), one per token."""
    return torch.rand(text.ids.shape, generator=generator, device=text.ids.device)


@dataclass(frozen=True)
class FixedRate:
    """Each position with probability `rate`."""

    rate: float = 0.15

    def draw(self, text: PackedText, generator: Generator) -> Bool[Tensor, "R L"]:
        return (noise(text, generator) < self.rate) & text.maskable

    def moments(self, tokens_per_segment: float) -> Moments:
        return Moments(self.rate)


@dataclass(frozen=True)
class UniformRate:
    """Each position with the segment's own probability, uniform in [low, high]."""

    low: float = 0.15
    high: float = 0.3

    def draw(self, text: PackedText, generator: Generator) -> Bool[Tensor, "R L"]:
        rate = self.low + (self.high - self.low) * noise(text, generator).gather(1, text.start)
        return (noise(text, generator) < rate) & text.maskable

    def moments(self, tokens_per_segment: float) -> Moments:
        return Moments((self.low + self.high) / 2, (self.high - self.low) ** 2 / 12)


@dataclass(frozen=True)
class ExactlyK:
    """Exactly `k` positions of each segment, or all if there are fewer."""

    k: int = 1

    def draw(self, text: PackedText, generator: Generator) -> Bool[Tensor, "R L"]:
        return (text.rank(noise(text, generator), text.maskable) < self.k) & text.maskable

    def moments(self, tokens_per_segment: float) -> Moments:
        mean = min(self.k / tokens_per_segment, self.k / (self.k + 2))
        return Moments(mean, mean**2)


@dataclass(frozen=True)
class Spans:
    """The union of spans with independent starts and geometric lengths."""

    rate: float = 0.15
    mean_length: float = 3.0
    longest: int = 10

    def draw(self, text: PackedText, generator: Generator) -> Bool[Tensor, "R L"]:
        starts = (noise(text, generator) < self.start_probability) & text.maskable
        length = 1 + (noise(text, generator).log() / torch.tensor(1 - 1 / self.mean_length).log()).floor()
        reach = torch.where(starts, length.clamp(max=self.longest), 0)
        covered = torch.zeros_like(text.maskable)
        for back in range(self.longest):
            begun = reach.roll(back, 1) > back
            begun &= text.segment.roll(back, 1) == text.segment
            begun[:, :back] = False
            covered |= begun
        return covered & text.maskable

    @property
    def start_probability(self) -> float:
        """s with 1 - prod_j (1 - s P(length > j)) = rate, by bisection."""
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            uncovered = 1.0
            for j in range(self.longest):
                uncovered *= 1 - middle * (1 - 1 / self.mean_length) ** j
            low, high = (middle, high) if 1 - uncovered < self.rate else (low, middle)
        return high

    def moments(self, tokens_per_segment: float) -> Moments:
        return Moments(self.rate, clump=2.0 * self.longest)


@dataclass(frozen=True)
class WholeWords:
    """Each word, all of its pieces together, with probability `rate`."""

    rate: float = 0.15

    def draw(self, text: PackedText, generator: Generator) -> Bool[Tensor, "R L"]:
        return (noise(text, generator).gather(1, text.word) < self.rate) & text.maskable

    def moments(self, tokens_per_segment: float) -> Moments:
        return Moments(self.rate, clump=8.0)


@dataclass(frozen=True)
class Mixture:
    """Each segment follows one of the schemes, with probabilities proportional to the weights."""

    weights: tuple[float, ...]
    schemes: tuple[MaskingScheme, ...]

    def draw(self, text: PackedText, generator: Generator) -> Bool[Tensor, "R L"]:
        choice = noise(text, generator).gather(1, text.start) * sum(self.weights)
        mask = torch.zeros_like(text.maskable)
        edge = 0.0
        for index, (weight, scheme) in enumerate(zip(self.weights, self.schemes, strict=True)):
            above = edge + weight if index + 1 < len(self.schemes) else float("inf")
            mask |= scheme.draw(text, generator) & (choice >= edge) & (choice < above)
            edge = above
        return mask

    def moments(self, tokens_per_segment: float) -> Moments:
        shares = [w / sum(self.weights) for w in self.weights]
        parts = [s.moments(tokens_per_segment) for s in self.schemes]
        mean = sum(w * p.mean for w, p in zip(shares, parts, strict=True))
        variance = sum(w * (p.rate_variance + (p.mean - mean) ** 2) for w, p in zip(shares, parts, strict=True))
        return Moments(mean, variance, max(p.clump for p in parts))


MaskingScheme = FixedRate | UniformRate | ExactlyK | Spans | WholeWords | Mixture
"""A law of masks. `draw` gives a mask for every segment of the rows, without special tokens; from the mask's `moments` follows
`capacity`, the number of positions that the head computes."""


@dataclass(frozen=True)
class Replacement:
    """Probabilities that a masked position shows the mask token, a random token, or its own."""

    mask: float = 1.0
    random: float = 0.0
    keep: float = 0.0

    def __post_init__(self) -> None:
        shares = (self.mask, self.random, self.keep)
        if not (min(shares) >= 0 and abs(sum(shares) - 1) <= 1e-9):
            raise InputError(f"replacement {shares}: give three shares for mask, random and keep that sum to 1, as 0.8,0.1,0.1")

    def apply(
        self, text: PackedText, mask: Bool[Tensor, "R L"], vocabulary: Vocabulary, generator: Generator
    ) -> Int[Tensor, "R L"]:
        """The ids that the model sees."""
        if self.mask == 1.0:
            return text.ids.masked_fill(mask, vocabulary.mask)
        regular = (~vocabulary.special).nonzero().squeeze(1)
        drawn = torch.randint(len(regular), text.ids.shape, generator=generator, device=text.ids.device)
        choice = noise(text, generator)
        shown = torch.where(choice < self.mask + self.random, regular[drawn].to(text.ids.dtype), text.ids)
        shown = torch.where(choice < self.mask, vocabulary.mask, shown)
        return torch.where(mask, shown, text.ids)


def capacity(scheme: MaskingScheme, rows: int, length: int, tokens_per_segment: float) -> int:
    """A static upper bound on the masked positions of `rows` x `length` tokens: the mean and six deviations."""
    n = rows * length
    moments = scheme.moments(tokens_per_segment)
    deviation = sqrt(n * (moments.mean * (1 - moments.mean) * moments.clump + length * moments.rate_variance))
    return min(n, 64 * ceil((moments.mean * n + 6 * deviation) / 64))


def parse_scheme(spec: str) -> MaskingScheme:
    """A scheme from its short name, as in the module's table: "uniform:0.15-0.3", "k:2", "0.8*fixed:0.15+0.2*words:0.5"."""
    parts = [part.strip().rpartition("*") for part in spec.split("+")]
    try:
        schemes = tuple(_parse_one(scheme) for _, _, scheme in parts)
        if len(parts) == 1 and not parts[0][1]:
            return schemes[0]
        weights = tuple(_number(weight or "1") for weight, _, _ in parts)
        if min(weights) > 0:
            return Mixture(weights, schemes)
    except ValueError:
        pass
    raise InputError(
        f"masking {spec!r} is unknown: give fixed:RATE, uniform:LOW-HIGH, k:NUMBER, span:RATE or words:RATE, rates up to 1, "
        "or a mixture like 0.8*uniform:0.15-0.3+0.2*k:2"
    )


def parse_replacement(spec: str) -> Replacement:
    """Shares for mask, random, keep from "0.8,0.1,0.1"."""
    shares = numbers("replacement", spec, float)
    if len(shares) != 3:
        raise InputError(
            f"replacement {spec!r} has {len(shares)} numbers: give three shares for mask, random and keep, as 0.8,0.1,0.1"
        )
    return Replacement(*shares)


def _parse_one(name: str) -> MaskingScheme:
    """A scheme that is not a mixture; raises ValueError if there is none of this name."""
    kind, _, value = name.strip().partition(":")
    if kind == "uniform":
        low, _, high = value.partition("-")
        rates = _number(low), _number(high)
        if 0 <= rates[0] <= rates[1] <= 1 and rates[1] > 0:
            return UniformRate(*rates)
        raise ValueError(name)
    number = _number(value)
    if kind == "k" and number == int(number) and number >= 1:
        return ExactlyK(int(number))
    if kind in ("fixed", "span", "words") and 0 < number <= 1:
        return {"fixed": FixedRate, "span": Spans, "words": WholeWords}[kind](number)
    raise ValueError(name)


def _number(text: str) -> float:
    if not isfinite(number := float(text)):
        raise ValueError(text)
    return number
