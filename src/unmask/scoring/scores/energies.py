"""Energies of whole texts, as samplers use them; lower is better.

    energy_raw    E(x) = - sum over t of the logit f_t(x_t)
    energy_norm   E(x) = - sum over t of log q(x_t | all other tokens) = -pll

t is masked alone; q over the whole vocabulary, as they are published.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unmask.common.methods.method import method
from unmask.scoring.scores.masked_range import MaskedRange, Read

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor

    from unmask.scoring.text_batch import TextBatch


class Energy(MaskedRange):
    """A sum over positions, each masked alone."""

    better = -1
    why = "exp(-E) has no normaliser"

    def masked(self, batch: TextBatch) -> tuple[Int[Tensor, "n k"], Int[Tensor, "n k"]]:
        """t alone."""
        return batch.sites, batch.sites + 1


@method
class EnergyRaw(Energy):
    """E(x) = - sum over t of the logit f_t(x_t), position t masked alone; lower is better"""

    name = "energy_raw"
    place = 30

    def term(self, read: Read) -> Float[Tensor, " m"]:
        """-f_t(x_t)"""
        return -read.logit


@method
class EnergyNorm(Energy):
    """E(x) = - sum over t of log q(x_t | all other tokens) = -pll, q over the whole vocabulary;
    lower is better
    """

    name = "energy_norm"
    place = 40

    def term(self, read: Read) -> Float[Tensor, " m"]:
        """-log q(x_t | all other tokens)"""
        return -read.log_q
