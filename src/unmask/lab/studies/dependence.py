"""Theorem 3, (1) and (2): strong dependence makes the Gibbs sampler slow, and with it the learning.

The same model at rising couplings: the law splits into modes, the gap closes, the mixing time explodes, and so does the
number of samples that a masked loss needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from unmask.lab.spins import Folder, Numbers, Sizes, SpinModel, read_numbers, read_sizes
from unmask.lab.study import SERIES, Study, Table, counted, lab_folder, panels, plain_numbers, shades
from unmask.runs.progress import Progress

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from unmask.figures import Figure
    from unmask.lab.model import Counts

DEFAULT = SpinModel(coupling=0.1)
SWEEP = "0:0.6:13"
SHOWN = (0.3, 0.6)
"""Couplings of SWEEP that the table has."""


def dependence(
    model: SpinModel = DEFAULT,
    *,
    k: Sizes = "1,2,3",
    couplings: Numbers = SWEEP,
    out: Folder | None = None,
    progress: Progress | None = None,
) -> Study:
    """Theorem 3: strong dependence makes generation and training slow.

    Parameters
    ----------
    model
        Spins; their own coupling is added to the sweep.
    k
        Masked sites: all, or numbers with commas.
    couplings
        Couplings to sweep: numbers with commas, or FIRST:LAST:COUNT. The table has them all; of the default, 0.3 and 0.6.
    out
        Folder for figure and numbers: new, empty, or an earlier lab's.
    progress
        Called with the parts done, their number, and what they are.
    """
    from unmask.lab.dynamics import gibbs, mixing_time, spectral_gap, uniform_masks
    from unmask.lab.estimation import block_covariance, fisher_information, worst_cost
    from unmask.lab.model import agreement_law
    from unmask.lab.schedules import pair_information

    folder, swept = lab_folder(out, model.table), read_numbers("couplings", couplings).tolist()
    shown = sorted({model.coupling, *(SHOWN if couplings == SWEEP else swept)})
    everything = sorted({*swept, *shown})
    sizes = read_sizes(k, model.at(model.coupling).space.sites)
    step, points, laws = counted(progress, len(everything), "couplings"), [], {}
    for coupling in everything:
        spins = model.at(coupling)
        laws[coupling], information, fisher = agreement_law(spins), pair_information(spins), fisher_information(spins)
        for size in sizes:
            chain = gibbs(spins, size)
            points.append(
                {
                    "coupling": coupling,
                    "k": size,
                    "gap": spectral_gap(chain, spins.p),
                    "mixing_time": mixing_time(chain, spins.p),
                    "worst_cost": worst_cost(block_covariance(spins, uniform_masks(spins.space, size)), fisher),
                    "pair_information": information,
                }
            )
        step()
    columns = ("k", "pair_information", "gap", "mixing_time", "worst_cost")
    rows = [(f"{p['coupling']:g}", *(p[name] for name in columns)) for p in points if p["coupling"] in shown]
    first, last = (next(p for p in points if (p["coupling"], p["k"]) == (end, sizes[0])) for end in (shown[0], shown[-1]))
    findings = [
        f"**Slow generation**: with masks of {sizes[0]} site{'s' if sizes[0] > 1 else ''}, going from coupling "
        f"{first['coupling']:g} to {last['coupling']:g} takes the mixing time from {first['mixing_time']:,.0f} to "
        f"{last['mixing_time']:,.0f} steps."
        + (
            " The right panel shows why: the law splits into two modes (all sites agree on one value or on the other), and a "
            "step that changes few sites cannot cross between them."
            if _splits(laws[shown[-1]])
            else ""
        ),
        "**Slow training**: the samples that the masked loss needs, relative to maximum likelihood, go from "
        f"{first['worst_cost']:,.1f} to {last['worst_cost']:,.0f} times, by the dictionary of theorem 1.",
    ]
    if len(sizes) > 1:
        findings.append(
            "**Masking more helps, but does not cure it** while k stays well below N: the curves for larger k are lower and "
            "bend the same way."
        )
    return Study(
        "dependence",
        "Theorem 3: strong dependence is slow",
        "Li et al. (2024): “Strong dependencies among target positions cause slow generation (multimodal) and slow training (via "
        "theorem 1).”",
        findings,
        [
            Table(
                f"{model.describe().split(', coupling')[0]}, fields {model.fields}, by coupling",
                ("coupling", "k", "mutual information of two sites, nats", "gap", "t_mix", "samples, worst direction"),
                rows,
                "t_mix: steps until within 1/4 of the law, from any start. Samples: multiples of what maximum likelihood needs.",
            )
        ],
        "Left: steps until the Gibbs sampler is within 1/4 of its target from any start. Middle: samples that the masked "
        "loss needs in its worst direction. Both scales are logarithmic: a straight line is exponential growth. Right: the "
        "law of the number of sites that take one value, one hump or two.",
        lambda: _draw(points, sizes, {coupling: laws[coupling] for coupling in shown}),
        {
            "options": model.options(k=k, couplings=couplings),
            "points": points,
            "agreement_laws": {f"{coupling:g}": law.tolist() for coupling, law in laws.items()},
        },
    ).save(folder)


def _splits(law: Counts) -> bool:
    """Whether both ends of a count's law are above a value between them."""
    return bool(min(law[0], law[-1]) > law.min())


def _draw(points: list[dict[str, Any]], sizes: Sequence[int], laws: dict[float, Counts]) -> Figure:
    split = _splits(list(laws.values())[-1])
    figure, (left, middle, right) = panels(
        ("Generation slows down", "coupling of each pair", "mixing time, steps"),
        ("Training slows down", "coupling of each pair", "samples needed, worst direction\n(maximum likelihood = 1)"),
        ("Because the law splits in two" if split else "The law of how many sites agree", "", ""),
    )
    for axis, name in ((left, "mixing_time"), (middle, "worst_cost")):
        for k, colour in zip(sizes, shades(len(sizes)), strict=True):
            mine = [p for p in points if p["k"] == k]
            axis.plot([p["coupling"] for p in mine], [p[name] for p in mine], "o-", color=colour, label=f"k = {k}")
        axis.set(yscale="log")
        plain_numbers(axis.yaxis)
        axis.legend(title="masked sites")
    agreement_bars(right, {f"coupling {coupling:g}": law for coupling, law in laws.items()}, SERIES * len(laws))
    return figure


def agreement_bars(axis: Axes, laws: dict[str, Counts], colours: Sequence[str]) -> None:
    """Laws of the number of sites that take the last value, as bars beside each other."""
    width = 0.8 / len(laws)
    for index, ((name, law), colour) in enumerate(zip(laws.items(), colours, strict=False)):
        places = [count + (index - (len(laws) - 1) / 2) * width for count in range(len(law))]
        axis.bar(places, law, width, color=colour, label=name)
    axis.set(xlabel=f"sites, of {len(law) - 1}, that take the last value", ylabel="probability", xticks=range(len(law)))
    axis.legend(loc="upper center")
