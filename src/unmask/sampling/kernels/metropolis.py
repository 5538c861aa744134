"""Single-site Metropolis-Hastings (Goyal, Dyer & Berg-Kirkpatrick 2022).

    w ~ g = q_i(. | x_{-i});   accept with min(1, exp((E(x) - E(x')) / T) g(x_i) / g(w)),   x' = x with w at i

One masked pass gives both densities, and it is kept with the state: a proposal of the token that is there costs nothing,
another one at most S - 1 passes for the energy's other terms. At temperatures 1 the terms of site i cancel.
pi-reversible for each site, hence for a random scan; fixed and permuted sweeps are pi-invariant.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from unmask.sampling.kernels.metropolis_kernel import MetropolisKernel
from unmask.sampling.randomness import Randomness
from unmask.sampling.state import ChainState, StepInfo


@dataclass(frozen=True)
class MetropolisHastings(MetropolisKernel):
    """One token at a time."""

    def step(self, state: ChainState, rng: Randomness, sites: Int[Tensor, "n 1"]) -> tuple[ChainState, StepInfo]:
        """Propose one token at one site of each chain."""
        rows, site = torch.arange(len(state.ids)), sites[:, 0]
        device = state.tables.device
        logits = state.tables[rows.to(device), site.to(device)]
        log_weights = self.proposal.log_weights(logits, self.target.support[site])
        drawn = rng.categorical(rows, log_weights)
        current = state.ids[rows, self.target.free_positions[site]]
        log_ratio = log_weights[rows, current] - log_weights[rows, drawn]
        novel, new = self.changed_texts(state, sites, drawn.unsqueeze(1))
        return self.settle(state, rng, sites, novel, new, log_ratio, torch.zeros(len(rows), dtype=torch.long))
