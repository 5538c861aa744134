"""Theorem 3, (1) and (2): strong dependence makes the Gibbs sampler slow, and with it the learning.

The same model at rising couplings: the law splits into modes, the gap closes, the mixing time explodes, and so does the
number of samples that a masked loss needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from unmask.lab import figures
from unmask.lab.dynamics import gibbs, mixing_time, spectral_gap, uniform_masks
from unmask.lab.estimation import block_covariance, fisher_information, worst_cost
from unmask.lab.model import LabModel, Vector
from unmask.lab.schedules import Entropies
from unmask.lab.studies.study import ModelSettings, Study, Table, counted, parse_numbers, parse_sizes
from unmask.options.lab import Dependence
from unmask.runs.progress import Progress

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from unmask.figures import Figure


Counted = Float[np.ndarray, " counts"]
"""A probability per number of sites."""


@dataclass(frozen=True)
class Point:
    """One coupling and one mask size."""

    coupling: float
    k: int
    gap: float
    mixing_time: float
    worst_cost: float


def measure(model: LabModel, coupling: float, k: int) -> Point:
    """Gap, mixing time and learning cost of one model under masks of k sites."""
    chain = gibbs(model, k)
    cost = worst_cost(block_covariance(model, uniform_masks(model.space, k)), fisher_information(model))
    return Point(coupling, k, spectral_gap(chain, model.p), mixing_time(chain, model.p), cost)


def agreement_law(model: LabModel, law: Vector | None = None) -> Counted:
    """The law (p's, or another's) of how many sites take the last value: one hump for independent sites, two if they agree."""
    count = (model.space.values == np.array(model.space.sizes) - 1).sum(1)
    return np.bincount(count, model.p if law is None else law, model.space.sites + 1).astype(np.float64)


def splits(law: Counted) -> bool:
    """Whether both ends of a count's law are above a value between them."""
    return bool(min(law[0], law[-1]) > law.min())


def pair_information(model: LabModel) -> float:
    """Mean mutual information of two sites, in nats."""
    entropies = Entropies(model)
    pairs = list(combinations(range(model.space.sites), 2))
    return float(np.mean([entropies.mutual_information(i, j) for i, j in pairs])) if pairs else 0.0


def run(options: Dependence, progress: Progress | None = None) -> Study:
    """Compute the study."""
    settings = ModelSettings.of(options)
    sizes = parse_sizes(options.k, settings.build().space.sites)
    swept = parse_numbers(options.couplings, "couplings")
    shown = parse_numbers(options.table_couplings, "table_couplings")
    everything = sorted(set(swept) | set(shown))
    points: list[Point] = []
    laws: dict[float, Counted] = {}
    dependence: dict[float, float] = {}
    step = counted(progress, len(everything), "couplings")
    for coupling in everything:
        model = settings.at(coupling)
        laws[coupling] = agreement_law(model)
        dependence[coupling] = pair_information(model)
        points += [measure(model, coupling, k) for k in sizes]
        step()
    rows = [
        (f"{p.coupling:g}", p.k, dependence[p.coupling], p.gap, p.mixing_time, p.worst_cost)
        for p in points
        if p.coupling in shown
    ]
    first, last = (next(p for p in points if p.coupling == c and p.k == sizes[0]) for c in (min(shown), max(shown)))
    findings = [
        f"**Slow generation**: with masks of {sizes[0]} site{'s' if sizes[0] > 1 else ''}, going from coupling "
        f"{first.coupling:g} to {last.coupling:g} takes the mixing time from {first.mixing_time:,.0f} to "
        f"{last.mixing_time:,.0f} steps."
        + (
            " The right panel shows why: the law splits into two modes (all sites agree on one value or on the other), and a "
            "step that changes few sites cannot cross between them."
            if splits(laws[max(shown)])
            else ""
        ),
        "**Slow training**: the samples that the masked loss needs, relative to maximum likelihood, go from "
        f"{first.worst_cost:,.1f} to {last.worst_cost:,.0f} times, by the dictionary of theorem 1.",
    ]
    if len(sizes) > 1:
        findings.append(
            "**Masking more helps, but does not cure it** while k stays well below N: the curves for larger k are lower and "
            "bend the same way."
        )
    return Study(
        "dependence",
        "Theorem 3: strong dependence is slow",
        "“Strong dependencies among target positions cause slow generation (multimodal) and slow training (via theorem 1).”",
        findings,
        [
            Table(
                f"{settings.describe().split(', coupling')[0]}, fields {settings.fields}, by coupling",
                ("coupling", "k", "mutual information of two sites, nats", "gap", "t_mix", "samples, worst direction"),
                rows,
                "t_mix: steps until within 1/4 of the law, from any start. Samples: multiples of what maximum likelihood needs.",
            )
        ],
        "Left: steps until the Gibbs sampler is within 1/4 of its target from any start. Middle: samples that the masked "
        "loss needs in its worst direction. Both scales are logarithmic: a straight line is exponential growth. Right: the "
        "law of the number of sites that take one value, one hump or two.",
        lambda: _draw(points, sizes, {c: laws[c] for c in shown}),
        {
            "options": {**options.to_dict(), "model": settings.describe()},
            "points": [asdict(p) | {"pair_information": dependence[p.coupling]} for p in points],
            "agreement_laws": {f"{c:g}": law.tolist() for c, law in laws.items()},
        },
    )


def _draw(points: list[Point], sizes: tuple[int, ...], laws: dict[float, Counted]) -> Figure:
    figure, (left, middle, right) = figures.panels(
        (
            "Generation slows down",
            "Training slows down",
            "Because the law splits in two" if splits(list(laws.values())[-1]) else "The law of how many sites agree",
        )
    )
    for k, colour in zip(sizes, figures.shades(len(sizes)), strict=True):
        mine = [p for p in points if p.k == k]
        x = [p.coupling for p in mine]
        left.plot(x, [p.mixing_time for p in mine], "o-", color=colour, label=f"k = {k}")
        middle.plot(x, [p.worst_cost for p in mine], "o-", color=colour, label=f"k = {k}")
    for axis, label in ((left, "mixing time, steps"), (middle, "samples needed, worst direction\n(maximum likelihood = 1)")):
        axis.set(yscale="log", xlabel="coupling of each pair", ylabel=label)
        figures.plain_numbers(axis.yaxis)
        axis.legend(title="masked sites")
    agreement_bars(right, {f"coupling {coupling:g}": law for coupling, law in laws.items()}, figures.SERIES * len(laws))
    return figure


def agreement_bars(axis: Axes, laws: dict[str, Counted], colours: Sequence[str]) -> None:
    """Laws of the number of sites that take the last value, as bars beside each other."""
    width = 0.8 / len(laws)
    for index, ((name, law), colour) in enumerate(zip(laws.items(), colours, strict=False)):
        axis.bar(np.arange(len(law)) + (index - (len(laws) - 1) / 2) * width, law, width, color=colour, label=name)
    axis.set(xlabel=f"sites, of {len(law) - 1}, that take the last value", ylabel="probability")
    axis.set_xticks(range(len(law)))
    axis.legend(loc="upper center")
