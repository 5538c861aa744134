"""Theorem 1: how many samples a masked loss needs, and how fast its Gibbs sampler mixes, are one quantity.

For every mask law: the gap of the block dynamics, its mixing time, and the samples that the masked loss needs relative to
maximum likelihood in the worst direction of parameter space, which 1 / gap bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from unmask.lab.spins import Folder, Numbers, Seed, Sizes, SpinModel, read_numbers, read_sizes
from unmask.lab.study import BLUE, GREEN, GREY, ORANGE, RED, Study, Table, counted, lab_folder, panels, plain_numbers, shades
from unmask.runs.progress import Progress

if TYPE_CHECKING:
    from unmask.figures import Figure
    from unmask.lab.dynamics import MaskLaw
    from unmask.lab.model import LabModel

DEFAULT = SpinModel()
ADAPTIVE_SIZE = 2
"""Masked sites of the adaptive masks."""


def dictionary(
    model: SpinModel = DEFAULT,
    *,
    k: Sizes = "all",
    couplings: Numbers = "0:0.5:11",
    seed: Seed = 0,
    out: Folder | None = None,
    progress: Progress | None = None,
) -> Study:
    """Theorem 1: samples needed and mixing time are one quantity.

    Parameters
    ----------
    model
        Spins, or an explicit joint.
    k
        Masked sites: all, or numbers with commas.
    couplings
        Couplings to sweep: numbers with commas, or FIRST:LAST:COUNT.
    seed
        Seed of the search for the tensorisation constant.
    out
        Folder for figure and numbers: new, empty, or an earlier lab's.
    progress
        Called with the parts done, their number, and what they are.
    """
    import numpy as np

    from unmask.lab.dynamics import (
        block_dynamics,
        naive_dynamics,
        spectral_gap,
        stationary_law,
        surprise_masks,
        total_variation,
        uniform_masks,
    )
    from unmask.lab.estimation import block_covariance, fisher_information, worst_cost

    folder, spins = lab_folder(out, model.table), model.build()
    sizes = read_sizes(k, spins.space.sites)
    swept = [] if model.table is not None else read_numbers("couplings", couplings).tolist()
    step = counted(progress, len(sizes) + 1 + len(swept), "gaps and information")
    adaptive, rows = surprise_masks(spins, ADAPTIVE_SIZE), []
    for law in (*(uniform_masks(spins.space, size) for size in sizes), adaptive):
        rows.append(_row(spins, law, seed))
        step()
    right, naive = block_dynamics(spins, adaptive), naive_dynamics(spins, adaptive)
    invariance, naive_tv = float(np.abs(spins.p @ right - spins.p).max()), total_variation(stationary_law(naive), spins.p)
    sweep = []
    for coupling in swept:
        other = model.at(coupling)
        fisher = fisher_information(other)
        for law, size in ((uniform_masks(other.space, size), size) for size in sizes):
            relaxation = 1 / spectral_gap(block_dynamics(other, law), other.p)
            cost = worst_cost(block_covariance(other, law), fisher)
            sweep.append({"coupling": coupling, "k": size, "relaxation": relaxation, "worst_cost": cost})
        step()
    shares = [row["worst_cost"] / row["relaxation"] for row in sweep]
    findings = [
        f"**The bound holds everywhere, and little is lost in it**: over the sweep the worst direction needs from "
        f"{min(shares):.0%} to {max(shares):.0%} of what 1/gap allows. A loss learns slowly where its sampler mixes slowly; what "
        "is missing to 100% is how far the sampler's slowest function is from any combination of the model's scores."
        if shares
        else "**The bound holds** for every mask size.",
        "The reason is an identity, not an estimate: the information in the masked loss along a direction v *is* the Dirichlet "
        "form of the score v·s under the matching Gibbs sampler (largest difference here "
        f"{max(row['identity_error'] for row in rows):.0e}).",
        "**Masks that look at the text** fit in the same dictionary if the conditional knows about the choice, p(x_K | x_-K, K) "
        f"∝ p(x) p(K | x): the chain then keeps p exactly (off by {invariance:.0e}). With the plain p(x_K | x_-K) it settles on "
        f"another law, {naive_tv:.3f} away in total variation.",
    ]
    table = Table(
        f"{model.describe()}: sampling (left) and learning (right) with the same masks",
        ("masks", "gap", "1/gap", "t_mix", "samples, worst direction", "samples, mean direction", "AT constant ≥"),
        [["-" if number is None else number for number in list(row.values())[:-1]] for row in rows],
        "t_mix: steps until the sampler is within 1/4 of its law in total variation, from any start. Samples are multiples of "
        "what maximum likelihood needs (k = N: exactly 1); theorem 1: the worst direction is at most 1/gap. AT: approximate "
        "tensorisation of entropy, which is 1/gap for errors of any size; the largest ratio that a search found. Adaptive masks "
        "prefer tokens that the model finds improbable.",
    )
    control = Table(
        "Adaptive masks: the right conditional and the naive one",
        ("conditional", "max |πP - π|", "TV(stationary law, p)"),
        [
            ("p(x_K | x_-K, K)", invariance, total_variation(stationary_law(right), spins.p)),
            ("p(x_K | x_-K)", float(np.abs(spins.p @ naive - spins.p).max()), naive_tv),
        ],
    )
    return Study(
        "dictionary",
        "Theorem 1: training efficiency is mixing",
        "Li et al. (2024): “Sample efficiency of MLM losses can be characterized via mixing time of Gibbs-like sampler.”",
        findings,
        [table, control],
        "Left: every dot is one coupling and one mask size; across, what the sampler's gap allows, up, what learning really "
        "needs in its worst direction. No dot is above the line, and the dots follow it closely. Right: the model of the "
        "table, mask size by mask size.",
        lambda: _draw(rows[:-1], sizes, sweep),
        {
            "options": model.options(k=k, couplings=couplings, seed=seed),
            "rows": rows,
            "sweep": sweep,
            "adaptive": {"right_invariance": invariance, "naive_tv": naive_tv},
        },
    ).save(folder)


def _row(model: LabModel, law: MaskLaw, seed: int) -> dict[str, Any]:
    """The sampler's side and the learner's side for one mask law."""
    import numpy as np

    from unmask.lab.dynamics import block_dynamics, dirichlet_form, mixing_time, spectral_gap, tensorisation_constant
    from unmask.lab.estimation import block_covariance, block_information, fisher_information, mean_cost, worst_cost

    chain, fisher = block_dynamics(model, law), fisher_information(model)
    information, covariance = block_information(model, law), block_covariance(model, law)
    gap = spectral_gap(chain, model.p)
    errors = [abs(float(v @ information @ v) - dirichlet_form(chain, model.p, model.score @ v)) for v in np.eye(len(fisher))]
    return {
        "masks": law.name,
        "gap": gap,
        "relaxation": 1 / gap,
        "mixing_time": mixing_time(chain, model.p),
        "worst_cost": worst_cost(covariance, fisher),
        "mean_cost": mean_cost(covariance, fisher),
        "tensorisation": tensorisation_constant(model, law, seed=seed) if not law.adaptive and model.p.min() > 0 else None,
        "identity_error": max(errors),
    }


def _draw(rows: list[dict[str, Any]], sizes: Sequence[int], sweep: list[dict[str, float]]) -> Figure:
    figure, (left, right) = panels(
        (
            "Slow to sample = slow to learn",
            "1 / spectral gap of the Gibbs sampler",
            "samples needed, worst direction\n(maximum likelihood = 1)",
        ),
        ("Mask more, and both get faster", "masked sites k", "samples (maximum likelihood = 1), or steps"),
    )
    points = sweep or [row | {"k": k} for k, row in zip(sizes, rows, strict=True)]
    top = max(p["relaxation"] for p in points) * 1.6
    left.plot([0.8, top], [0.8, top], color=GREY, linestyle="--", linewidth=1.2)
    left.fill_between([0.8, top], [0.8, top], top, color=RED, alpha=0.07, linewidth=0)
    left.text(1.1, top / 1.5, "forbidden by theorem 1", color=RED, fontsize=9, va="top")
    for k, colour in zip(sizes, shades(len(sizes)), strict=True):
        relaxation, cost = ([p[name] for p in points if p["k"] == k] for name in ("relaxation", "worst_cost"))
        left.plot(relaxation, cost, "o-", color=colour, label=f"k = {k}", linewidth=0.8, alpha=0.95)
    left.set(xscale="log", yscale="log", xlim=(0.8, top), ylim=(0.8, top))
    left.legend(title="masked sites", loc="lower right")
    for name, look, colour, label in (
        ("relaxation", "s--", GREY, "1 / gap (bound)"),
        ("worst_cost", "o-", BLUE, "samples, worst direction"),
        ("mean_cost", "o-", GREEN, "samples, mean direction"),
        ("mixing_time", "^-", ORANGE, "mixing time (steps)"),
    ):
        right.plot(sizes, [row[name] for row in rows], look, color=colour, label=label)
    right.set(yscale="log", xticks=sizes)
    plain_numbers(left.xaxis, left.yaxis, right.yaxis)
    right.legend()
    return figure
