"""Theorem 3, (3): a parallel step is not a Gibbs step.

Drawing k blanks from the product of their conditionals settles on a law, but not on p. How far
off it is grows with the dependence that the product leaves out, E TC(x_K | x_{-K}).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from unmask.common.border.calls import trusted
from unmask.common.formats import at_most
from unmask.studies.lab.panels import agreement_bars, draw_curve, panels, plain_numbers, shades
from unmask.studies.lab.spin_model import SpinModel
from unmask.studies.lab.study import (
    Out,
    Points,
    Study,
    Watch,
    counted,
    study,
    without_rounding,
)

if TYPE_CHECKING:
    from unmask.common.figures import Figure
    from unmask.studies.lab.model import Counts

FIVE_SITES = trusted(SpinModel, sites=5, coupling=0.4, fields="-0.35:0.35", graph="complete")
COUPLINGS = (0.0, 0.1, 0.2, 0.3, 0.4)
"""Couplings of the curves, beside the model's own."""
EXACT = 1e-12
"""Total variations below this are rounding errors."""


@study
def parallel(model: SpinModel = FIVE_SITES, *, out: Out = None, progress: Watch = None) -> Study:
    """Theorem 3: one parallel forward pass is not a Gibbs step."""
    from unmask.studies.lab.dynamics import (
        gibbs,
        parallel_step,
        stationary_law,
        total_variation,
        uniform_masks,
    )
    from unmask.studies.lab.entropies import masked_total_correlation
    from unmask.studies.lab.model import agreement_law

    assert model.coupling is not None  # `study` has filled it
    spins = model.build()
    sizes = range(1, spins.space.sites + 1)
    couplings = sorted({*COUPLINGS, model.coupling})
    laws = {"p, and the Gibbs step": agreement_law(spins)}  # of how many sites agree
    points: Points = []
    for coupling in counted(progress, couplings, "couplings"):
        is_own = coupling == model.coupling
        at_coupling = model.at(coupling)
        for size in sizes:
            masks = uniform_masks(at_coupling.space, size)
            law = stationary_law(parallel_step(at_coupling, masks))
            points.append(
                {
                    "coupling": coupling,
                    "k": size,
                    "tv": total_variation(law, at_coupling.p),
                    "total_correlation": masked_total_correlation(at_coupling, masks),
                }
            )
            if is_own and size in sizes[-2:]:
                laws[f"parallel step, k = {size}"] = agreement_law(spins, law)

    own_points = [point for point in points if point["coupling"] == model.coupling]
    gibbs_tv = [total_variation(stationary_law(gibbs(spins, k)), spins.p) for k in sizes]
    rows = []
    for point, of_gibbs in zip(own_points, gibbs_tv, strict=True):
        numbers = (point["tv"], of_gibbs, point["total_correlation"])
        rows.append((point["k"], *(without_rounding(number) for number in numbers)))
    return Study(
        name="parallel",
        title="Theorem 3: a parallel step is not a Gibbs step",
        claim="Li et al. (2024): “A step of Gibbs can't be implemented by parallel decoding"
        " Transformers (e.g. a forward pass of BERT).”",
        findings=[
            _finding(own_points, max(gibbs_tv)),
            (
                "The error is the dependence inside the block: it grows with the conditional total"
                " correlation of what is masked. Sites that should agree are drawn apart, so the"
                " parallel law spreads over mixtures that p hardly allows."
            ),
        ],
        caption=model.describe(),
        columns=("k", "TV(parallel law, p)", "TV(Gibbs law, p)", "E TC(x_K | x_-K), nats"),
        cells=rows,
        note="TV: total variation, from 0 (the same law) to 1.",
        draw=lambda: _draw_parallel(points, couplings, sizes, laws),
        numbers={"options": model.options(), "points": points, "gibbs_tv": gibbs_tv},
    )


def _finding(points: Points, largest_gibbs_tv: float) -> str:
    """How far the parallel step is from p at one blank and where it is farthest; `points` are
    those of the user's model.
    """
    single = points[0]
    farthest = max(points, key=lambda point: point["tv"])
    if farthest["tv"] < EXACT:
        return "Here the sites are independent, and the parallel step keeps p at every k."
    return (
        "One blank at a time is exact; several at once are not. The parallel step's"
        f" stationary law is {_away(single)} p at k={single['k']} and {_away(farthest)} it at"
        f" k={farthest['k']} in total variation. The Gibbs step, which draws the block"
        f" jointly, keeps p at every k (off by at most {at_most(largest_gibbs_tv)})."
    )


def _away(point: Mapping[str, Any]) -> str:
    """How far the stationary law is, as "exactly" or "0.018 from"."""
    if point["tv"] < EXACT:
        return "exactly"
    return f"{point['tv']:.3f} from"


def _draw_parallel(
    points: Points, couplings: Sequence[float], sizes: Sequence[int], laws: Mapping[str, Counts]
) -> Figure:
    figure, (left, middle, right) = panels(
        ("More blanks at once, further off", "masked sites k", "TV(stationary law, p)"),
        (
            "The error follows the dependence",
            "dependence inside the block, E TC, nats",
            "TV(stationary law, p)",
        ),
        ("Sites that should agree do not", "", ""),
    )
    # The middle panel has logarithmic axes: points that are 0 but for rounding are left out.
    dependent = [point for point in points if point["k"] > 1 and point["total_correlation"] > 1e-9]
    for coupling, colour in zip(couplings, shades(len(couplings)), strict=True):
        by_size = [point for point in points if point["coupling"] == coupling]
        draw_curve(left, by_size, x="k", y="tv", look="o-", color=colour, label=f"{coupling:g}")
        by_dependence = [point for point in dependent if point["coupling"] == coupling]
        draw_curve(middle, by_dependence, x="total_correlation", y="tv", look="o-", color=colour)
    left.set(ylim=(-0.02, 1), xticks=sizes)
    left.legend(title="coupling")
    if dependent:
        middle.set(xscale="log", yscale="log")
        plain_numbers(middle.xaxis, middle.yaxis)
    agreement_bars(right, laws)
    return figure
