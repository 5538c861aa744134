"""Figures of a run.

chains     energies along the chains, where they are in the end, and what is accepted at each position
decoders   energies of the texts, and the log-probability with which each was drawn where that is known
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unmask.sampling.chain import SampleRun
from unmask.sampling.diagnostics import draws_of, with_functionals

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, ACCENT, SOFT = "#1b1b1b", "#0072B2", "#8fb8d4"


def chain_figure(run: SampleRun) -> Figure:
    """Four panels, which show the length that most chains have; one or two for a decoder."""
    from matplotlib.figure import Figure

    if run.settings.decodes:
        return _decoder_figure(run)
    frame = with_functionals(run)
    length = int(frame.groupby("length")["chain"].nunique().idxmax())
    part = frame[frame["length"] == length]
    figure = Figure(figsize=(11, 7), layout="constrained")
    axes = figure.subplots(2, 2)
    energy = draws_of(part, "energy")
    sweeps = np.sort(part["sweep"].unique())[: energy.shape[1]]
    _traces(axes[0, 0], sweeps, energy, "energy", "energy along the chains")
    _halves(axes[0, 1], energy)
    _rates(axes[1, 0], run, length)
    _traces(axes[1, 1], sweeps, draws_of(part, "unchanged"), f"of {length} tokens", "tokens still those of the start")
    title = f"{run.settings.kernel}, {run.settings.energy} energy, {len(energy)} chains of {length} tokens"
    figure.suptitle(title, color=INK)
    return figure


def _decoder_figure(run: SampleRun) -> Figure:
    """Texts of a decoder have no order: their energies, and log p against -E if the decoder knows its log p."""
    from matplotlib.figure import Figure

    length = int(run.samples["length"].mode().iloc[0])
    part = run.samples[run.samples["length"] == length]
    known = bool(part["log_prob"].notna().any())
    figure = Figure(figsize=(11 if known else 6, 4), layout="constrained")
    axes = figure.subplots(1, 2 if known else 1, squeeze=False)[0]
    axes[0].hist(part["energy"], bins=30, color=SOFT)
    axes[0].set(xlabel="energy", ylabel="texts", title="energies of the texts")
    if known:
        axes[1].scatter(-part["energy"], part["log_prob"], s=8, color=ACCENT, alpha=0.6)
        axes[1].set(xlabel="minus energy", ylabel="log-probability, given the order", title="how the two scores agree")
    figure.suptitle(f"{run.settings.kernel}, {run.settings.energy} energy, {len(part)} texts of {length} tokens", color=INK)
    return figure


def _traces(axis: Any, sweeps: Any, draws: Any, label: str, title: str) -> None:
    for chain in draws[:64]:
        axis.plot(sweeps, chain, color=SOFT, linewidth=0.6, alpha=0.6)
    axis.plot(sweeps, draws.mean(0), color=ACCENT, linewidth=2, label="mean of the chains")
    axis.set(xlabel="sweep", ylabel=label, title=title)
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.legend(frameon=False)


def _halves(axis: Any, energy: Any) -> None:
    """The two halves of the run lie on each other once it has mixed."""
    half = max(1, energy.shape[1] // 2)
    bins = np.histogram_bin_edges(energy, bins=30)
    axis.hist(energy[:, :half].ravel(), bins=bins, density=True, color=SOFT, label="first half of the run")
    axis.hist(energy[:, -half:].ravel(), bins=bins, density=True, histtype="step", linewidth=2, color=INK, label="second half")
    axis.set(xlabel="energy", ylabel="density", title="has the energy settled?")
    axis.legend(frameon=False)


def _rates(axis: Any, run: SampleRun, length: int) -> None:
    rates = run.rates[run.rates["length"] == length]
    axis.set(xlabel="position", ylabel="share of steps", title="accepted, and of these the ones that change a token")
    places = np.arange(len(rates))
    axis.bar(places, rates["accepted"] / rates["steps"], color=SOFT, label="accepted")
    axis.bar(places, rates["changed"] / rates["steps"], color=ACCENT, width=0.5, label="changed (novel)")
    axis.set_xticks(places, rates["position"].tolist())
    axis.set_ylim(0, 1.18)
    axis.legend(frameon=False, ncols=2, loc="upper center")
