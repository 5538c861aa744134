"""What a masking scheme is, and the law that each must keep.

A scheme is a law of the set K of masked positions of a segment. The set is drawn again for every
segment, in every step. Special tokens, padding and the sources of pairs are never masked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import ceil, sqrt
from typing import TYPE_CHECKING, Any

from unmask.common.errors import InputError, UnmaskError
from unmask.common.lazy import torch
from unmask.common.methods.method import Method
from unmask.common.methods.own_code import failure, is_ours
from unmask.common.methods.registry import Registry
from unmask.common.methods.stored import stored_form

if TYPE_CHECKING:
    from jaxtyping import Bool
    from torch import Generator, Tensor

    from unmask.studies.training.packed_text import PackedText

SCHEMES = Registry("masking scheme", folders=("unmask.studies.training.masking",))


class MaskingScheme(Method, ABC, registry=SCHEMES):
    """A law of masked positions, from which schemes of your own are derived. A subclass defines
    `draw` and `number_law`.

    >>> @unmask.method
    ... class All(unmask.MaskingScheme):
    ...     "Every position that may be masked is."
    ...     def draw(self, text, generator):
    ...         return text.maskable
    ...     def number_law(self, n):
    ...         return [0.0] * n + [1.0]
    >>> unmask.testing.check_masking(All())
    """

    @abstractmethod
    def draw(self, text: PackedText, generator: Generator) -> Bool[Tensor, "R L"]:
        """Which positions are masked: a set for each segment of the rows, independent of the
        others.

        text        packed rows; `text.maskable` has the positions that may be masked, and
                    `text.noise(generator)` a number from U(0, 1) for each position
        generator   where everything random comes from
        """

    @abstractmethod
    def number_law(self, n: int) -> Sequence[float]:
        """P(|K| = k) for k = 0, 1, ..., n, in a segment of n maskable positions."""

    def moments(self, tokens_per_segment: float) -> tuple[float, float] | None:
        """The mean share of masked tokens, and the variance of a segment's rate.

        They bound the number of positions that the model's head computes (`capacity`). None: all
        positions are computed, which is slower and never too few.
        """
        return None

    @property
    def spelling(self) -> str | dict[str, Any]:
        """The scheme for settings: as it is typed; of own code its name, hash and options."""
        return stored_form(self)


def capacity(scheme: MaskingScheme, rows: int, length: int, tokens_per_segment: float) -> int:
    """A static upper bound on the masked positions of `rows` x `length` tokens: the mean and
    six deviations.
    """
    n = rows * length
    moments = scheme.moments(tokens_per_segment)
    if moments is None:
        return n
    mean, rate_variance = moments
    deviation = sqrt(n * (mean * (1 - mean) + length * rate_variance))
    return min(n, 64 * ceil((mean * n + 6 * deviation) / 64))


def drawn_mask(
    scheme: MaskingScheme, text: PackedText, generator: Generator
) -> Bool[Tensor, "R L"]:
    """The masked positions that a scheme draws; those of own code are checked."""
    if is_ours(type(scheme)):
        return scheme.draw(text, generator)
    try:
        mask = scheme.draw(text, generator)
    except (UnmaskError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        raise failure("masking", type(scheme), error) from error
    problem = _wrong_mask(mask, text)
    if problem is not None:
        raise InputError(f"{scheme.name}: {problem}", argument="masking", use="mend its draw")
    return mask


def _wrong_mask(mask: object, text: PackedText) -> str | None:
    """What is wrong with a mask; None if nothing is."""
    if not isinstance(mask, torch.Tensor):
        return f"draw returned {type(mask).__name__}, no tensor"
    if mask.dtype != torch.bool or mask.shape != text.ids.shape:
        wanted = f"truth values of shape {tuple(text.ids.shape)}"
        return f"draw returned {mask.dtype} of shape {tuple(mask.shape)}, not {wanted}"
    if bool((mask & ~text.maskable).any()):
        return "draw masks special tokens, padding or a source"
    return None


# ---- the law that every scheme keeps ----

SEGMENTS = (1, 2, 5, 9)
"""Maskable positions of the segments that `check_masking` draws masks of."""
DRAWS = 4000  # of each segment
DEVIATIONS = 5.0
"""By how many standard deviations a frequency may differ from its probability: a right scheme is
refused once in a hundred thousand times."""


def check_masking(scheme: MaskingScheme, seed: int = 0) -> None:
    """Check that a masking scheme keeps its law; raises AssertionError with what is broken.

    1. A mask has truth values in the shape of the rows, and no special token, padding or source.
    2. Equal generators give equal masks: nothing random comes from elsewhere.
    3. `number_law(n)` sums to 1, and masks have as many positions as it says.
    4. The masked positions of a batch are within `capacity`.

    scheme   an object of the class
    seed     of the masks

    >>> unmask.testing.check_masking(unmask.FixedRate(rate=0.3))
    """
    from unmask.studies.training.packed_text import PackedText

    text = PackedText.of(_rows(DRAWS), _vocabulary())
    mask = scheme.draw(text, torch.Generator().manual_seed(seed))
    problem = _wrong_mask(mask, text)
    assert problem is None, f"{scheme.name}: {problem}"
    again = scheme.draw(text, torch.Generator().manual_seed(seed))
    assert torch.equal(mask, again), (
        f"{scheme.name}: two generators of one seed give different masks: draw everything random"
        " from the generator"
    )
    for number, n in enumerate(SEGMENTS, 1):
        masked = (mask & (text.segment == number)).sum(1)
        _check_numbers(scheme, n, torch.bincount(masked, minlength=n + 1).tolist())
    rows, length = text.ids.shape
    bound = capacity(scheme, rows, length, tokens_per_segment=length / len(SEGMENTS))
    assert int(mask.sum()) <= bound, (
        f"{scheme.name}: {int(mask.sum()):,} positions are masked, and its moments bound them by"
        f" {bound:,}"
    )


def _check_numbers(scheme: MaskingScheme, n: int, counts: Sequence[int]) -> None:
    """Compare how often k of n positions were masked with `number_law`."""
    law = list(scheme.number_law(n))
    assert len(law) == n + 1, (
        f"{scheme.name}: number_law({n}) has {len(law)} probabilities, not {n + 1}"
    )
    total = sum(law)
    assert abs(total - 1) < 1e-9, f"{scheme.name}: number_law({n}) sums to {total:.12g}, not 1"
    for k, (probability, count) in enumerate(zip(law, counts, strict=True)):
        frequency = count / DRAWS
        deviation = sqrt(max(probability * (1 - probability), 0.0) / DRAWS)
        # of a rare event the count is not nearly normal: one more than the bound is let pass
        allowed = DEVIATIONS * deviation + (1 / DRAWS if 0 < probability < 1 else 0.0)
        assert abs(frequency - probability) <= allowed + 1e-9, (
            f"{scheme.name}: of segments of {n} positions {frequency:.4f} have {k} masked, and"
            f" number_law says {probability:.4f}"
        )


def _rows(count: int) -> Any:
    """Equal rows of a segment of each length of SEGMENTS, and some padding."""
    start, end, pad, word = 0, 1, 2, 4
    row: list[int] = []
    for n in SEGMENTS:
        row += [start, *[word] * n, end]
    return torch.tensor([*row, pad, pad]).repeat(count, 1)


def _vocabulary() -> Any:
    """Four special tokens, [CLS] [SEP] [PAD] [MASK], and a word."""
    from unmask.studies.training.packed_text import Vocabulary

    special = torch.tensor([True, True, True, True, False])
    return Vocabulary(size=5, start=0, pad=2, mask=3, special=special, end=1)
