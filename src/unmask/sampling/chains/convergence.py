"""Scalar functions of the texts of chains, with their R-hat and effective sample sizes.

    energy      E(x)
    unchanged   tokens that are still those of the chain's start
    stutter     neighbouring tokens that are equal

R-hat compares the variance between chains with that within them, on ranks (Vehtari et al.
2021); near 1 when the chains look the same. ESS is the number of independent draws that would
give as good a mean. Both are computed by ArviZ. Chains over texts of different lengths have
different targets and are compared length by length.

Nothing here assumes a language. Chains that have not left their start are known by their moves,
since over a small space a chain rightly comes back to its start again and again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unmask.common.lazy import arviz_base
from unmask.sampling.chains.chain_samples import ChainSamples
from unmask.sampling.chains.chain_statistics import ENOUGH, FEWEST_DRAWS, NAN, NEARLY, Functional
from unmask.sampling.chains.samples import Samples

NAMES = ("energy", "unchanged", "stutter")
TAILS = (0.05, 0.95)  # Quantiles whose ESS the tail ESS is the smaller of


@dataclass(frozen=True, eq=False)
class Functionals:
    """The functionals of the samples of a run, a value for each sample.

    values     by name: energy, unchanged and stutter
    tokens     token ids of each sample from the first to the last free position
    starts     those of the start of each chain
    at_start   whether the chain of a sample has not left its start so far
    """

    values: dict[str, NDArray[np.float64]]
    tokens: list[NDArray[np.int32]]
    starts: list[list[int]]
    at_start: NDArray[np.bool_]


def functionals_of(run: ChainSamples) -> Functionals:
    """The functionals of the samples of a run."""
    samples = run.samples
    ids_of_start = {row["chain"]: row["ids"] for row in run.starts}
    positions_of: dict[int, list[int]] = {}
    for row in run.rates:
        positions_of.setdefault(row["length"], []).append(row["position"])
    tokens = []
    tokens_of_start: dict[int, list[int]] = {}
    unchanged = np.empty(len(samples))
    columns = (samples.chain.tolist(), samples.length.tolist(), samples.ids)
    for place, (chain, length, ids) in enumerate(zip(*columns, strict=True)):
        start = ids_of_start[chain]
        positions = positions_of[length]
        span = slice(min(positions), max(positions) + 1)
        tokens.append(ids[span])
        tokens_of_start[chain] = start[span]
        unchanged[place] = sum(int(ids[position] == start[position]) for position in positions)
    is_start = unchanged == samples.length
    # Samples are in the order of the sweeps: once a chain has moved it has left its start.
    at_start = [np.logical_and.accumulate(is_start[part]) for part in parts_of_chains(samples)]
    return Functionals(
        values={
            "energy": samples.energy,
            "unchanged": unchanged,
            "stutter": np.array([float(stutters(text)) for text in tokens]),
        },
        tokens=tokens,
        starts=list(tokens_of_start.values()),
        at_start=np.concatenate(at_start),
    )


def parts_of_chains(samples: Samples) -> list[slice]:
    """Where the samples of each chain are, which follow each other."""
    changes = np.flatnonzero(np.diff(samples.chain)) + 1
    ends = [*changes.tolist(), len(samples)]
    starts = [0, *ends[:-1]]
    return [slice(start, end) for start, end in zip(starts, ends, strict=True)]


def draws_of(samples: Samples, values: NDArray[np.float64], length: int) -> NDArray[np.float64]:
    """A functional as (chains, draws), for the chains of one length, truncated to the shortest.

    values   of the functional, one for each sample
    """
    chains = [
        values[part] for part in parts_of_chains(samples) if samples.length[part.start] == length
    ]
    shortest = min(len(chain) for chain in chains)
    return np.array([chain[:shortest] for chain in chains])


def stutters(text: Sequence[int] | NDArray[np.integer[Any]]) -> int:
    """How many neighbouring tokens are equal."""
    return sum(int(token == following) for token, following in pairwise(text))


def stutter_rate(texts: Sequence[Sequence[int] | NDArray[np.integer[Any]]]) -> float:
    """Share of neighbouring tokens that are equal; NaN for texts of one token."""
    pairs = sum(max(0, len(text) - 1) for text in texts)
    if pairs == 0:
        return NAN
    return sum(stutters(text) for text in texts) / pairs


def measure(name: str, length: int, draws: NDArray[np.float64], passes: int) -> Functional:
    """R-hat and ESS of one functional.

    draws    its values, shape (chains, draws)
    passes   forward passes of all chains
    """
    draws_per_chain = draws.shape[1]
    r_hat = ess_bulk = ess_tail = NAN
    varies = bool(np.ptp(draws) > 0)
    sd = 0.0
    if varies:  # that of equal numbers is above 0 where their mean is rounded
        sd = float(draws.std())
    if draws_per_chain >= FEWEST_DRAWS and varies:
        r_hat, ess_bulk, ess_tail = _convergence(draws)
    ess_per_1000_passes = NAN
    if passes:
        ess_per_1000_passes = 1000 * ess_bulk / passes
    return Functional(
        name=name,
        length=length,
        mean=float(draws.mean()),
        sd=sd,
        r_hat=r_hat,
        ess_bulk=ess_bulk,
        ess_tail=ess_tail,
        ess_per_1000_passes=ess_per_1000_passes,
    )


def _convergence(draws: NDArray[np.float64]) -> tuple[float, float, float]:
    """R-hat, bulk ESS and tail ESS, NaN where they mean nothing."""
    stats = arviz_base.array_stats
    axes = {"chain_axis": 0, "draw_axis": 1}
    r_hat = NAN  # of a single chain
    with np.errstate(divide="ignore", invalid="ignore"):  # chains that do not move: R-hat is inf
        ess_bulk = float(stats.ess(draws, method="bulk", **axes))
        ess_tail = float(stats.ess(draws, method="tail", prob=TAILS, **axes))
        if len(draws) > 1:
            r_hat = float(stats.rhat(draws, method="rank", **axes))
    return (
        r_hat,
        _nan_if_meaningless(ess_bulk, r_hat, draws.size),
        _nan_if_meaningless(ess_tail, r_hat, draws.size),
    )


def _nan_if_meaningless(ess: float, r_hat: float, draws: int) -> float:
    """An effective sample size, or NaN where it says nothing."""
    if r_hat > NEARLY:  # an ESS takes for granted that the chains have one distribution
        return NAN
    # Neighbouring draws on opposite sides of the mean give an ESS above the number of draws.
    # Of few draws that is an error of the estimate.
    if ess > draws and draws < ENOUGH:
        return NAN
    return ess
