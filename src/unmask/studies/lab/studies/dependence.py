"""Theorem 3, (1) and (2): strong dependence is slow.

As the coupling rises the law splits into modes and the gap closes. The mixing time and the
samples that a masked loss needs explode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from unmask.common.border.calls import changed
from unmask.studies.lab.panels import (
    SAMPLES_NEEDED,
    agreement_bars,
    draw_curve,
    panels,
    plain_numbers,
    shades,
)
from unmask.studies.lab.spin_model import CURIE_WEISS, SpinModel
from unmask.studies.lab.study import Out, Points, Study, Watch, counted, study, table_of

if TYPE_CHECKING:
    from unmask.common.figures import Figure
    from unmask.studies.lab.model import Counts, LabModel

ANY_COUPLING = changed(CURIE_WEISS, coupling=None)
SHOWN_COUPLINGS = (0.1, 0.3, 0.6)
"""Couplings in the table and the bars, if the user gives none."""
MOST_MASKED = 3
"""Mask sizes are 1 to 3 sites, or to the number of sites if that is less."""


@study
def dependence(
    model: SpinModel = ANY_COUPLING, *, out: Out = None, progress: Watch = None
) -> Study:
    """Theorem 3: strong dependence makes generation and training slow.

    The curves go from coupling 0 to 0.6. Table and bars are of the coupling that is given, or
    of 0.1, 0.3 and 0.6.
    """
    import numpy as np

    from unmask.studies.lab.model import agreement_law

    assert model.sites is not None  # `study` has filled it
    curve_couplings = np.linspace(0, 0.6, 13).tolist()
    if model.coupling is None:
        shown = list(SHOWN_COUPLINGS)
    else:
        shown = [model.coupling]
    sizes = range(1, min(MOST_MASKED, model.sites) + 1)
    points: Points = []
    laws: dict[float, Counts] = {}  # of how many sites agree, by coupling
    for coupling in counted(progress, sorted({*curve_couplings, *shown}), "couplings"):
        spins = model.at(coupling)
        laws[coupling] = agreement_law(spins)
        costs = _costs_by_size(spins, sizes)
        points += [{"coupling": coupling, **cost} for cost in costs]

    in_table = ("k", "pair_information", "gap", "mixing_time", "worst_cost")
    shown_points = [point for point in points if point["coupling"] in shown]
    rows = []
    for point, cells in zip(shown_points, table_of(shown_points, in_table), strict=True):
        rows.append((f"{point['coupling']:g}", *cells))
    single_sites = {point["coupling"]: point for point in points if point["k"] == 1}
    weakest = single_sites[shown[0]]
    strongest = single_sites[shown[-1]]
    if len(shown) == 1:
        findings = _at_one_coupling(strongest)
    else:
        findings = _between_couplings(weakest, strongest)
    if _has_two_modes(laws[shown[-1]]):
        findings.append(
            "Why: the law splits into two modes, and a step that changes few sites cannot cross"
            " between them."
        )
    shown_laws = {f"coupling {coupling:g}": laws[coupling] for coupling in shown}
    return Study(
        name="dependence",
        title="Theorem 3: strong dependence is slow",
        claim="Li et al. (2024): “Strong dependencies among target positions cause slow generation"
        " (multimodal) and slow training (via theorem 1).”",
        findings=findings,
        caption=f"{replace(model, coupling=None).describe()}, by coupling",
        columns=(
            "coupling",
            "k",
            "mutual information of two sites, nats",
            "gap",
            "t_mix",
            "samples, worst direction",
        ),
        cells=rows,
        note="t_mix: steps until within 1/4 of the law, from any start. Samples: multiples of what"
        " maximum likelihood needs.",
        draw=lambda: _draw_dependence(points, sizes, shown_laws),
        numbers={
            "options": model.options(coupling=shown),
            "points": points,
            "agreement_laws": {f"{coupling:g}": law.tolist() for coupling, law in laws.items()},
        },
    )


def _costs_by_size(model: LabModel, sizes: Sequence[int]) -> Points:
    """For each number k of masked sites: the gap and the mixing time of k-Gibbs, and the samples
    that the masked loss needs in its worst direction.
    """
    from unmask.studies.lab import dynamics, estimation
    from unmask.studies.lab.entropies import pair_information

    fisher = estimation.fisher_information(model)
    information = pair_information(model)
    costs: Points = []
    for size in sizes:
        chain = dynamics.gibbs(model, size)
        masks = dynamics.uniform_masks(model.space, size)
        covariance = estimation.block_covariance(model, masks)
        costs.append(
            {
                "k": size,
                "gap": dynamics.spectral_gap(chain, model.p),
                "mixing_time": dynamics.mixing_time(chain, model.p),
                "worst_cost": estimation.worst_cost(covariance, fisher),
                "pair_information": information,
            }
        )
    return costs


def _at_one_coupling(point: Mapping[str, Any]) -> list[str]:
    """The findings if the user gives a coupling; `point` has its numbers at k = 1."""
    return [
        (
            "Slow generation: with masks of 1 site, the mixing time at coupling"
            f" {point['coupling']:g} is {point['mixing_time']:,.0f} steps."
        ),
        (
            f"Slow training: the masked loss needs {point['worst_cost']:,.1f} times the samples"
            " of maximum likelihood there, by the dictionary of theorem 1."
        ),
    ]


def _between_couplings(weakest: Mapping[str, Any], strongest: Mapping[str, Any]) -> list[str]:
    """The findings about several couplings, from the numbers of two of them at k = 1."""
    return [
        (
            "Slow generation: with masks of 1 site, going from coupling"
            f" {weakest['coupling']:g} to {strongest['coupling']:g} takes the mixing time from"
            f" {weakest['mixing_time']:,.0f} to {strongest['mixing_time']:,.0f} steps."
        ),
        (
            "Slow training: the samples that the masked loss needs, relative to maximum"
            f" likelihood, go from {weakest['worst_cost']:,.1f} to"
            f" {strongest['worst_cost']:,.0f} times, by the dictionary of theorem 1."
        ),
    ]


def _has_two_modes(law: Counts) -> bool:
    """Whether some number of sites between none and all is less probable than both ends."""
    return bool(min(law[0], law[-1]) > law.min())


def _draw_dependence(points: Points, sizes: Sequence[int], laws: Mapping[str, Counts]) -> Figure:
    figure, (left, middle, right) = panels(
        ("Generation slows down", "coupling of each pair", "mixing time, steps"),
        ("Training slows down", "coupling of each pair", SAMPLES_NEEDED),
        ("The law of how many sites agree", "", ""),
    )
    for axis, name in ((left, "mixing_time"), (middle, "worst_cost")):
        for k, colour in zip(sizes, shades(len(sizes)), strict=True):
            of_size = [point for point in points if point["k"] == k]
            draw_curve(
                axis, of_size, x="coupling", y=name, look="o-", color=colour, label=f"k = {k}"
            )
        axis.set(yscale="log")
        plain_numbers(axis.yaxis)
        axis.legend(title="masked sites")
    agreement_bars(right, laws)
    return figure
