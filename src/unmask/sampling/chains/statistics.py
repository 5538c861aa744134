"""Measures how the chains of a run moved and mixed, and what texts they hold."""

from __future__ import annotations

import numpy as np

from unmask.sampling.chains.chain_samples import ChainSamples
from unmask.sampling.chains.chain_statistics import ChainStatistics
from unmask.sampling.chains.convergence import (
    NAMES,
    draws_of,
    functionals_of,
    measure,
    parts_of_chains,
    stutter_rate,
)
from unmask.sampling.chains.samples import Samples


def statistics_of(run: ChainSamples) -> ChainStatistics:
    """Statistics of a run's samples and of the steps that led to them."""
    kernel = run.settings.kernel
    samples = run.samples
    parts = parts_of_chains(samples)
    computed = functionals_of(run)
    passes = _passes_of(samples)
    steps = run.rates_of("steps")
    functionals = []
    for length in np.unique(samples.length).tolist():
        passes_of_length = _passes_of(samples.of(samples.length == length))
        for name in NAMES:
            draws = draws_of(samples, computed.values[name], length)
            functionals.append(measure(name, length, draws, passes_of_length))
    lowest = int(samples.energy.argmin())
    return ChainStatistics(
        kernel=kernel.name,
        energy=run.settings.energy.name,
        chains=len(parts),
        draws=min(part.stop - part.start for part in parts),
        passes=passes,
        scoring_passes=run.rates_of("scoring_passes"),
        # A step counts at each site that it redraws: `sites_per_step` updates are one step.
        passes_per_step=passes / steps * kernel.sites_per_step,
        acceptance=run.rates_of("accepted") / steps,
        novelty=run.rates_of("changed") / steps,
        functionals=functionals,
        stutter=stutter_rate(computed.tokens),
        start_stutter=stutter_rate(computed.starts),
        unique=len(set(samples.text)) / len(samples),
        at_start=float(computed.at_start.mean()),
        lowest_energy=float(samples.energy[lowest]),
        lowest_text=str(samples.text[lowest]),
    )


def _passes_of(samples: Samples) -> int:
    """Forward passes of all chains; a sample has those of its chain so far."""
    return sum(int(samples.passes[part].max()) for part in parts_of_chains(samples))
