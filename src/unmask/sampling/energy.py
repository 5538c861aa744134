"""Energies of a whole text under a masked language model (Goyal, Dyer & Berg-Kirkpatrick 2022).

    E_raw(x)  = - sum_t f_t(x_t | x_{-t})            f_t: logits at position t, masked alone
    E_norm(x) = - sum_t log q_t(x_t | x_{-t})        q_t = softmax f_t over the whole vocabulary

The sum runs over the positions that hold no special token. A kernel at temperature T samples pi(x), which is proportional to
exp(-E(x) / T) over the texts of one length. exp(-E_norm) is the product of the unary conditionals; -E_norm is the pseudo-log-
likelihood. One energy costs one forward pass per term.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.errors import InputError
from unmask.models.conditional_model import ConditionalModel
from unmask.sampling.engine.token_draw import Drawn
from unmask.sampling.registry import EnergyKind
from unmask.signature import settings

UserTerm = Callable[[Tensor], Tensor]
"""From token ids (n, T), special tokens included, to n numbers that are added to the energy; inf forbids a text."""


def log_normaliser(logits: Float[Tensor, "n V"]) -> Float[Tensor, " n"]:
    """log sum exp of each row, in float64."""
    if logits.is_cuda:
        from unmask.sampling.engine.triton_programs import log_normaliser_on_gpu

        return log_normaliser_on_gpu(logits)
    return logits.double().logsumexp(-1)


@settings
class Energy:
    """Which energy, and the user's own terms, which are added to it.

    Parameters
    ----------
    kind
        norm or raw.
    user_terms
        Functions from token ids (n, T), special tokens included, to n numbers; inf forbids a text.
    """

    kind: EnergyKind = "norm"
    user_terms: tuple[UserTerm, ...] = ()

    def term(self, logits: Float[Tensor, "n V"], tokens: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        """The energy's terms of `tokens`, whose positions have these logits, in float64; those of the norm are never negative."""
        raw = -logits.gather(-1, tokens.unsqueeze(-1)).squeeze(-1).double()
        return log_normaliser(logits) + raw if self.kind == "norm" else raw

    def term_of(self, drawn: Drawn) -> Float[Tensor, " n"]:
        """The energy's terms of tokens that were drawn, from what their conditionals said of them."""
        return (drawn.log_all if self.kind == "norm" else 0.0) - drawn.logit

    def from_user(self, ids: Int[Tensor, "n T"]) -> Float[Tensor, " n"]:
        """The sum of the user's terms."""
        total = torch.zeros(len(ids), dtype=torch.float64, device=ids.device)
        if not self.user_terms:
            return total
        for function in self.user_terms:
            value = function(ids)
            if not isinstance(value, Tensor):
                raise InputError(f"a user term returned a {type(value).__name__}: return a tensor with one number per text")
            if value.shape != (len(ids),):
                raise InputError(
                    f"a user term returned shape {tuple(value.shape)} for {len(ids)} texts: return one number per text"
                )
            total = total + value.to(total)
        if bool((total.isnan() | (total == -torch.inf)).any()):
            raise InputError("a user term returned nan or -inf: return finite numbers, or inf for a text that is forbidden")
        return total


def scored_positions(ids: Sequence[int], model: ConditionalModel) -> tuple[int, ...]:
    """Positions with a term: all that hold no special token, and the blanks."""
    special = set(model.special_ids) - {model.mask_id}
    return tuple(t for t, token in enumerate(ids) if token not in special)


def masked_alone(ids: Int[Tensor, "n T"], positions: Int[Tensor, " n"], mask_id: int) -> Int[Tensor, "n T"]:
    """Each row with its one position masked."""
    return ids.scatter(1, positions.unsqueeze(1), mask_id)


def energy_terms(
    model: ConditionalModel, ids: Int[Tensor, "n T"], kind: EnergyKind = "norm", positions: Sequence[int] | None = None
) -> Float[Tensor, "n S"]:
    """The energy's terms at `positions` (by default those that hold no special token in the first text), in float64."""
    energy = Energy(kind)
    ids = ids.to(model.device)
    columns = scored_positions(ids[0].tolist(), model) if positions is None else tuple(positions)
    terms = torch.empty((len(ids), len(columns)), dtype=torch.float64, device=ids.device)
    for column, t in enumerate(columns):
        where = torch.full((len(ids),), t, device=ids.device)
        logits = model.logits(masked_alone(ids, where, model.mask_id), where.unsqueeze(1))[:, 0]
        terms[:, column] = energy.term(logits, ids[:, t])
    return terms


def energies(model: ConditionalModel, ids: Int[Tensor, "n T"], energy: Energy | EnergyKind = "norm") -> Float[Tensor, " n"]:
    """E(x) of texts of one length, user terms included."""
    chosen = energy if isinstance(energy, Energy) else Energy(energy)
    return energy_terms(model, ids, chosen.kind).sum(-1) + chosen.from_user(ids.to(model.device))
