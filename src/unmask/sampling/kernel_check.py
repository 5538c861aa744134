"""`check_kernel`: the laws that every Markov kernel keeps, tested by enumeration.

A kernel is put on small models whose conditionals are random tables, and its transition matrix K is
enumerated: the code of its step runs under every outcome of its random choices (`enumeration`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.common.border.calls import checked
from unmask.common.border.marks import TakesMethod
from unmask.models.tabular import TabularMLM
from unmask.sampling.energies.with_terms import Energy
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import ChainStreams
from unmask.sampling.enumeration import all_texts, transition_matrix
from unmask.sampling.kernels.kernel import Kernel
from unmask.sampling.on_target import KernelOnTarget
from unmask.sampling.own_steps import kernel_step
from unmask.sampling.target import Target

EXACT = 1e-9
"""The largest |pi K - pi| that rounding explains."""
TOKENS = 3
"""Of the vocabulary; two for kernels of blocks, whose texts are longer than one site."""
ROWS_OF_A_CALL = 256
"""Many texts go through a table in one call: what takes time is the calls, not their rows."""
REPEATS = 3
"""How often a step is repeated to find a draw outside of the given randomness."""


@checked
def check_kernel(
    kernel: Annotated[Kernel | str, TakesMethod("unmask.sampling.kernels.kernel:KERNELS")],
) -> None:
    """Test that a kernel keeps the laws of Markov kernels, on random tables that can be enumerated.

    - Its steps draw by the given randomness alone, and stay in the support of the target.
    - A step changes the sites that it was given, and no others.
    - The law of `log_law` is left invariant: max |pi K - pi| is 0 up to rounding. A kernel whose
      `log_law` is None promises nothing, and K is only a transition matrix.

    Raises AssertionError with a sentence that says what is broken.

    Parameters:
        kernel: The kernel with its options, or a name, also of own code: my.py:Mine.

    >>> unmask.testing.check_kernel(unmask.Block(block_size=2))
    """
    assert isinstance(kernel, Kernel)  # `checked` turned a name into an object
    for target in _small_targets(kernel):
        chains = kernel.on(target, Passes(target.model, ROWS_OF_A_CALL))
        _check_randomness(chains)
        for sites in _site_choices(chains):
            _check_other_sites(chains, sites)
            _check_matrix(chains, sites)


def _small_targets(kernel: Kernel) -> Iterator[Target]:
    """Targets of both energies, with a few texts each: whole ones, and one with a fixed token and
    a restricted site.
    """
    length = max(3, kernel.sites_per_step + 1)
    tokens = TOKENS if kernel.sites_per_step == 1 else 2
    norm = TabularMLM.random(tokens, length, 1)
    yield Target(norm, [norm.mask_id] * length, Energy("norm"))
    raw = TabularMLM.random(tokens, length, 2)
    yield Target(raw, [raw.mask_id] * length, Energy("raw"))
    blanks = max(2, kernel.sites_per_step)
    restricted = TabularMLM.random(TOKENS, blanks + 1, 3)
    template = [1, *[restricted.mask_id] * blanks]
    yield Target(restricted, template, allowed={1: [0, 2]})


def _site_choices(chains: KernelOnTarget) -> list[Int[Tensor, " k"]]:
    """The sites of a few steps: neighbours in both orders."""
    sites = chains.target.sites
    size = chains.method.sites_per_step
    first = torch.arange(size)
    return [first, first.flip(0) + sites - size]


def _check_randomness(chains: KernelOnTarget) -> None:
    """The same randomness gives the same texts."""
    texts = all_texts(chains.target)
    sites = _site_choices(chains)[0].to(texts.device).expand(len(texts), -1)
    after = []
    for _ in range(REPEATS):
        state, _passes = chains.method.init(chains, texts)
        streams = ChainStreams(0, range(len(texts)), chains.target.device)
        state, _info = kernel_step(chains, state, streams.of(0, 0), sites)
        after.append(state.ids.clone())
    if any(not torch.equal(after[0], other) for other in after[1:]):
        raise AssertionError(
            f"{chains.method.name} draws outside of the given randomness: the same step with the"
            " same rng gave other texts; draw all numbers by rng"
        )


def _check_other_sites(chains: KernelOnTarget, sites: Int[Tensor, " k"]) -> None:
    """A step leaves all positions as they are but those of its sites."""
    texts = all_texts(chains.target)
    state, _passes = chains.method.init(chains, texts)
    streams = ChainStreams(1, range(len(texts)), chains.target.device)
    here = sites.to(texts.device)
    state, _info = kernel_step(chains, state, streams.of(0, 0), here.expand(len(texts), -1))
    changed = (state.ids != texts).any(0)
    changed[chains.target.free_positions[here]] = False
    if bool(changed.any()):
        position = int(changed.nonzero()[0])
        raise AssertionError(
            f"{chains.method.name} was given the sites {sites.tolist()} and changed position"
            f" {position}, which is none of them"
        )


def _check_matrix(chains: KernelOnTarget, sites: Int[Tensor, " k"]) -> None:
    """The rows of K sum to 1, and the law of the kernel is left invariant."""
    name = chains.method.name
    matrix = transition_matrix(chains, sites)
    lost = float((matrix.sum(1) - 1).abs().max())
    if lost > EXACT:
        raise AssertionError(
            f"{name}: the outcomes of a step at the sites {sites.tolist()} have probabilities that"
            f" sum to 1 only up to {lost:.2g}"
        )
    law = _law(chains)
    if law is None:
        return
    moved = float((law @ matrix - law).abs().max())
    if not moved <= EXACT:  # NaN is none either
        raise AssertionError(
            f"{name} says by log_law that it leaves {chains.method.law} invariant, and a step at"
            f" the sites {sites.tolist()} moves this law by {moved:.2g}: its acceptance, its"
            " proposal densities or log_law are wrong"
        )


def _law(chains: KernelOnTarget) -> Float[Tensor, " N"] | None:
    """The law over all texts that the kernel promises; None if it promises nothing."""
    log_law = chains.method.log_law(chains, all_texts(chains.target))
    if log_law is None:
        return None
    return log_law.double().cpu().softmax(0)
