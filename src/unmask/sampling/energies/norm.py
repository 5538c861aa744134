"""The norm energy (Goyal, Dyer & Berg-Kirkpatrick 2022)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from unmask.common.methods.method import method
from unmask.sampling.energies.energy import ModelEnergy

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor

    from unmask.sampling.engine.token_draw import Drawn


def log_normaliser(logits: Float[Tensor, "n V"]) -> Float[Tensor, " n"]:
    """log sum exp of each row, in float64."""
    if logits.is_cuda:
        from unmask.sampling.engine.triton_programs import log_normaliser_on_gpu

        return log_normaliser_on_gpu(logits)
    return logits.double().logsumexp(-1)


@method
class NormEnergy(ModelEnergy):
    """Minus the pseudo-log-likelihood: what is unlikely where it stands costs energy.

        E(x) = - sum_t log q_t(x_t | x_{-t})        q_t = softmax f_t over the whole vocabulary

    exp(-E) is the product of the unary conditionals. Its terms are probabilities' logarithms, so
    none is negative.

    >>> run = unmask.sample("A [MASK] sat.", chains=2, sweeps=2, energy=unmask.NormEnergy())
    >>> run.settings.energy
    NormEnergy()
    """

    name = "norm"
    label = "norm"
    place = 1
    never_negative = True

    def term(self, logits: Float[Tensor, "n V"], tokens: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        """-log q(token) = log sum exp f - f(token)."""
        logit = logits.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
        raw = -logit.double()
        return log_normaliser(logits) + raw

    def term_of_draw(
        self, drawn: Drawn, logits: Callable[[], Float[Tensor, "n V"]]
    ) -> Float[Tensor, " n"]:
        """From the normaliser that the draw computed."""
        return drawn.log_all - drawn.logit
