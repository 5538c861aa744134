"""The figure of a run: energies and unchanged tokens along the chains, and what is accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unmask.sampling.chains.convergence import draws_of, with_functionals
from unmask.sampling.chains.sample_run import SampleRun

if TYPE_CHECKING:
    import pandas

    from unmask.common.figures import Figure

INK = "#1b1b1b"
MOST_TRACES = 64  # Chains that are drawn one by one; the mean is of all
Colour = str | tuple[float, ...]


def chain_figure(run: SampleRun) -> Figure:
    """Energies and unchanged tokens along the chains, and what is accepted, for the length that
    most chains have.
    """
    from unmask.common.figures import Figure, to_rgb

    kernel = run.settings.kernel
    soft = tuple(0.4 * part + 0.6 for part in to_rgb(kernel.colour))
    frame = with_functionals(run)
    chains_of_length = frame.groupby("length")["chain"].nunique()
    length = int(chains_of_length.idxmax())
    samples = frame[frame["length"] == length]
    rates = run.rates[run.rates["length"] == length]
    energy = draws_of(samples, "energy")
    unchanged = draws_of(samples, "unchanged")
    chains, draws = energy.shape
    sweeps = np.sort(samples["sweep"].unique())[:draws]
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


def _draw_rates(axis: Any, rates: pandas.DataFrame, soft: Colour, colour: Colour) -> None:
    """Shares of the steps at each position that were accepted, and that changed its token."""
    places = np.arange(len(rates))
    accepted = rates["accepted"] / rates["steps"]
    changed = rates["changed"] / rates["steps"]
    axis.bar(places, accepted, color=soft, label="accepted")
    axis.bar(places, changed, color=colour, width=0.5, label="changed (novel)")
    axis.set_xticks(places, rates["position"].tolist())
    axis.set(
        xlabel="position",
        ylabel="share of steps",
        title="accepted, and of these the ones that change a token",
        ylim=(0, 1.18),  # room for the legend above bars of height 1
    )
    axis.legend(frameon=False, ncols=2, loc="upper center")
