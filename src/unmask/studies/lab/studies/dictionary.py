"""Theorem 1: the samples that a masked loss needs and the mixing time of its Gibbs sampler are
one quantity.

With gap_k of the Gibbs sampler that redraws k sites, and Gamma_k the asymptotic covariance of
the masked loss with k masked sites,

    max_v  v' Gamma_k v / v' I^-1 v  <=  1 / gap_k,         I = Cov(s) the Fisher information

because v' Gamma_k^-1 v is the Dirichlet form of the score v's under that sampler.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from unmask.studies.lab.panels import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    RED,
    SAMPLES_NEEDED,
    draw_curve,
    panels,
    plain_numbers,
    shades,
)
from unmask.studies.lab.spin_model import CURIE_WEISS, SpinModel
from unmask.studies.lab.study import Out, Points, Study, Watch, counted, study, table_of

if TYPE_CHECKING:
    from unmask.common.figures import Figure
    from unmask.studies.lab.dynamics import MaskLaw
    from unmask.studies.lab.model import LabModel

ADAPTIVE_SITES = 2
"""Masked sites of the masks that look at the text."""


@study
def dictionary(model: SpinModel = CURIE_WEISS, *, out: Out = None, progress: Watch = None) -> Study:
    """Theorem 1: samples needed and mixing time are one quantity."""
    import numpy as np

    from unmask.studies.lab import dynamics

    spins = model.build()
    sizes = range(1, spins.space.sites + 1)
    couplings = np.linspace(0, 0.5, 11).tolist()
    adaptive = dynamics.surprise_masks(spins, ADAPTIVE_SITES)
    laws = [dynamics.uniform_masks(spins.space, size) for size in sizes]
    laws.append(adaptive)
    rows = [_both_sides(spins, law) for law in counted(progress, laws, "mask laws")]

    sweep: Points = []
    for coupling in counted(progress, couplings, "couplings"):
        costs = _costs_by_size(model.at(coupling), sizes)
        sweep += [{"coupling": coupling, **cost} for cost in costs]

    matching = dynamics.block_dynamics(spins, adaptive)
    change = float(np.abs(spins.p @ matching - spins.p).max())
    naive_law = dynamics.stationary_law(dynamics.naive_dynamics(spins, adaptive))
    naive_tv = dynamics.total_variation(naive_law, spins.p)
    shares = [point["worst_cost"] / point["relaxation"] for point in sweep]
    identity_error = max(row["identity_error"] for row in rows)
    in_table = ("masks", "gap", "relaxation", "mixing_time", "worst_cost", "mean_cost")
    return Study(
        name="dictionary",
        title="Theorem 1: training efficiency is mixing",
        claim="Li et al. (2024): “Sample efficiency of MLM losses can be characterized via mixing"
        " time of Gibbs-like sampler.”",
        findings=[
            (
                f"The bound holds: the worst direction needs from {min(shares):.0%} to"
                f" {max(shares):.0%} of what 1/gap allows."
            ),
            (
                "The reason is an identity: the information in the masked loss along a direction v"
                " is the Dirichlet form of the score v·s under the matching Gibbs sampler"
                f" (difference {identity_error:.0e})."
            ),
            (
                "Masks that look at the text fit in if the conditional knows about the choice,"
                " p(x_K | x_-K, K) ∝ p(x) p(K | x): the chain then keeps p exactly (off by"
                f" {change:.0e}). With the plain p(x_K | x_-K) it settles on another law,"
                f" {naive_tv:.3f} away in total variation."
            ),
        ],
        caption=f"{model.describe()}: sampling (left) and learning (right) with the same masks",
        columns=(
            "masks",
            "gap",
            "1/gap",
            "t_mix",
            "samples, worst direction",
            "samples, mean direction",
        ),
        cells=table_of(rows, in_table),
        note="t_mix: steps until the sampler is within 1/4 of its law in total variation, from any"
        " start. Samples: multiples of what maximum likelihood needs; in the worst direction at"
        " most 1/gap. Adaptive masks prefer improbable tokens.",
        draw=lambda: _draw_dictionary(rows[:-1], sizes, sweep),  # without the adaptive masks
        numbers={
            "options": model.options(),
            "rows": rows,
            "sweep": sweep,
            "adaptive": {"right_invariance": change, "naive_tv": naive_tv},
        },
    )


def _both_sides(model: LabModel, law: MaskLaw) -> dict[str, Any]:
    """Numbers of the sampler and of the learner for one mask law.

    identity_error   how far the diagonal of the information is from the Dirichlet forms of the
                     scores, which it equals
    """
    from unmask.studies.lab import dynamics, estimation

    chain = dynamics.block_dynamics(model, law)
    fisher = estimation.fisher_information(model)
    information = estimation.block_information(model, law)
    covariance = estimation.block_covariance(model, law)
    gap = dynamics.spectral_gap(chain, model.p)
    forms = [dynamics.dirichlet_form(chain, model.p, score) for score in model.score.T]
    differences = [float(a) - b for a, b in zip(information.diagonal(), forms, strict=True)]
    return {
        "masks": law.name,
        "gap": gap,
        "relaxation": 1 / gap,
        "mixing_time": dynamics.mixing_time(chain, model.p),
        "worst_cost": estimation.worst_cost(covariance, fisher),
        "mean_cost": estimation.mean_cost(covariance, fisher),
        "identity_error": max(abs(difference) for difference in differences),
    }


def _costs_by_size(model: LabModel, sizes: Sequence[int]) -> Points:
    """For each number k of masked sites the two sides of the bound: 1 / gap, and the samples
    that the worst direction needs.
    """
    from unmask.studies.lab import dynamics, estimation

    fisher = estimation.fisher_information(model)
    costs: Points = []
    for size in sizes:
        law = dynamics.uniform_masks(model.space, size)
        gap = dynamics.spectral_gap(dynamics.block_dynamics(model, law), model.p)
        covariance = estimation.block_covariance(model, law)
        cost = estimation.worst_cost(covariance, fisher)
        costs.append({"k": size, "relaxation": 1 / gap, "worst_cost": cost})
    return costs


def _draw_dictionary(rows: Points, sizes: Sequence[int], sweep: Points) -> Figure:
    """`rows` has one row for each size in `sizes`."""
    figure, (left, right) = panels(
        ("Slow to sample = slow to learn", "1 / spectral gap of the Gibbs sampler", SAMPLES_NEEDED),
        (
            "Mask more, and both get faster",
            "masked sites k",
            "samples (maximum likelihood = 1), or steps",
        ),
    )
    low = 0.8  # below 1, the least of both quantities
    high = max(point["relaxation"] for point in sweep) * 1.6
    left.fill_between(  # above the diagonal
        [low, high],
        [low, high],
        high,
        color=RED,
        alpha=0.07,
        linewidth=0,
        label="forbidden by theorem 1",
    )
    for k, colour in zip(sizes, shades(len(sizes)), strict=True):
        of_size = [point for point in sweep if point["k"] == k]
        draw_curve(
            left,
            of_size,
            x="relaxation",
            y="worst_cost",
            look="o-",
            color=colour,
            label=f"k = {k}",
        )
    left.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high))

    rows_with_size = [{**row, "k": k} for k, row in zip(sizes, rows, strict=True)]
    curves = (
        ("relaxation", "1 / gap (bound)", GREY),
        ("worst_cost", "samples, worst direction", BLUE),
        ("mean_cost", "samples, mean direction", GREEN),
        ("mixing_time", "mixing time (steps)", ORANGE),
    )
    for key, label, colour in curves:
        draw_curve(right, rows_with_size, x="k", y=key, look="o-", color=colour, label=label)
    right.set(yscale="log", xticks=sizes)
    plain_numbers(left.xaxis, left.yaxis, right.yaxis)
    left.legend(loc="lower right")
    right.legend()
    return figure
