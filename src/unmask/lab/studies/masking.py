"""Theorem 2: masking more is statistically better, and the two assumptions that the sentence needs.

    Gamma_{k+1} <= Gamma_k   for one mask per sample and joint block conditionals.

It fails for factorised heads, which transformers have, and when all masks of each sample are averaged. A Monte Carlo over
samples checks the closed forms.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from unmask.errors import InputError
from unmask.lab import figures
from unmask.lab.dynamics import gibbs, slowest, uniform_masks
from unmask.lab.estimation import (
    Learning,
    Loss,
    Matrix,
    averaged_block_covariance,
    block_covariance,
    factorised_covariance,
    fisher_information,
    learn,
    least_eigenvalue,
)
from unmask.lab.model import LabModel
from unmask.lab.studies.study import ModelSettings, Study, Table, counted, without_rounding
from unmask.options.lab import Masking
from unmask.runs.progress import Progress

if TYPE_CHECKING:
    from unmask.figures import Figure


ESTIMATORS = {"block": block_covariance, "factorised": factorised_covariance, "averaged": averaged_block_covariance}


def covariances(model: LabModel) -> dict[str, list[Matrix]]:
    """Asymptotic covariances Gamma_k of the three estimators, for k = 1..N."""
    laws = [uniform_masks(model.space, k) for k in range(1, model.space.sites + 1)]
    return {name: [covariance(model, law) for law in laws] for name, covariance in ESTIMATORS.items()}


def slow_direction(model: LabModel) -> LabModel:
    """The one-parameter family along which single-site Gibbs is slowest."""
    return model.along(slowest(gibbs(model, 1), model.p)[1], "the slowest direction of single-site Gibbs")


def drops(curve: list[Matrix]) -> list[float]:
    """Least eigenvalue of Gamma_k - Gamma_{k+1}: negative where more masking made some direction worse.

    Where the parameters are not identified Gamma is infinite: the drop to or from it is infinite, and none between two such.
    """
    return [_drop(a, b) for a, b in zip(curve, curve[1:], strict=False)]


def _drop(a: Matrix, b: Matrix) -> float:
    before, after = (bool(np.isfinite(gamma).all()) for gamma in (a, b))
    if before and after:
        return least_eigenvalue(a - b)
    return 0.0 if before == after else np.inf if after else -np.inf


def run(options: Masking, progress: Progress | None = None) -> Study:
    """Compute the study."""
    settings = ModelSettings.of(options)
    slow_settings = ModelSettings(sites=options.slow_sites, coupling=options.slow_coupling)
    learn_settings = ModelSettings(sites=options.learn_sites, coupling=options.learn_coupling, fields=options.learn_fields)
    model, learned, slow = settings.build(), learn_settings.build(), slow_direction(slow_settings.build())
    curves = covariances(model)
    slow_curves, slow_best = covariances(slow), 1 / float(fisher_information(slow)[0, 0])
    traces = {name: [float(np.trace(g)) for g in curve] for name, curve in curves.items()}
    block, factorised = traces["block"], traces["factorised"]
    slow_one, slow_all = ([float(g[0, 0]) / slow_best for g in slow_curves[name]] for name in ("block", "averaged"))
    learnt = _learn(learned, options, progress)
    laws = [uniform_masks(learned.space, k) for k in range(1, learned.space.sites + 1)]
    closed = {
        loss: [float(np.trace(ESTIMATORS[loss](learned, law))) for law in laws[: len(fits)]] for loss, fits in learnt.items()
    }
    best = 1 + int(np.argmin(factorised))
    worst_average = max(b / a for a, b in zip(slow_all, slow_all[1:], strict=False))
    differences = _differences(learnt, closed)
    findings = [
        "**As stated, it is true**: with one random mask per sample and the joint probability of the masked block, the total "
        f"variance falls from {block[0]:.0f} (k=1) to {block[-1]:.0f} (k={len(block)}, which is maximum likelihood), in every "
        "direction of parameter space (table: every eigenvalue of Γ_k - Γ_k+1 is at least zero, to rounding).",
        "**It needs the joint of the block.** A transformer head scores each masked token alone, given the visible ones. "
        f"Then {'the curve is a U: ' if 1 < best < len(block) - 1 else ''}the variance is least at k={best} "
        f"({factorised[best - 1]:.0f}), {factorised[-2]:.0f} at k={len(block) - 1}"
        + (
            ", and with everything masked the couplings cannot be learned at all, since only single-site marginals are left."
            if np.isinf(factorised[-1])
            else "."
        ),
        "**It needs one mask per sample.** If every sample is seen under *all* its masks, averaging is never worse than one "
        "mask, but the order in k is lost: along the direction where single-site Gibbs is slowest "
        f"({slow_settings.describe()}) k=1 is already as good as maximum likelihood, and from one k to the next the variance "
        f"{f'grows by up to {worst_average:.1f} times' if worst_average > 1.001 else 'does not grow'}. It is ⟨s,L²s⟩/⟨s,Ls⟩² "
        "with L = I - P_k: least exactly when the score s is an eigenfunction of the sampler.",
        f"**The closed forms are what fits show**: {options.fits} fits to {options.samples:,} samples for each k and each "
        f"loss; {sum(z < 2 for z in differences)} of {len(differences)} means are within two standard errors of the theory, "
        f"the farthest is {max(differences):.1f} away.",
    ]
    return Study(
        "masking",
        "Theorem 2: masking more is better, under two assumptions",
        "“Masking more is (statistically) better.”",
        findings,
        _tables(options, (settings, slow_settings, learn_settings), traces, curves, (slow_one, slow_all), learnt, closed),
        "Left: total asymptotic variance by mask size; joint block conditionals fall, factorised heads turn up again and end "
        "at infinity. Middle: one direction of parameter space, relative to maximum likelihood; with one mask per sample the "
        "cost falls, with all masks averaged it is lower but not monotone. Right: fits to samples (dots, two standard "
        "errors) on the closed forms (lines).",
        lambda: _draw(traces, (slow_one, slow_all), learnt, closed),
        {
            "options": options.to_dict()
            | {"model": settings.describe(), "slow": slow_settings.describe(), "learned": learn_settings.describe()},
            "trace": traces,
            "least_eigenvalue_of_drop": {name: drops(curve) for name, curve in curves.items()},
            "slow_direction": {"one_mask": slow_one, "all_masks": slow_all},
            "monte_carlo": {loss: [asdict(r) for r in results] for loss, results in learnt.items()},
            "monte_carlo_theory": closed,
        },
    )


def _learn(model: LabModel, options: Masking, progress: Progress | None) -> dict[str, list[Learning]]:
    plan: list[tuple[Loss, int]] = [("block", k) for k in range(1, model.space.sites + 1)]
    plan += [("factorised", k) for k in range(1, model.space.sites)]
    step = counted(progress, options.fits * len(plan), "fits")
    out: dict[str, list[Learning]] = {"block": [], "factorised": []}
    for index, (loss, k) in enumerate(plan):
        law = uniform_masks(model.space, k)
        out[loss].append(learn(model, law, loss, options.samples, options.fits, options.seed + index, step))
    return out


def _differences(learnt: dict[str, list[Learning]], closed: dict[str, list[float]]) -> list[float]:
    """Distances of the fits from the theory, in standard errors."""
    if any(fit.standard_error == 0 for fits in learnt.values() for fit in fits):
        raise InputError("the samples of the fits are all equal, so no fit differs from another: use a smaller learn_coupling")
    return [abs(r.mean - t) / r.standard_error for loss in learnt for r, t in zip(learnt[loss], closed[loss], strict=True)]


def _tables(
    options: Masking,
    models: tuple[ModelSettings, ModelSettings, ModelSettings],
    traces: dict[str, list[float]],
    curves: dict[str, list[Matrix]],
    slow: tuple[list[float], list[float]],
    learnt: dict[str, list[Learning]],
    closed: dict[str, list[float]],
) -> list[Table]:
    whole, slow_model, learned = models
    falls = [[*(without_rounding(drop, 1e-10) for drop in drops(curve)), "-"] for curve in curves.values()]
    main = Table(
        f"{whole.describe()}: trace of Γ_k, and the least eigenvalue of Γ_k - Γ_k+1",
        ("k", "joint block", "factorised head", "all masks averaged", "least eig., block", "factorised", "averaged"),
        [(k, *row) for k, row in enumerate(zip(*traces.values(), *falls, strict=True), 1)],
        "Every coupling and every field is a parameter. A negative least eigenvalue means that some direction got worse with "
        "more masking.",
    )
    one_direction = Table(
        f"{slow_model.describe()}: variance along the slowest direction, maximum likelihood = 1",
        ("k", "one mask per sample", "all masks averaged"),
        [(k + 1, *pair) for k, pair in enumerate(zip(*slow, strict=True))],
    )
    cells = {loss: [(r.mean, r.standard_error, t) for r, t in zip(learnt[loss], closed[loss], strict=True)] for loss in learnt}
    unknown = ("not identified", "", float("inf"))
    monte_carlo = Table(
        f"{learned.describe()}: n·MSE over {options.fits} fits to n={options.samples:,} samples",
        ("k", "joint block: fits", "± s.e.", "theory", "factorised: fits", "± s.e.", "theory"),
        [
            (k, *block, *factorised)
            for k, (block, factorised) in enumerate(zip(cells["block"], [*cells["factorised"], unknown], strict=True), 1)
        ],
    )
    return [main, one_direction, monte_carlo]


def _draw(
    traces: dict[str, list[float]],
    slow: tuple[list[float], list[float]],
    learnt: dict[str, list[Learning]],
    closed: dict[str, list[float]],
) -> Figure:
    figure, (left, middle, right) = figures.panels(
        ("Factorised heads turn the curve up", "Averaging all masks loses the order", "Fits agree with the closed forms")
    )
    block, factorised, averaged = traces.values()
    sizes = range(1, len(block) + 1)
    finite = [v for v in factorised if np.isfinite(v)]
    left.plot(sizes, block, "o-", color=figures.BLUE, label="joint block (theorem 2)")
    left.plot(sizes[: len(finite)], finite, "s-", color=figures.RED, label="factorised head")
    left.plot(sizes, averaged, "^--", color=figures.GREEN, label="joint block, all masks averaged", linewidth=1.2)
    if len(finite) < len(sizes):
        top = 1.15 * max(finite + block)
        arrow = {"arrowstyle": "->", "color": figures.RED, "linestyle": ":"}
        left.annotate("", (sizes[-1], top), (sizes[len(finite) - 1], finite[-1]), arrowprops=arrow)
        left.text(sizes[-1], top, "∞", color=figures.RED, ha="center", va="bottom", fontsize=14)
        left.set_ylim(0, 1.7 * max(finite + block))
    left.set(xlabel="masked sites k", ylabel="total asymptotic variance, " + r"$\mathrm{tr}\,\Gamma_k$", xticks=sizes)
    left.legend(loc="upper left")
    steps = range(1, len(slow[0]) + 1)
    middle.plot(steps, slow[0], "o-", color=figures.BLUE, label="one mask per sample")
    middle.plot(steps, slow[1], "^-", color=figures.GREEN, label="all masks averaged")
    for x, y in zip(steps[:-1], slow[1], strict=False):
        middle.annotate(f"{y:.2f}", (x, y), (0, 7), textcoords="offset points", ha="center", color=figures.GREEN, fontsize=9)
    middle.axhline(1, color=figures.GREY, linewidth=1, linestyle="--")
    middle.text(1, 0.93, "maximum likelihood", color=figures.GREY, va="top", fontsize=9)
    middle.set(yscale="log", ylim=(0.6, max(slow[0]) * 1.8), xticks=steps)
    middle.set(xlabel="masked sites k", ylabel="variance along one direction")
    figures.plain_numbers(middle.yaxis)
    middle.legend()
    looks = (("block", figures.BLUE, "o", "joint block"), ("factorised", figures.RED, "s", "factorised head"))
    for loss, colour, marker, label in looks:
        sizes_fitted = range(1, len(closed[loss]) + 1)
        right.plot(sizes_fitted, closed[loss], "-", color=colour, label=f"{label}: closed form")
        means, errors = [r.mean for r in learnt[loss]], [2 * r.standard_error for r in learnt[loss]]
        right.errorbar(sizes_fitted, means, errors, fmt=marker, color=colour, capsize=3, label=f"{label}: fits")
    right.set_ylim(bottom=0)
    right.set(xlabel="masked sites k", ylabel="n · mean squared error", xticks=range(1, len(closed["block"]) + 1))
    right.legend()
    return figure
