"""Theorem 2: masking more is statistically better, and the two assumptions that the sentence needs.

    Gamma_{k+1} <= Gamma_k   for one mask per sample and joint block conditionals.

It fails for factorised heads, which transformers have, and when all masks of each sample are averaged. A Monte Carlo over
samples checks the closed forms.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from annotated_types import Interval

from unmask.lab.spins import Folder, Seed, SpinModel
from unmask.lab.study import BLUE, GREEN, GREY, RED, Study, Table, counted, lab_folder, panels, plain_numbers, without_rounding
from unmask.runs.progress import Progress

if TYPE_CHECKING:
    from unmask.figures import Figure
    from unmask.lab.estimation import Learning

DEFAULT = SpinModel(fields="-0.5:0.5")
SLOW = SpinModel(sites=5, coupling=0.5)
"""The model where averaging all masks goes wrong."""
LEARNED, SAMPLES = SpinModel(sites=5, fields="normal:0.2:3"), 4000
"""The model that is fitted, and the samples of each fit."""
Curves = dict[str, list[float]]


def masking(
    model: SpinModel = DEFAULT,
    *,
    fits: Annotated[int, Interval(ge=2, le=100_000)] = 300,
    seed: Seed = 0,
    out: Folder | None = None,
    progress: Progress | None = None,
) -> Study:
    """Theorem 2: masking more is statistically better, and what that needs.

    Parameters
    ----------
    model
        Spins, or an explicit joint.
    fits
        Fits to samples, for each k and each loss.
    seed
        Seed of the samples.
    out
        Folder for figure and numbers: new, empty, or an earlier lab's.
    progress
        Called with the parts done, their number, and what they are.
    """
    import numpy as np

    from unmask.lab.dynamics import uniform_masks
    from unmask.lab.estimation import ESTIMATORS, covariances, drops, fisher_information, learn, slow_direction

    folder, learned, slow = lab_folder(out, model.table), LEARNED.build(), slow_direction(SLOW.build())
    matrices, slow_matrices = covariances(model.build()), covariances(slow)
    traces = {name: [float(np.trace(gamma)) for gamma in several] for name, several in matrices.items()}
    falls, least = {name: drops(several) for name, several in matrices.items()}, 1 / float(fisher_information(slow)[0, 0])
    one, averaged = ([float(gamma[0, 0]) / least for gamma in slow_matrices[name]] for name in ("block", "averaged"))
    sizes = range(1, LEARNED.sites + 1)
    step = counted(progress, fits * (2 * LEARNED.sites - 1), "fits")
    learnt: dict[str, list[Learning]] = {"block": [], "factorised": []}
    closed: Curves = {"block": [], "factorised": []}
    for index, (loss, k) in enumerate([("block", k) for k in sizes] + [("factorised", k) for k in sizes[:-1]]):
        law = uniform_masks(learned.space, k)
        learnt[loss].append(learn(learned, law, loss, SAMPLES, fits, seed + index, step))
        closed[loss].append(float(np.trace(ESTIMATORS[loss](learned, law))))
    cells = {
        loss: [(fit.mean, fit.standard_error, theory) for fit, theory in zip(learnt[loss], closed[loss], strict=True)]
        for loss in learnt
    }
    distances = [abs(mean - theory) / error for several in cells.values() for mean, error, theory in several]
    block, factorised, largest = traces["block"], traces["factorised"], len(traces["block"])
    best = 1 + int(np.argmin(factorised))
    growth = max(b / a for a, b in zip(averaged, averaged[1:], strict=False))
    findings = [
        "**As stated, it is true**: with one random mask per sample and the joint probability of the masked block, the total "
        f"variance falls from {block[0]:.0f} (k=1) to {block[-1]:.0f} (k={largest}, which is maximum likelihood), in every "
        "direction of parameter space (table: every eigenvalue of Γ_k - Γ_k+1 is at least zero, to rounding).",
        "**It needs the joint of the block.** A transformer head scores each masked token alone, given the visible ones. "
        f"Then {'the curve is a U: ' if 1 < best < largest - 1 else ''}the variance is least at k={best} "
        f"({factorised[best - 1]:.0f}), {factorised[-2]:.0f} at k={largest - 1}"
        + (
            ", and with everything masked the couplings cannot be learned at all, since only single-site marginals are left."
            if math.isinf(factorised[-1])
            else "."
        ),
        "**It needs one mask per sample.** If every sample is seen under *all* its masks, averaging is never worse than one "
        f"mask, but the order in k is lost: along the direction where single-site Gibbs is slowest ({SLOW.describe()}) k=1 is "
        f"already as good as maximum likelihood, and from one k to the next the variance grows by up to {growth:.1f} times. It is "
        "⟨s,L²s⟩/⟨s,Ls⟩² with L = I - P_k: least exactly when the score s is an eigenfunction of the sampler.",
        f"**The closed forms are what fits show**: {fits} fits to {SAMPLES:,} samples for each k and each loss; "
        f"{sum(z < 2 for z in distances)} of {len(distances)} means are within two standard errors of the theory, the farthest is "
        f"{max(distances):.1f} away.",
    ]
    shown = [[*(without_rounding(drop, 1e-10) for drop in several), "-"] for several in falls.values()]
    tables = [
        Table(
            f"{model.describe()}: trace of Γ_k, and the least eigenvalue of Γ_k - Γ_k+1",
            ("k", "joint block", "factorised head", "all masks averaged", "least eig., block", "factorised", "averaged"),
            [(k, *row) for k, row in enumerate(zip(*traces.values(), *shown, strict=True), 1)],
            "Every coupling and every field is a parameter. A negative least eigenvalue means that some direction got worse with "
            "more masking.",
        ),
        Table(
            f"{SLOW.describe()}: variance along the slowest direction, maximum likelihood = 1",
            ("k", "one mask per sample", "all masks averaged"),
            [(k, *pair) for k, pair in enumerate(zip(one, averaged, strict=True), 1)],
        ),
        Table(
            f"{LEARNED.describe()}: n·MSE over {fits} fits to n={SAMPLES:,} samples",
            ("k", "joint block: fits", "± s.e.", "theory", "factorised: fits", "± s.e.", "theory"),
            list(zip(sizes, *zip(*cells["block"]), *zip(*cells["factorised"], ("not identified", "", math.inf)))),  # noqa: B905
        ),
    ]
    return Study(
        "masking",
        "Theorem 2: masking more is better, under two assumptions",
        "Li et al. (2024): “Masking more is (statistically) better.”",
        findings,
        tables,
        "Left: total asymptotic variance by mask size; joint block conditionals fall, factorised heads turn up again and end "
        "at infinity. Middle: one direction of parameter space, relative to maximum likelihood; with one mask per sample the "
        "cost falls, with all masks averaged it is lower but not monotone. Right: fits to samples (dots, two standard "
        "errors) on the closed forms (lines).",
        lambda: _draw(traces, one, averaged, learnt, closed),
        {
            "options": model.options(fits=fits, seed=seed) | {"slow": SLOW.describe(), "learned": LEARNED.describe()},
            "trace": traces,
            "least_eigenvalue_of_drop": falls,
            "slow_direction": {"one_mask": one, "all_masks": averaged},
            "monte_carlo": {loss: [asdict(fit) for fit in several] for loss, several in learnt.items()},
            "monte_carlo_theory": closed,
        },
    ).save(folder)


def _draw(
    traces: Curves, one: list[float], averaged: list[float], learnt: dict[str, list[Learning]], closed: Curves
) -> Figure:
    figure, (left, middle, right) = panels(
        ("Factorised heads turn the curve up", "masked sites k", r"total asymptotic variance, $\mathrm{tr}\,\Gamma_k$"),
        ("Averaging all masks loses the order", "masked sites k", "variance along one direction"),
        ("Fits agree with the closed forms", "masked sites k", "n · mean squared error"),
    )
    block, factorised = traces["block"], traces["factorised"]
    sizes = range(1, len(block) + 1)
    finite = [v for v in factorised if math.isfinite(v)]
    left.plot(sizes, block, "o-", color=BLUE, label="joint block (theorem 2)")
    left.plot(sizes[: len(finite)], finite, "s-", color=RED, label="factorised head")
    left.plot(sizes, traces["averaged"], "^--", color=GREEN, label="joint block, all masks averaged", linewidth=1.2)
    if len(finite) < len(sizes):
        top = 1.15 * max(finite + block)
        arrow = {"arrowstyle": "->", "color": RED, "linestyle": ":"}
        left.annotate("", (sizes[-1], top), (sizes[len(finite) - 1], finite[-1]), arrowprops=arrow)
        left.text(sizes[-1], top, "∞", color=RED, ha="center", va="bottom", fontsize=14)
        left.set_ylim(0, 1.7 * max(finite + block))
    left.set(xticks=sizes)
    left.legend(loc="upper left")
    steps = range(1, len(one) + 1)
    middle.plot(steps, one, "o-", color=BLUE, label="one mask per sample")
    middle.plot(steps, averaged, "^-", color=GREEN, label="all masks averaged")
    for x, y in zip(steps[:-1], averaged, strict=False):
        middle.annotate(f"{y:.2f}", (x, y), (0, 7), textcoords="offset points", ha="center", color=GREEN, fontsize=9)
    middle.axhline(1, color=GREY, linewidth=1, linestyle="--")
    middle.text(1, 0.93, "maximum likelihood", color=GREY, va="top", fontsize=9)
    middle.set(yscale="log", ylim=(0.6, max(one) * 1.8), xticks=steps)
    plain_numbers(middle.yaxis)
    middle.legend()
    for loss, colour, marker, label in (("block", BLUE, "o", "joint block"), ("factorised", RED, "s", "factorised head")):
        fitted = range(1, len(closed[loss]) + 1)
        right.plot(fitted, closed[loss], "-", color=colour, label=f"{label}: closed form")
        means, errors = [fit.mean for fit in learnt[loss]], [2 * fit.standard_error for fit in learnt[loss]]
        right.errorbar(fitted, means, errors, fmt=marker, color=colour, capsize=3, label=f"{label}: fits")
    right.set_ylim(bottom=0)
    right.set(xticks=range(1, len(closed["block"]) + 1))
    right.legend()
    return figure
