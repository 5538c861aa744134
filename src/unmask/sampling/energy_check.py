"""`check_energy`: the laws that every energy of a model keeps, tested on random tables.

e(x; f) of a row depends on that row alone
e of a drawn token, from the numbers of the draw  =  e from the logits
e >= 0, where the energy says so
E(x) = sum_t e(x_t; f_t), one direct pass for each t  =  E(x) as chains compute it
K of Metropolis-Hastings leaves exp(-E) invariant
"""

from __future__ import annotations

from typing import Annotated

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.common.border.calls import checked
from unmask.common.border.marks import TakesMethod
from unmask.models.tabular import TabularMLM
from unmask.sampling.energies.energy import ModelEnergy
from unmask.sampling.energies.with_terms import Energy
from unmask.sampling.engine.token_draw import Categoricals
from unmask.sampling.enumeration import all_texts, transition_matrix
from unmask.sampling.kernels.mh import MH
from unmask.sampling.target import Target, masked_alone

EXACT = 1e-9
"""The largest difference of two energies, and of two probabilities, that rounding explains."""
ROWS = 24
TOKENS = 5
"""Of the random logits."""
SPREADS = (0.1, 3.0, 30.0)
"""Standard deviations of the random logits: from nearly uniform conditionals to certain ones."""


@checked
def check_energy(
    energy: Annotated[ModelEnergy | str, TakesMethod("unmask.sampling.energies.energy:ENERGIES")],
) -> None:
    """Test that an energy of a model keeps the laws of energies, on random tables.

    - The term of a token depends on its own row of logits alone, and is the same each time.
    - The terms of drawn tokens are those of their logits.
    - Where the energy says that it is never negative, no term is.
    - The energy that chains compute is the sum of the terms, one pass for each position.
    - Metropolis-Hastings, with early rejection where the energy allows it, leaves exp(-E)
      invariant: max |pi K - pi| of the enumerated transition matrix is 0 up to rounding.

    Raises AssertionError with a sentence that says what is broken.

    Parameters:
        energy: The energy with its options, or a name.

    >>> unmask.testing.check_energy(unmask.NormEnergy())
    """
    assert isinstance(energy, ModelEnergy)  # `checked` turned a name into an object
    for number, spread in enumerate(SPREADS):
        generator = torch.Generator().manual_seed(number)
        logits = spread * torch.randn((ROWS, TOKENS), generator=generator, dtype=torch.float64)
        tokens = torch.randint(TOKENS, (ROWS,), generator=generator)
        _check_rows(energy, logits, tokens)
        _check_draws(energy, logits, tokens)
        _check_bound(energy, logits)
    model = TabularMLM.random(3, 3, 1)
    target = Target(model, [model.mask_id] * 3, Energy(energy))
    _check_sum(target)
    _check_chain(target)


def _check_rows(
    energy: ModelEnergy, logits: Float[Tensor, "n V"], tokens: Int[Tensor, " n"]
) -> None:
    """A row's term depends on that row alone, and nothing in it is drawn."""
    whole = energy.term(logits, tokens)
    if whole.shape != tokens.shape:
        raise AssertionError(
            f"{energy.name} gives terms of the shape {tuple(whole.shape)} for {len(tokens)} tokens:"
            " return one number for each"
        )
    if not _are_equal(energy.term(logits, tokens), whole):
        raise AssertionError(
            f"{energy.name} gives other terms for the same tokens and logits: a term is no draw"
        )
    alone = [energy.term(logits[row : row + 1], tokens[row : row + 1]) for row in range(ROWS)]
    if not _are_equal(torch.cat(alone), whole):
        raise AssertionError(
            f"{energy.name} gives a token another term when it stands alone than beside others: a"
            " row's term depends on that row alone"
        )


def _check_draws(
    energy: ModelEnergy, logits: Float[Tensor, "n V"], tokens: Int[Tensor, " n"]
) -> None:
    """`term_of_draw` gives the terms of `term`."""
    row = torch.zeros_like(tokens)
    categoricals = Categoricals(
        outputs=logits,
        temperature=0.7,
        support=torch.tensor([[True] * (TOKENS - 1) + [False]]),
        sites=row,
        current=row,
    )
    drawn = categoricals.at(tokens)
    if not _are_equal(energy.term_of_draw(drawn, lambda: logits), energy.term(logits, tokens)):
        raise AssertionError(
            f"{energy.name} gives a drawn token another term by term_of_draw than by term"
        )


def _check_bound(energy: ModelEnergy, logits: Float[Tensor, "n V"]) -> None:
    """No term of any token is negative, where the energy says so."""
    if not energy.never_negative:
        return
    for token in range(TOKENS):
        terms = energy.term(logits, torch.full((ROWS,), token))
        if not bool((terms >= 0).all()):  # NaN is none either
            raise AssertionError(
                f"{energy.name} says that it is never negative, and a term is"
                f" {float(terms.min()):.3g}: chains would reject too early"
            )


def _direct(target: Target, texts: Int[Tensor, "N T"]) -> Float[Tensor, " N"]:
    """E(x), by one pass for each position, as the equation has it."""
    energy = torch.zeros(len(texts), dtype=torch.float64)
    for position in target.positions.tolist():
        there = torch.full((len(texts),), position)
        masked = masked_alone(texts, there, target.model.mask_id)
        logits = target.model.logits(masked, there.unsqueeze(1))[:, 0]
        energy += target.energy.of_model.term(logits, texts[:, position])
    return energy


def _check_sum(target: Target) -> None:
    """The energy that chains compute is the sum of the terms."""
    kernel = MH().on(target)
    texts = all_texts(target)
    state, _passes = kernel.method.init(kernel, texts)
    if not _are_equal(state.energy, _direct(target, texts)):
        raise AssertionError(
            f"chains give texts another energy than the sum of the terms of"
            f" {target.energy.of_model.name}"
        )


def _check_chain(target: Target) -> None:
    """Metropolis-Hastings leaves exp(-E) invariant."""
    law = (-_direct(target, all_texts(target))).softmax(0)
    matrix = transition_matrix(MH().on(target), torch.tensor([0]))
    moved = float((law @ matrix - law).abs().max())
    if not moved <= EXACT:  # NaN is none either
        raise AssertionError(
            f"Metropolis-Hastings on {target.energy.of_model.name} moves exp(-E) by {moved:.2g}"
        )


def _are_equal(some: Float[Tensor, " n"], others: Float[Tensor, " n"]) -> bool:
    """Up to rounding."""
    return torch.allclose(some.double(), others.double(), rtol=EXACT, atol=EXACT)
