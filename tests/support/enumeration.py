"""Laws over all texts of small targets, from the energy's definition."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.sampling.energies.with_terms import Energy
from unmask.sampling.enumeration import all_texts as all_texts
from unmask.sampling.enumeration import transition_matrix as transition_matrix
from unmask.sampling.target import Target, masked_alone, scored_positions


def target_law(target: Target, temperature: float = 1.0) -> Float[Tensor, " N"]:
    """pi over `all_texts`: those with the template's tokens where tokens are held or given."""
    texts, energy = all_texts(target), target.energy
    terms = energy_terms(target.model, texts, energy.kind, target.positions.tolist())
    total = terms.sum(-1) + energy.from_user(texts)
    return (-total / temperature).softmax(0)


def energy_terms(model, ids, kind="norm", positions=None):
    """The energy's terms at `positions` (by default those that hold no special token in the
    first text), in float64.
    """
    energy = Energy(kind)
    ids = ids.to(model.device)
    columns = scored_positions(ids[0].tolist(), model) if positions is None else tuple(positions)
    terms = torch.empty((len(ids), len(columns)), dtype=torch.float64, device=ids.device)
    for column, t in enumerate(columns):
        where = torch.full((len(ids),), t, device=ids.device)
        logits = model.logits(masked_alone(ids, where, model.mask_id), where.unsqueeze(1))[:, 0]
        terms[:, column] = energy.term(logits, ids[:, t])
    return terms


def energies(model, ids, energy="norm"):
    """E(x) of texts of one length, user terms included."""
    chosen = (energy if isinstance(energy, Energy) else Energy(energy)).on(model)
    return energy_terms(model, ids, chosen.kind).sum(-1) + chosen.from_user(ids.to(model.device))
