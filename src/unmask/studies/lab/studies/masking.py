"""Theorem 2: masking more is statistically better.

    Gamma_{k+1} <= Gamma_k

for one mask per sample and joint block conditionals. It fails for factorised heads, which
transformers have, and when all masks of each sample are averaged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from unmask.common.border.calls import changed
from unmask.studies.lab.panels import BLUE, GREEN, RED, panels, plain_numbers
from unmask.studies.lab.spin_model import CURIE_WEISS, SpinModel
from unmask.studies.lab.study import (
    Fits,
    Out,
    Study,
    Watch,
    cell_text,
    counted,
    study,
    without_rounding,
)

if TYPE_CHECKING:
    from unmask.common.figures import Figure
    from unmask.runs.progress import Progress
    from unmask.studies.lab.estimation import Matrix
    from unmask.studies.lab.fitting import Learning, Loss

TILT = changed(CURIE_WEISS, fields="-0.5:0.5")
SLOW = changed(CURIE_WEISS, sites=5, coupling=0.5)
"""The model where averaging all masks goes wrong."""
LEARNED = changed(CURIE_WEISS, sites=5, fields="normal:0.2:3")
"""The model that is fitted."""
SAMPLES = 4000
"""Samples of each fit."""
ROUNDING = 1e-10
"""Eigenvalues of a size below this are 0 in the table."""


@study
def masking(
    model: SpinModel = TILT, *, fits: Fits = 300, out: Out = None, progress: Watch = None
) -> Study:
    """Theorem 2: masking more is statistically better, and what that needs."""
    import numpy as np

    from unmask.studies.lab.estimation import (
        covariances,
        drops,
        fisher_information,
        slow_direction,
    )

    matrices = covariances(model.build())
    traces: dict[str, list[float]] = {}
    falls: dict[str, list[float]] = {}
    for name, by_size in matrices.items():
        traces[name] = [float(np.trace(gamma)) for gamma in by_size]
        falls[name] = drops(by_size)

    slow = slow_direction(SLOW.build())
    slow_matrices = covariances(slow)
    least = 1 / float(fisher_information(slow)[0, 0])  # of maximum likelihood
    one_mask = _relative_variances(slow_matrices["block"], least)
    all_masks = _relative_variances(slow_matrices["averaged"], least)
    growth = max(more / less for less, more in pairwise(all_masks))

    checks = _fit_each_size(fits, progress)
    distances = [check.distance for check in [*checks["block"], *checks["factorised"]]]
    close = sum(distance < 2 for distance in distances)
    learnings = {}
    closed_forms = {}
    for loss, of_loss in checks.items():
        learnings[loss] = [asdict(check.learning) for check in of_loss]
        closed_forms[loss] = [check.closed_form for check in of_loss]

    block = traces["block"]
    factorised = traces["factorised"]
    largest = len(block)  # k with everything masked
    best = 1 + int(np.argmin(factorised))
    between = ""
    if best < largest - 1:
        between = f", {factorised[-2]:.0f} at k={largest - 1}"
    return Study(
        name="masking",
        title="Theorem 2: masking more is better, under two assumptions",
        claim="Li et al. (2024): “Masking more is (statistically) better.”",
        findings=[
            (
                "As stated, it is true: with one mask per sample and the joint probability of the"
                f" masked block, the total variance falls from {block[0]:.0f} (k=1) to"
                f" {block[-1]:.0f} (k={largest}, maximum likelihood), in every direction of"
                " parameter space (no eigenvalue of Γ_k - Γ_k+1 is negative, to rounding)."
            ),
            (
                "It needs the joint of the block. A transformer head scores each masked token"
                f" alone. Then the variance is least at k={best}"
                f" ({factorised[best - 1]:.0f}){between}, and {cell_text(factorised[-1])} with"
                " everything masked, where only single-site marginals are left."
            ),
            (
                "It needs one mask per sample. If every sample is seen under all its masks,"
                " averaging is never worse than one mask, but the order in k is lost: along the"
                f" slowest direction of single-site Gibbs, the variance grows by up to {growth:.1f}"
                f" times from one k to the next ({SLOW.describe()}). It is ⟨s,L²s⟩/⟨s,Ls⟩² with L ="
                " I - P_k: least exactly when the score s is an eigenfunction of the sampler."
            ),
            (
                f"Fits check the closed forms: of {len(distances)} means over {fits} fits to"
                f" {SAMPLES:,} samples, {close} are within two standard"
                f" errors, the farthest is {max(distances):.1f} away."
            ),
        ],
        caption=f"{model.describe()}: trace of Γ_k, and the least eigenvalue of Γ_k - Γ_k+1",
        columns=(
            "k",
            "joint block",
            "factorised head",
            "all masks averaged",
            "least eig., block",
            "factorised",
            "averaged",
        ),
        cells=_rows_by_size(traces, falls),
        note="Every coupling and every field is a parameter. A negative least eigenvalue means that"
        " some direction got worse with more masking.",
        draw=lambda: _draw_masking(traces, one_mask, all_masks, checks),
        numbers={
            "options": model.options(fits=fits, slow=SLOW.describe(), learned=LEARNED.describe()),
            "trace": traces,
            "least_eigenvalue_of_drop": falls,
            "slow_direction": {"one_mask": one_mask, "all_masks": all_masks},
            "monte_carlo": learnings,
            "monte_carlo_theory": closed_forms,
        },
    )


def _rows_by_size(
    traces: Mapping[str, list[float]], falls: Mapping[str, list[float]]
) -> list[tuple[object, ...]]:
    """A row for each k: the trace of each estimator, and its least eigenvalue of the drop to the
    next k, which the last row lacks.
    """
    rows: list[tuple[object, ...]] = []
    for index, variances in enumerate(zip(*traces.values(), strict=True)):
        eigenvalues: list[object] = []
        for fall in falls.values():
            if index < len(fall):
                eigenvalues.append(without_rounding(fall[index], ROUNDING))
            else:
                eigenvalues.append("-")
        rows.append((index + 1, *variances, *eigenvalues))
    return rows


def _relative_variances(matrices: list[Matrix], least: float) -> list[float]:
    """The variance of the only parameter for each k, in multiples of `least`."""
    return [float(gamma[0, 0]) / least for gamma in matrices]


@dataclass(frozen=True)
class FitCheck:
    """Fits with one loss and one mask size, and tr Gamma, which their mean tends to."""

    learning: Learning
    closed_form: float

    @property
    def distance(self) -> float:
        """Between mean and closed form, in standard errors."""
        return abs(self.learning.mean - self.closed_form) / self.learning.standard_error


def _fit_each_size(fits: int, progress: Progress | None) -> dict[Loss, list[FitCheck]]:
    """Fit the model LEARNED with k = 1..N masked sites. The factorised loss with everything
    masked is left out: it does not identify the couplings.
    """
    import numpy as np

    from unmask.studies.lab.dynamics import uniform_masks
    from unmask.studies.lab.estimation import ESTIMATORS
    from unmask.studies.lab.fitting import learn

    learned = LEARNED.build()
    sites = learned.space.sites
    plan: list[tuple[Loss, int]] = [("block", k) for k in range(1, sites + 1)]
    plan += [("factorised", k) for k in range(1, sites)]
    checks: dict[Loss, list[FitCheck]] = {"block": [], "factorised": []}
    for index, (loss, k) in enumerate(counted(progress, plan, "mask sizes fitted")):
        law = uniform_masks(learned.space, k)
        learning = learn(learned, law, loss, n=SAMPLES, fits=fits, seed=index)
        closed_form = float(np.trace(ESTIMATORS[loss](learned, law)))
        checks[loss].append(FitCheck(learning, closed_form))
    return checks


def _draw_masking(
    traces: Mapping[str, list[float]],
    one_mask: list[float],
    all_masks: list[float],
    checks: Mapping[Loss, list[FitCheck]],
) -> Figure:
    """All lists are by k = 1, 2, ...; `traces` and `checks` by estimator."""
    figure, (left, middle, right) = panels(
        (
            "Factorised heads turn the curve up",
            "masked sites k",
            r"total asymptotic variance, $\mathrm{tr}\,\Gamma_k$",
        ),
        ("Averaging all masks loses the order", "masked sites k", "variance along one direction"),
        ("Fits agree with the closed forms", "masked sites k", "n · mean squared error"),
    )
    looks = {
        "block": (BLUE, "o", "joint block"),
        "factorised": (RED, "s", "factorised head"),
        "averaged": (GREEN, "^", "all masks"),
    }
    for name, (colour, marker, label) in looks.items():
        finite = [value for value in traces[name] if math.isfinite(value)]
        then = ""
        if len(finite) < len(traces[name]):
            then = ", then ∞"
        sizes = range(1, len(finite) + 1)
        left.plot(sizes, finite, f"{marker}-", color=colour, label=label + then)

    for variances, name, label in (
        (one_mask, "block", "one mask"),
        (all_masks, "averaged", "all masks"),
    ):
        colour, marker, _ = looks[name]
        sizes = range(1, len(variances) + 1)
        middle.plot(sizes, variances, f"{marker}-", color=colour, label=label)
    middle.set(yscale="log")
    plain_numbers(middle.yaxis)

    for loss, of_loss in checks.items():
        colour, marker, label = looks[loss]
        sizes = range(1, len(of_loss) + 1)
        closed_forms = [check.closed_form for check in of_loss]
        means = [check.learning.mean for check in of_loss]
        two_errors = [2 * check.learning.standard_error for check in of_loss]
        right.plot(sizes, closed_forms, "-", color=colour, label=f"{label}: closed form")
        right.errorbar(sizes, means, yerr=two_errors, fmt=marker, color=colour, capsize=3)

    # The left panel is of the user's model, the middle and the right one of SLOW and LEARNED,
    # which have the same number of sites.
    for axis, largest in ((left, len(traces["block"])), (middle, len(one_mask))):
        axis.set(xticks=range(1, largest + 1))
    right.set(xticks=range(1, len(one_mask) + 1))
    for axis in (left, middle, right):
        axis.legend()
    return figure
