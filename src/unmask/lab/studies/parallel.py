"""Theorem 3, (3): one parallel forward pass is not a Gibbs step.

A transformer fills k blanks from the product of their conditionals. Repeating that step settles on a law, but not on p: how
far off it is grows with k and with the dependence inside the masked block, E TC(x_K | x_{-K}).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from unmask.formats import at_most
from unmask.lab.spins import Folder, Numbers, Sizes, SpinModel, read_numbers, read_sizes
from unmask.lab.studies.dependence import agreement_bars
from unmask.lab.study import BLUE, ORANGE, RED, Study, Table, counted, lab_folder, panels, plain_numbers, shades, without_rounding
from unmask.runs.progress import Progress

if TYPE_CHECKING:
    from unmask.figures import Figure
    from unmask.lab.model import Counts

DEFAULT = SpinModel(sites=5, coupling=0.4, fields="-0.35:0.35")


def parallel(
    model: SpinModel = DEFAULT,
    *,
    k: Sizes = "all",
    couplings: Numbers = "0,0.1,0.2,0.3,0.4",
    out: Folder | None = None,
    progress: Progress | None = None,
) -> Study:
    """Theorem 3: one parallel forward pass is not a Gibbs step.

    Parameters
    ----------
    model
        Spins, or an explicit joint.
    k
        Masked sites: all, or numbers with commas.
    couplings
        Couplings to sweep, besides the model's own: numbers with commas, or FIRST:LAST:COUNT.
    out
        Folder for figure and numbers: new, empty, or an earlier lab's.
    progress
        Called with the parts done, their number, and what they are.
    """
    from unmask.lab.dynamics import gibbs, parallel_step, stationary_law, total_variation, uniform_masks
    from unmask.lab.model import agreement_law
    from unmask.lab.schedules import masked_total_correlation

    folder, spins = lab_folder(out, model.table), model.build()
    sizes = read_sizes(k, spins.space.sites)
    swept = [] if model.table is not None else read_numbers("couplings", couplings).tolist()
    everything = sorted({*swept, model.coupling})
    step, points = counted(progress, len(everything), "couplings"), []
    laws = {"p, and the Gibbs step": agreement_law(spins)}
    for coupling in everything:
        own = coupling == model.coupling
        other = spins if own else model.at(coupling)
        for size in sizes:
            masks = uniform_masks(other.space, size)
            law = stationary_law(parallel_step(other, masks))
            tv, correlation = total_variation(law, other.p), masked_total_correlation(other, masks)
            points.append({"coupling": coupling, "k": size, "tv": tv, "total_correlation": correlation})
            if own and size in sizes[-2:]:
                laws[f"parallel step, k = {size}"] = agreement_law(spins, law)
        step()
    mine = [point for point in points if point["coupling"] == model.coupling]
    exact = [total_variation(stationary_law(gibbs(spins, size)), spins.p) for size in sizes]
    largest = max(mine, key=lambda point: point["tv"])
    findings = [
        "**Here the sites are independent**, and the parallel step keeps p at every k."
        if largest["tv"] < 1e-12
        else "**One blank at a time is exact; several at once are not.** The parallel step's stationary law is "
        f"{_near(mine[0])} p at k={mine[0]['k']} and {_near(largest)} it at k={largest['k']} in total variation. The Gibbs step, "
        f"which draws the block jointly, keeps p at every k (off by at most {at_most(max(exact))}).",
        "**The error is the dependence inside the block.** It vanishes when the sites are independent (coupling 0) and grows "
        "with the conditional total correlation of what is masked (middle): one forward pass ignores this quantity.",
        "**What it gets wrong** (right): sites that should agree are drawn apart, so the parallel law spreads over mixtures "
        "that p hardly allows.",
    ]
    rows = [(p["k"], *map(without_rounding, (p["tv"], tv, p["total_correlation"]))) for p, tv in zip(mine, exact, strict=True)]
    return Study(
        "parallel",
        "Theorem 3: a parallel step is not a Gibbs step",
        "Li et al. (2024): “A step of Gibbs can't be implemented by parallel decoding Transformers (e.g. a forward pass of "
        "BERT).”",
        findings,
        [
            Table(
                model.describe(),
                ("k", "TV(parallel law, p)", "TV(Gibbs law, p)", "E TC(x_K | x_-K), nats"),
                rows,
                "TV: total variation, from 0 (the same law) to 1.",
            )
        ],
        "Left: how far the parallel step's stationary law is from p, by mask size. Middle: the same distances against the "
        "dependence inside the masked block. Right: how many sites take the last value, under p and under the parallel step.",
        lambda: _draw(points, everything, sizes, laws),
        {"options": model.options(k=k, couplings=couplings), "points": points, "gibbs_tv": exact},
    ).save(folder)


def _near(point: dict[str, Any]) -> str:
    return "exactly" if point["tv"] < 1e-12 else f"{point['tv']:.3f} from"


def _draw(points: list[dict[str, Any]], couplings: list[float], sizes: Sequence[int], laws: dict[str, Counts]) -> Figure:
    distance = "TV(stationary law, p)"
    figure, (left, middle, right) = panels(
        ("More blanks at once, further off", "masked sites k", distance),
        ("The error follows the dependence", "dependence inside the block, E TC, nats", distance),
        ("Sites that should agree do not", "", ""),
    )
    for coupling, colour in zip(couplings, shades(len(couplings)), strict=True):
        mine = [p for p in points if p["coupling"] == coupling]
        left.plot([p["k"] for p in mine], [p["tv"] for p in mine], "o-", color=colour, label=f"{coupling:g}")
        several = [(p["total_correlation"], p["tv"], p["k"]) for p in mine if p["k"] > 1 and p["total_correlation"] > 1e-9]
        middle.plot([x for x, _, _ in several], [y for _, y, _ in several], "o-", color=colour, linewidth=0.8)
        for x, y, k in several if coupling == couplings[-1] else ():
            middle.annotate(f"k={k}", (x, y), (7, -8), textcoords="offset points", fontsize=9)
    left.set(ylim=(-0.02, 1), xticks=sizes)
    left.legend(title="coupling")
    if any(p["k"] > 1 and p["total_correlation"] > 1e-9 for p in points):
        middle.set(xscale="log", yscale="log")
        plain_numbers(middle.xaxis, middle.yaxis)
    agreement_bars(right, laws, (BLUE, ORANGE, RED))
    right.set_ylim(top=1.35 * max(law.max() for law in laws.values()))
    return figure
