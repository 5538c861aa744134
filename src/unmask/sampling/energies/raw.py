"""The raw energy (Goyal, Dyer & Berg-Kirkpatrick 2022)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from unmask.common.methods.method import method
from unmask.sampling.energies.energy import ModelEnergy

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor

    from unmask.sampling.engine.token_draw import Drawn


@method
class RawEnergy(ModelEnergy):
    """Minus the sum of the logits, without their normalisers.

        E(x) = - sum_t f_t(x_t | x_{-t})

    >>> run = unmask.sample("A [MASK] sat.", chains=2, sweeps=2, energy=unmask.RawEnergy())
    >>> run.settings.energy
    RawEnergy()
    """

    name = "raw"
    label = "raw"
    place = 2

    def term(self, logits: Float[Tensor, "n V"], tokens: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        """-f(token)."""
        logit = logits.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
        return -logit.double()

    def term_of_draw(
        self, drawn: Drawn, logits: Callable[[], Float[Tensor, "n V"]]
    ) -> Float[Tensor, " n"]:
        """From the logit that the draw read."""
        return 0.0 - drawn.logit  # of a logit of 0 the term is 0, not -0
