"""Small models and wrong kernels that the sampling tests share."""

from __future__ import annotations

from dataclasses import fields
from functools import lru_cache
from itertools import permutations

import torch

import unmask
from support.enumeration import energies, transition_matrix
from unmask.common.border.options import arguments
from unmask.common.methods.method import method
from unmask.models.tabular import TabularMLM
from unmask.sampling.decoders.decoder import DECODERS
from unmask.sampling.energies.energy import ENERGIES
from unmask.sampling.energies.with_terms import Energy
from unmask.sampling.kernels.block import Block
from unmask.sampling.kernels.metropolis import (
    Acceptance,
    Decision,
    Proposed,
    log_acceptance,
)
from unmask.sampling.kernels.mh import MH
from unmask.sampling.methods import METHODS
from unmask.sampling.settings import checked_settings
from unmask.sampling.target import Target


def small_target(vocab=3, length=3, seed=0, kind="norm", model=None, **options):
    model = model or TabularMLM.random(vocab, length, seed)
    return Target(model, [model.mask_id] * model.length, Energy(kind), **options)


def of(kernel_class, target, **options):
    """The kernel or decoder of a class on a target, with these options."""
    return kernel_class(**options).on(target)


def log_prob(ancestral, ids, order):
    """log p(x | order) of texts, of ancestral sampling on a target."""
    return ancestral.method.log_prob(ancestral, ids, order)


def settings_of(**options):
    """Settings by option; options that only other kernels have are left out."""
    kernel = METHODS[options.pop("kernel", "mh")]
    others = {field.name for one in METHODS.values() for field in fields(one)} - {
        field.name for field in fields(kernel)
    }
    return flat_settings(
        kernel=kernel.name, **{name: value for name, value in options.items() if name not in others}
    )


def flat_settings(**options):
    """Settings from the options of `unmask sample`, or a run of a decoder."""
    given = {name: value for name, value in options.items() if value is not None}
    kernel = given.get("kernel", "mh")
    if isinstance(kernel, str) and kernel in DECODERS:
        of_decoder = {field.name for field in fields(DECODERS[kernel])} & given.keys()
        kernel = DECODERS[kernel](**{name: given.pop(name) for name in of_decoder})
        del given["kernel"]
        values = arguments(unmask.sample, given)
    else:
        values = arguments(unmask.sample, given)
        kernel = values.pop("kernel", "mh")
    if isinstance(values.get("length"), int):
        values["length"] = (values["length"],)
    energy = ENERGIES.taken("energy", values.pop("energy", "norm"))
    return checked_settings(kernel=METHODS.taken("kernel", kernel), energy=energy, **values)


def site_matrices(kernel, sites=None):
    return [
        transition_matrix(kernel, torch.tensor([i])) for i in range(sites or kernel.target.sites)
    ]


def random_scan(matrices):
    return sum(matrices) / len(matrices)


def fixed_sweep(matrices, order=None):
    total = torch.eye(len(matrices[0]), dtype=torch.float64)
    for i in order or range(len(matrices)):
        total = total @ matrices[i]
    return total


def permuted_sweep(matrices):
    orders = list(permutations(range(len(matrices))))
    return sum(fixed_sweep(matrices, order) for order in orders) / len(orders)


def stationary(matrix):
    """The left eigenvector of eigenvalue 1, by solving pi (K - I) = 0, sum pi = 1."""
    n = len(matrix)
    system = torch.cat(
        [(matrix - torch.eye(n, dtype=matrix.dtype)).T, torch.ones(1, n, dtype=matrix.dtype)]
    )
    right = torch.zeros(n + 1, dtype=matrix.dtype)
    right[-1] = 1
    return torch.linalg.lstsq(system, right.unsqueeze(1)).solution.squeeze(1)


def gap_to_invariance(law, matrix):
    return float((law @ matrix - law).abs().max())


def imbalance(law, matrix):
    flow = law.unsqueeze(1) * matrix
    return float((flow - flow.T).abs().max())


def total_variation(p, q):
    return float((p - q).abs().sum() / 2)


