"""The mutual information of all pairs of blanks, measured: many passes, for comparison with estimates that take none.

    I_ij = H(m_j) - sum_a q_i(a) H(q_j(. | x_i = a)),   m_j = sum_a q_i(a) q_j(. | x_i = a),   then (I_ij + I_ji) / 2

a runs over the `CANDIDATES` likeliest tokens of i, q_i renormalised over them: one pass for each of them and each blank, and one
more.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.sampling.engine.passes import Passes
from unmask.sampling.kernels.proposal import Proposal
from unmask.sampling.target import Target

CANDIDATES = 8
MOST_NUMBERS = 2**25
"""Probabilities that are held at once."""


def measured_information(
    target: Target, passes: Passes, ids: Int[Tensor, "n T"], blank: Bool[Tensor, "n F"]
) -> Float[Tensor, "n F F"]:
    """I of all pairs of blank sites of each text; 0 elsewhere and on the diagonal."""
    n, sites = blank.shape
    tokens = min(CANDIDATES, int(target.support.sum(1).min()))
    at_once = max(1, MOST_NUMBERS // (tokens * sites * target.model.vocab_size))
    found = torch.zeros((n, sites, sites), dtype=torch.float64, device=ids.device)
    for texts in torch.arange(n, device=ids.device).split(at_once):
        weight, tried = _log_q(target, passes, ids[texts]).topk(tokens, -1)
        weight = weight.softmax(-1)
        for site in range(sites):
            here = blank[texts, site].nonzero().flatten()
            if not len(here):
                continue
            rows = ids[texts[here]].repeat_interleave(tokens, 0)
            rows[:, target.free_positions[site]] = tried[here, site].flatten()
            q = _log_q(target, passes, rows).exp().unflatten(0, (len(here), tokens))
            share = weight[here, site]
            after = torch.einsum("na,naj->nj", share, torch.special.entr(q).sum(-1))
            found[texts[here], site] = torch.special.entr(torch.einsum("na,najv->njv", share, q)).sum(-1) - after
    both = blank.unsqueeze(1) & blank.unsqueeze(2) & ~torch.eye(sites, dtype=torch.bool, device=ids.device)
    return torch.where(both, (found + found.mT) / 2, 0.0).clamp(min=0)


def _log_q(target: Target, passes: Passes, ids: Int[Tensor, "m T"]) -> Float[Tensor, "m F V"]:
    """log q of every site over its allowed tokens."""
    logits = passes.logits(ids, target.free_positions.expand(len(ids), -1))
    support = target.support.repeat(len(ids), 1)
    return Proposal().log_weights(logits.flatten(0, 1), support).unflatten(0, (len(ids), target.sites))
