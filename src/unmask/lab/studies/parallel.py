"""Theorem 3, (3): one parallel forward pass is not a Gibbs step.

A transformer fills k blanks from the product of their conditionals. Repeating that step settles on a law, but not on p: how
far off it is grows with k and with the dependence inside the masked block, E TC(x_K | x_{-K}).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from unmask.formats import at_most
from unmask.lab import figures
from unmask.lab.dynamics import gibbs, parallel_step, stationary_law, total_variation, uniform_masks
from unmask.lab.schedules import masked_total_correlation
from unmask.lab.studies.dependence import Counted, agreement_bars, agreement_law
from unmask.lab.studies.study import ModelSettings, Study, Table, counted, parse_numbers, parse_sizes, without_rounding
from unmask.options.lab import Parallel
from unmask.runs.progress import Progress

if TYPE_CHECKING:
    from unmask.figures import Figure


@dataclass(frozen=True)
class Point:
    """One coupling and one mask size: TV(stationary law of the parallel step, p), and E TC(x_K | x_-K)."""

    coupling: float
    k: int
    tv: float
    total_correlation: float


def run(options: Parallel, progress: Progress | None = None) -> Study:
    """Compute the study."""
    settings = ModelSettings.of(options)
    model = settings.build()
    sizes = parse_sizes(options.k, model.space.sites)
    swept = () if settings.table is not None else parse_numbers(options.couplings, "couplings")
    own = settings.coupling
    points: list[Point] = []
    couplings = sorted({*swept, own})
    step = counted(progress, len(couplings), "couplings")
    for coupling in couplings:
        other = model if coupling == own else settings.at(coupling)
        for k in sizes:
            law = uniform_masks(other.space, k)
            tv = total_variation(stationary_law(parallel_step(other, law)), other.p)
            points.append(Point(coupling, k, tv, masked_total_correlation(other, law)))
        step()
    mine = [p for p in points if p.coupling == own]
    exact = [total_variation(stationary_law(gibbs(model, k)), model.p) for k in sizes]
    shown = sizes[-2:]
    laws = {"p, and the Gibbs step": agreement_law(model)}
    for k in shown:
        settled = stationary_law(parallel_step(model, uniform_masks(model.space, k)))
        laws[f"parallel step, k = {k}"] = agreement_law(model, settled)
    largest = max(mine, key=lambda p: p.tv)
    findings = [
        "**Here the sites are independent**, and the parallel step keeps p at every k."
        if largest.tv < 1e-12
        else "**One blank at a time is exact; several at once are not.** The parallel step's stationary law is "
        f"{_near(mine[0].tv)} p at k={mine[0].k} and {_near(largest.tv)} it at k={largest.k} in total variation. The Gibbs "
        f"step, which draws the block jointly, keeps p at every k (off by at most {at_most(max(exact))}).",
        "**The error is the dependence inside the block.** It vanishes when the sites are independent (coupling 0) and grows "
        "with the conditional total correlation of what is masked (middle): that is the quantity which one forward pass "
        "ignores.",
        "**What it gets wrong** (right): sites that should agree are drawn apart, so the parallel law spreads over mixtures "
        "that p hardly allows.",
    ]
    return Study(
        "parallel",
        "Theorem 3: a parallel step is not a Gibbs step",
        "“A step of Gibbs can't be implemented by parallel decoding Transformers (e.g. a forward pass of BERT).”",
        findings,
        [
            Table(
                settings.describe(),
                ("k", "TV(parallel law, p)", "TV(Gibbs law, p)", "E TC(x_K | x_-K), nats"),
                [(p.k, *map(without_rounding, (p.tv, e, p.total_correlation))) for p, e in zip(mine, exact, strict=True)],
                "TV: total variation, from 0 (the same law) to 1.",
            )
        ],
        "Left: how far the parallel step's stationary law is from p, by mask size. Middle: the same distances against the "
        "dependence inside the masked block. Right: how many sites take the last value, under p and under the parallel step.",
        lambda: _draw(points, couplings, sizes, laws),
        {
            "options": {**options.to_dict(), "model": settings.describe()},
            "points": [asdict(p) for p in points],
            "gibbs_tv": exact,
        },
    )


def _near(tv: float) -> str:
    return "exactly" if tv < 1e-12 else f"{tv:.3f} from"


def _draw(points: list[Point], couplings: list[float], sizes: tuple[int, ...], laws: dict[str, Counted]) -> Figure:
    figure, (left, middle, right) = figures.panels(
        ("More blanks at once, further off", "The error follows the dependence", "Sites that should agree do not")
    )
    for coupling, colour in zip(couplings, figures.shades(len(couplings)), strict=True):
        mine = [p for p in points if p.coupling == coupling]
        left.plot([p.k for p in mine], [p.tv for p in mine], "o-", color=colour, label=f"{coupling:g}")
        several = [p for p in mine if p.k > 1 and p.total_correlation > 1e-9]
        middle.plot([p.total_correlation for p in several], [p.tv for p in several], "o-", color=colour, linewidth=0.8)
        for p in several if coupling == couplings[-1] else ():
            middle.annotate(f"k={p.k}", (p.total_correlation, p.tv), (7, -8), textcoords="offset points", fontsize=9)
    left.set(xlabel="masked sites k", ylabel="TV(stationary law, p)", ylim=(-0.02, 1), xticks=sizes)
    left.legend(title="coupling")
    middle.set(xlabel="dependence inside the block, E TC, nats", ylabel="TV(stationary law, p)")
    if any(p.k > 1 and p.total_correlation > 1e-9 for p in points):
        middle.set(xscale="log", yscale="log")
        for axis in (middle.xaxis, middle.yaxis):
            figures.plain_numbers(axis)
    agreement_bars(right, laws, (figures.BLUE, figures.ORANGE, figures.RED))
    right.set_ylim(top=1.35 * max(law.max() for law in laws.values()))
    return figure