class NaiveMetropolis:
    """The algorithm as it is written in the paper: both energies from scratch at every
    proposal, 2T + 1 passes.
    """

    def __init__(self, target):
        self.target = target

    def step(self, ids, rng, sites, temperature=1.0):
        model, rows, site = self.target.model, torch.arange(len(ids)), sites[:, 0]
        position = self.target.free_positions[site]
        masked = ids.scatter(1, position.unsqueeze(1), model.mask_id)
        logits = torch.where(
            self.target.support[site],
            model.logits(masked, position.unsqueeze(1))[:, 0].double(),
            -torch.inf,
        )
        log_q = logits.log_softmax(-1)
        drawn = rng.categorical(rows, log_q)
        new = ids.scatter(1, position.unsqueeze(1), drawn.unsqueeze(1))
        change = energies(model, ids, self.target.energy) - energies(model, new, self.target.energy)
        log_ratio = change / temperature + log_q[rows, ids[rows, position]] - log_q[rows, drawn]
        novel = (drawn != ids[rows, position]).nonzero().squeeze(1)
        accept = torch.ones(len(ids), dtype=torch.bool)
        accept[novel] = rng.log_uniform(novel) < log_ratio[novel]
        return torch.where(accept.unsqueeze(1), new, ids)


class FlippedAcceptance(Acceptance):
    """Wrong: forward over reverse density."""

    def decide(self, state, rows, new, log_ratio, sites, rng):
        return super().decide(state, rows, new, -log_ratio, sites, rng)


class SubsetAcceptance(Acceptance):
    """Wrong: the energy's terms beside the redrawn site only."""

    def decide(self, state, rows, new, log_ratio, sites, rng):
        new.complete(self.target, self.passes)
        near = (
            torch.arange(self.target.columns) - self.target.free[sites].unsqueeze(-1)
        ).abs().amin(1) <= 1
        energy, new_energy = ((terms * near).sum(-1) for terms in (state.terms[rows], new.terms))
        log_alpha = log_acceptance(energy, new_energy, self.temperature, log_ratio)
        return Decision(rng.log_uniform(rows) < log_alpha, torch.zeros_like(rows))


@method
class Flipped(MH):
    def acceptance(self, on):
        return FlippedAcceptance(on.target, on.passes, self.energy_temperature)


@method
class SubsetEnergy(MH):
    def acceptance(self, on):
        return SubsetAcceptance(on.target, on.passes, self.energy_temperature, early=False)


def block_conditionals(kernel, ids, sites):
    """Log-probabilities of each site of the block with the whole block masked."""
    positions = kernel.target.free_positions[sites]
    masked = ids.scatter(1, positions, kernel.target.model.mask_id)
    logits = kernel.passes.logits(masked, positions)
    heat = kernel.method.proposal_temperature
    weights = kernel.passes.categoricals(
        logits.flatten(0, 1), kernel.target, heat, sites.flatten()
    ).log_weights()
    return weights.unflatten(0, sites.shape)


@method
class ChangedOnlyBlock(Block):
    """Wrong: draws with the whole block masked, but takes both densities with only the changed
    positions masked.
    """

    def propose(self, on, state, rng, sites):
        rows = state.rows
        current = state.ids.gather(1, on.target.free_positions[sites])
        block = block_conditionals(on, state.ids, sites)
        drawn = torch.stack([rng.categorical(rows, block[:, j]) for j in range(sites.shape[1])], 1)
        log_ratio = torch.zeros(len(rows), dtype=torch.float64)
        for row in rows.tolist():
            changed = (drawn[row] != current[row]).nonzero().flatten()
            if not len(changed):
                continue
            here = sites[row : row + 1, changed]
            log_q = block_conditionals(on, state.ids[row : row + 1], here)[0]
            for j, place in enumerate(changed.tolist()):
                log_ratio[row] += log_q[j, current[row, place]] - log_q[j, drawn[row, place]]
        return Proposed(drawn, log_ratio, torch.ones_like(rows))


@lru_cache
def strictly_positive_joint(vocab, length, seed):
    generator = torch.Generator().manual_seed(seed)
    weights = torch.rand([vocab] * length, generator=generator, dtype=torch.float64) + 0.05
    return weights / weights.sum()
