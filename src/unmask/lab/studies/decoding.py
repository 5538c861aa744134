"""Decoders whose law is known: what a rule that chooses positions before tokens loses, pass by pass, and what bounds it."""

from __future__ import annotations

from math import log
from statistics import median
from typing import TYPE_CHECKING, Any

from unmask.lab.spins import Folder, SpinModel
from unmask.lab.study import BLUE, GREEN, GREY, ORANGE, RED, Study, Table, counted, lab_folder, panels, without_rounding
from unmask.runs.progress import Progress

if TYPE_CHECKING:
    from unmask.figures import Figure

DEFAULT = SpinModel(sites=8, coupling=0.6, fields="-1:1", graph="path")
GAMMAS = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""Bounds of the rules that have one, in nats."""


def decoding(model: SpinModel = DEFAULT, *, out: Folder | None = None, progress: Progress | None = None) -> Study:
    """What decoders that choose positions before tokens lose, and what bounds it.

    Parameters
    ----------
    model
        Spins, or an explicit joint.
    out
        Folder for figure and numbers: new, empty, or an earlier lab's.
    progress
        Called with the parts done, their number, and what they are.
    """
    from unmask.lab import schedules
    from unmask.lab.schedules import decoded, kl

    folder, spins = lab_folder(out, model.table), model.build()
    sites = spins.space.sites
    rules = [("interleaved", 2.0**e, schedules.every(2**e)) for e in range(sites.bit_length())]
    rules += [("lowest-entropy", float(count), schedules.lowest_entropy(count)) for count in range(1, sites + 1)]
    for gamma in GAMMAS:
        rules.append(("entropy-bound", gamma, schedules.entropy_bound(gamma)))
        rules.append(("least-dependent", gamma, schedules.least_dependent(gamma)))
    step, points = counted(progress, len(rules), "rules"), []
    for name, setting, rule in rules:
        walk = decoded(spins, rule)
        numbers = {"passes": walk.passes, "kl": kl(spins.p, walk.law), "total_correlation": walk.cost, "bound": walk.bound}
        points.append({"rule": name, "setting": setting, **numbers})
        step()
    difference = max(abs(p["kl"] - p["total_correlation"]) for p in points)
    ratios = [p["bound"] / p["kl"] for p in points if p["kl"] > 1e-9]
    parity, equal = schedules.Entropies(schedules.even_parity()), schedules.Entropies(schedules.agreement())
    lost = kl(schedules.even_parity().p, decoded(schedules.even_parity(), schedules.least_dependent(0.0)).law)
    findings = [
        "**The loss of a rule is the dependence that it ignores**: KL(p || law) and the expected sum of total correlations "
        f"differ by {difference:.0e} at most, for sets that depend on the tokens revealed.",
        f"**The bound by entropies is loose**: {median(ratios):,.1f} times the loss at the median. It counts what is uncertain, "
        "not what is dependent, so it spends passes on sites that are free."
        if ratios
        else "**Here the sites are independent**: nothing is lost at any number of passes, and the bound does not see it.",
        "**Pairs do not tell all.** Three bits of even parity are pairwise independent "
        f"(I = {without_rounding(parity.mutual_information(0, 1)):g}), and one pass loses {lost:.4f} nats (ln 2 = {log(2):.4f}). "
        "Three bits that agree are independent in pairs given the third, with a total correlation of "
        f"{equal.total_correlation(range(3)):.4f} nats (2 ln 2).",
    ]
    table = Table(
        model.describe(),
        ("rule", "setting", "passes", "KL(p || law)", "sum of E TC", "bound by entropies"),
        [[v if isinstance(v, str) else without_rounding(v) for v in point.values()] for point in points],
        "Setting: distance between sites (interleaved), sites per pass (lowest-entropy), or gamma in nats. Passes are "
        "expected under p. Informations of least-dependent are exact.",
    )
    return Study(
        "decoding",
        "Decoders with a law: passes against nats",
        "A decoder that chooses positions before it draws their tokens has a law; the loss is the dependence that it ignores.",
        findings,
        [table],
        "Left: what each rule loses against its passes. Right: the bound by entropies against the loss; the line is equality.",
        lambda: _draw(points),
        {"options": model.options(), "points": points},
    ).save(folder)


def _draw(points: list[dict[str, Any]]) -> Figure:
    figure, (left, right) = panels(
        ("Passes against nats", "passes, expected", "KL(p || law), nats"),
        ("The bound by entropies is loose", "loss, nats", "bound, nats"),
    )
    colours = {"interleaved": GREEN, "lowest-entropy": ORANGE, "entropy-bound": RED, "least-dependent": BLUE}
    for rule, colour in colours.items():
        mine = sorted((p for p in points if p["rule"] == rule), key=lambda p: (round(p["passes"], 9), -p["kl"]))
        left.plot([p["passes"] for p in mine], [max(0.0, p["kl"]) for p in mine], "o-", color=colour, label=rule)
        several = [p for p in mine if p["kl"] > 1e-9]
        right.plot([p["kl"] for p in several], [p["bound"] for p in several], "o", color=colour)
    left.legend()
    most = max(p["kl"] for p in points)
    right.plot([0, most], [0, most], color=GREY, linewidth=0.8)
    return figure
