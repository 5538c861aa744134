"""Figures of a run, in the colour of its kernel.

chains     energies along the chains, where they are in the end, and what is accepted at each position
decoders   energies of the texts, and the log-probability with which each was drawn where that is known
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unmask.sampling.run.diagnostics import draws_of, with_functionals
from unmask.sampling.run.result import SampleRun

if TYPE_CHECKING:
    from unmask.figures import Figure

INK = "#1b1b1b"
MOST_TRACES = 64


class Shades(NamedTuple):
    """The kernel's colour, and a softer one."""

    accent: str
    soft: Any


def chain_figure(run: SampleRun) -> Figure:
    """Four panels, which show the length that most chains have; one or two for a decoder."""
    from matplotlib.colors import to_rgb

    from unmask.figures import Figure

    kernel = run.settings.kernel
    shades = Shades(kernel.colour, tuple(0.4 * part + 0.6 for part in to_rgb(kernel.colour)))
    if kernel.decodes:
        return _decoder_figure(run, shades)
    frame = with_functionals(run)
    length = int(frame.groupby("length")["chain"].nunique().idxmax())
    part = frame[frame["length"] == length]
    figure = Figure(figsize=(11, 7), layout="constrained")
    axes = figure.subplots(2, 2)
    energy = draws_of(part, "energy")
    sweeps = np.sort(part["sweep"].unique())[: energy.shape[1]]
    _traces(axes[0, 0], shades, sweeps, energy, "energy", "energy along the chains")
    _halves(axes[0, 1], shades, energy)
    _rates(axes[1, 0], shades, run, length)
    unchanged = draws_of(part, "unchanged")
    _traces(axes[1, 1], shades, sweeps, unchanged, f"of {length} tokens", "tokens still those of the start")
    figure.suptitle(f"{kernel.label}, {run.settings.energy} energy, {len(energy)} chains of {length} tokens", color=INK)
    return figure


def _decoder_figure(run: SampleRun, shades: Shades) -> Figure:
    """Texts of a decoder have no order: their energies, and log p against -E if the decoder knows its log p."""
    from unmask.figures import Figure

    length = int(run.samples["length"].mode().iloc[0])
    part = run.samples[run.samples["length"] == length]
    known = bool(part["log_prob"].notna().any())
    figure = Figure(figsize=(11 if known else 6, 4), layout="constrained")
    axes = figure.subplots(1, 2 if known else 1, squeeze=False)[0]
    axes[0].hist(part["energy"], bins=30, color=shades.soft)
    axes[0].set(xlabel="energy", ylabel="texts", title="energies of the texts")
    if known:
        axes[1].scatter(-part["energy"], part["log_prob"], s=8, color=shades.accent, alpha=0.6)
        axes[1].set(xlabel="minus energy", ylabel="log-probability, given the order", title="how the two scores agree")
    label = run.settings.kernel.label
    figure.suptitle(f"{label}, {run.settings.energy} energy, {len(part)} texts of {length} tokens", color=INK)
    return figure


def _traces(axis: Any, shades: Shades, sweeps: Any, draws: Any, label: str, title: str) -> None:
    for chain in draws[:MOST_TRACES]:
        axis.plot(sweeps, chain, color=shades.soft, linewidth=0.6, alpha=0.6)
    axis.plot(sweeps, draws.mean(0), color=shades.accent, linewidth=2, label="mean of the chains")
    axis.set(xlabel="sweep", ylabel=label, title=title)
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.legend(frameon=False)


def _halves(axis: Any, shades: Shades, energy: Any) -> None:
    """The two halves of the run lie on each other once it has mixed."""
    half = max(1, energy.shape[1] // 2)
    bins = np.histogram_bin_edges(energy, bins=30)
    axis.hist(energy[:, :half].ravel(), bins=bins, density=True, color=shades.soft, label="first half of the run")
    axis.hist(energy[:, -half:].ravel(), bins=bins, density=True, histtype="step", linewidth=2, color=INK, label="second half")
    axis.set(xlabel="energy", ylabel="density", title="has the energy settled?")
    axis.legend(frameon=False)


def _rates(axis: Any, shades: Shades, run: SampleRun, length: int) -> None:
    rates = run.rates[run.rates["length"] == length]
    axis.set(xlabel="position", ylabel="share of steps", title="accepted, and of these the ones that change a token")
    places = np.arange(len(rates))
    axis.bar(places, rates["accepted"] / rates["steps"], color=shades.soft, label="accepted")
    axis.bar(places, rates["changed"] / rates["steps"], color=shades.accent, width=0.5, label="changed (novel)")
    axis.set_xticks(places, rates["position"].tolist())
    axis.set_ylim(0, 1.18)
    axis.legend(frameon=False, ncols=2, loc="upper center")
