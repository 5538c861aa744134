"""The figure of a run: energies and unchanged tokens along the chains, and what is accepted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unmask.sampling.chains.chain_samples import ChainSamples, Row
from unmask.sampling.chains.convergence import draws_of, functionals_of, parts_of_chains

if TYPE_CHECKING:
    from unmask.common.figures import Figure

INK = "#1b1b1b"
MOST_TRACES = 64  # Chains that are drawn one by one; the mean is of all
Colour = str | tuple[float, ...]


def chain_figure(run: ChainSamples) -> Figure:
    """Energies and unchanged tokens along the chains, and what is accepted, for the length that
    most chains have.
    """
    from unmask.common.figures import Figure, to_rgb

    kernel = run.settings.kernel
    soft = tuple(0.4 * part + 0.6 for part in to_rgb(kernel.colour))
    samples = run.samples
    chains_of_length = Counter(int(samples.length[part.start]) for part in parts_of_chains(samples))
    most_chains = max(chains_of_length.values())
    length = min(one for one, chains in chains_of_length.items() if chains == most_chains)
    values = functionals_of(run).values
    energy = draws_of(samples, values["energy"], length)
    unchanged = draws_of(samples, values["unchanged"], length)
    chains, draws = energy.shape
    sweeps = np.unique(samples.sweep[samples.length == length])[:draws]
    rates = [row for row in run.rates if row["length"] == length]
    figure = Figure(figsize=(15, 4), layout="constrained")
    of_energy, of_unchanged, of_rates = figure.subplots(1, 3)
    _draw_traces(of_energy, sweeps, energy, soft=soft, colour=kernel.colour)
    _draw_traces(of_unchanged, sweeps, unchanged, soft=soft, colour=kernel.colour)
    _draw_rates(of_rates, rates, soft=soft, colour=kernel.colour)
    of_energy.set(xlabel="sweep", ylabel="energy", title="energy along the chains")
    of_unchanged.set(
        xlabel="sweep", ylabel=f"of {length} tokens", title="tokens still those of the start"
    )
    figure.suptitle(
        f"{kernel.label}, {run.settings.energy.name} energy, {chains} chains of {length} tokens",
        color=INK,
    )
    return figure


def _draw_traces(
    axis: Any,
    sweeps: NDArray[np.integer[Any]],
    draws: NDArray[np.float64],
    soft: Colour,
    colour: Colour,
) -> None:
    """A functional along the chains, and its mean over them."""
    axis.plot(sweeps, draws[:MOST_TRACES].T, color=soft, linewidth=0.6, alpha=0.6)
    axis.plot(sweeps, draws.mean(0), color=colour, linewidth=2, label="mean of the chains")
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.legend(frameon=False)


def _draw_rates(axis: Any, rates: Sequence[Row], soft: Colour, colour: Colour) -> None:
    """Shares of the steps at each position that were accepted, and that changed its token."""
    places = np.arange(len(rates))
    accepted = [row["accepted"] / row["steps"] for row in rates]
    changed = [row["changed"] / row["steps"] for row in rates]
    axis.bar(places, accepted, color=soft, label="accepted")
    axis.bar(places, changed, color=colour, width=0.5, label="changed (novel)")
    axis.set_xticks(places, [row["position"] for row in rates])
    axis.set(
        xlabel="position",
        ylabel="share of steps",
        title="accepted, and of these the ones that change a token",
        ylim=(0, 1.18),  # room for the legend above bars of height 1
    )
    axis.legend(frameon=False, ncols=2, loc="upper center")
