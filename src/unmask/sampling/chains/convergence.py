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
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unmask.sampling.chains.sample_run import SampleRun

if TYPE_CHECKING:
    import pandas

NAMES = ("energy", "unchanged", "stutter")
FEWEST_DRAWS = 4  # Draws per chain that ArviZ needs at least
TAILS = (0.05, 0.95)  # Quantiles whose ESS the tail ESS is the smaller of
MIXED = 1.01  # R-hat, and
ENOUGH = 400  # bulk ESS that Vehtari et al. (2021) ask for before means are believed
NEARLY = 1.05  # R-hat above which an ESS means nothing
NAN = float("nan")


@dataclass(frozen=True)
class Functional:
    """One scalar function of the text, over the chains of one length; R-hat and ESS are NaN
    where they mean nothing.
    """

    name: str
    length: int
    mean: float
    sd: float
    r_hat: float
    ess_bulk: float
    ess_tail: float
    ess_per_1000_passes: float


def with_functionals(run: SampleRun) -> pandas.DataFrame:
    """The samples, with these columns besides:

    tokens      token ids from the first to the last free position
    start       those of the chain's start
    unchanged   free tokens that are those of the start
    stutter     equal neighbours among `tokens`
    at_start    whether the chain has not left its start so far
    """
    frame = run.samples.copy()
    starts = dict(zip(run.starts["chain"], run.starts["ids"], strict=True))
    positions_of: dict[int, list[int]] = {}
    spans: dict[int, slice] = {}
    for length, rates in run.rates.groupby("length"):
        positions = rates["position"].tolist()
        positions_of[length] = positions
        spans[length] = slice(min(positions), max(positions) + 1)
    tokens = []
    tokens_of_start = []
    unchanged = []
    for chain, length, ids in zip(frame["chain"], frame["length"], frame["ids"], strict=True):
        start = starts[chain]
        span = spans[length]
        tokens.append(ids[span])
        tokens_of_start.append(start[span])
        equal = sum(ids[position] == start[position] for position in positions_of[length])
        unchanged.append(float(equal))
    frame["tokens"] = tokens
    frame["start"] = tokens_of_start
    frame["unchanged"] = unchanged
    frame["stutter"] = [float(stutters(text)) for text in tokens]
    is_start = frame["unchanged"] == frame["length"]
    # Samples are in the order of the sweeps: the minimum so far is false once a chain has moved.
    frame["at_start"] = is_start.groupby(frame["chain"]).cummin()
    return frame


def stutters(text: Sequence[int] | NDArray[np.integer[Any]]) -> int:
    """How many neighbouring tokens are equal."""
    return sum(int(token == following) for token, following in pairwise(text))


def stutter_rate(texts: Sequence[Sequence[int] | NDArray[np.integer[Any]]]) -> float:
    """Share of neighbouring tokens that are equal; NaN for texts of one token."""
    pairs = sum(max(0, len(text) - 1) for text in texts)
    if pairs == 0:
        return NAN
    return sum(stutters(text) for text in texts) / pairs


def draws_of(frame: pandas.DataFrame, name: str) -> NDArray[np.float64]:
    """A functional as (chains, draws), truncated to the shortest chain."""
    chains = [part[name].to_numpy(dtype=np.float64) for _, part in frame.groupby("chain")]
    shortest = min(len(chain) for chain in chains)
    return np.array([chain[:shortest] for chain in chains])


def measure(name: str, length: int, draws: NDArray[np.float64], passes: int) -> Functional:
    """R-hat and ESS of one functional.

    draws    its values, shape (chains, draws)
    passes   forward passes of all chains
    """
    draws_per_chain = draws.shape[1]
    r_hat = ess_bulk = ess_tail = NAN
    if draws_per_chain >= FEWEST_DRAWS and np.ptp(draws) > 0:
        r_hat, ess_bulk, ess_tail = _convergence(draws)
    ess_per_1000_passes = NAN
    if passes:
        ess_per_1000_passes = 1000 * ess_bulk / passes
    return Functional(
        name=name,
        length=length,
        mean=float(draws.mean()),
        sd=float(draws.std()),
        r_hat=r_hat,
        ess_bulk=ess_bulk,
        ess_tail=ess_tail,
        ess_per_1000_passes=ess_per_1000_passes,
    )


def _convergence(draws: NDArray[np.float64]) -> tuple[float, float, float]:
    """R-hat, bulk ESS and tail ESS, NaN where they mean nothing."""
    from arviz_stats import base

    stats: Any = base.array_stats  # type: ignore[attr-defined,unused-ignore]
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
