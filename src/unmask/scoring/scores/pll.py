"""Pseudo-log-likelihoods: each token given the others.

    pll        sum over t of log q(x_t | all other tokens)
    pll_word   the same, with the later pieces of x_t's word masked along with it

q over the whole vocabulary, as they are published.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unmask.common.methods.method import method
from unmask.scoring.scores.masked_range import MaskedRange

if TYPE_CHECKING:
    from jaxtyping import Int
    from torch import Tensor

    from unmask.scoring.text_batch import TextBatch


@method
class PLL(MaskedRange):
    """pseudo-log-likelihood: sum over t of log q(x_t | all other tokens), q over the whole
    vocabulary
    """

    name = "pll"
    place = 10
    unknown = True
    why = (
        "the conditionals overlap; two tokens that always agree count each other's information"
        " twice"
    )

    def masked(self, batch: TextBatch) -> tuple[Int[Tensor, "n k"], Int[Tensor, "n k"]]:
        """t alone."""
        return batch.sites, batch.sites + 1


@method
class PLLWord(MaskedRange):
    """as pll, with the later pieces of the same word masked along with x_t (Kauf & Ivanova
    2023), q over the whole vocabulary
    """

    name = "pll_word"
    place = 20
    unknown = True
    by_word = True
    why = "within a word it is a chain rule, between words the conditionals overlap as those of pll"

    def masked(self, batch: TextBatch) -> tuple[Int[Tensor, "n k"], Int[Tensor, "n k"]]:
        """From t to the end of its word."""
        return batch.sites, batch.word_end
