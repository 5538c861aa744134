"""Decoders whose law is known: what a rule that chooses positions before tokens loses, pass by pass, and what bounds it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import log
from statistics import median
from typing import TYPE_CHECKING

from unmask.lab import figures
from unmask.lab.schedules import (
    Entropies,
    Rule,
    agreement,
    decoded,
    entropy_bound,
    even_parity,
    every,
    kl,
    least_dependent,
    lowest_entropy,
)
from unmask.lab.studies.study import ModelSettings, Study, Table, counted, parse_numbers, without_rounding
from unmask.options.lab import Decoding
from unmask.runs.progress import Progress

if TYPE_CHECKING:
    from unmask.figures import Figure

INTERLEAVED, LOWEST, BOUND, LEAST = "interleaved", "lowest-entropy", "entropy-bound", "least-dependent"
COLOURS = {INTERLEAVED: figures.GREEN, LOWEST: figures.ORANGE, BOUND: figures.RED, LEAST: figures.BLUE}


@dataclass(frozen=True)
class Point:
    """A rule with one setting: expected passes, KL(p || law), the expected sums of total correlation and of its bound."""

    rule: str
    setting: float
    passes: float
    kl: float
    total_correlation: float
    bound: float


def run(options: Decoding, progress: Progress | None = None) -> Study:
    """Compute the study."""
    settings = ModelSettings.of(options)
    model = settings.build()
    sites = model.space.sites
    rules: list[tuple[str, float, Rule]] = [(INTERLEAVED, 2**e, every(2**e)) for e in range(sites.bit_length())]
    rules += [(LOWEST, k, lowest_entropy(k)) for k in range(1, sites + 1)]
    for gamma in parse_numbers(options.gammas, "gammas"):
        rules += [(BOUND, gamma, entropy_bound(gamma)), (LEAST, gamma, least_dependent(gamma))]
    step, points = counted(progress, len(rules), "rules"), []
    for name, setting, rule in rules:
        found = decoded(model, rule)
        points.append(Point(name, float(setting), found.passes, kl(model.p, found.law), found.cost, found.bound))
        step()
    apart = max(abs(p.kl - p.total_correlation) for p in points)
    some = [p for p in points if p.kl > 1e-9]
    loose = median([p.bound / p.kl for p in some] or [1.0])
    parity, equal = Entropies(even_parity()), Entropies(agreement())
    fooled = decoded(even_parity(), least_dependent(0.0))
    findings = [
        "**The loss of a rule is the dependence that it ignores**: KL(p || law) and the expected sum of total correlations "
        f"differ by {apart:.0e} at most, for sets that depend on the tokens revealed.",
        f"**The bound by entropies is loose**: {loose:,.1f} times the loss at the median. It counts what is uncertain, not what "
        "is dependent, so it spends passes on sites that are free."
        if some
        else "**Here the sites are independent**: nothing is lost at any number of passes, and the bound does not see it.",
        "**Pairs do not tell all.** Three bits of even parity are pairwise independent "
        f"(I = {without_rounding(parity.mutual_information(0, 1)):g}), and one pass loses "
        f"{kl(even_parity().p, fooled.law):.4f} nats (ln 2 = {log(2):.4f}). Three bits that agree are independent in pairs given "
        f"the third, with a total correlation of {equal.total_correlation(range(3)):.4f} nats (2 ln 2).",
    ]
    return Study(
        "decoding",
        "Decoders with a law: passes against nats",
        "A decoder that chooses positions before it draws their tokens has a law; the loss is what it takes for independent.",
        findings,
        [
            Table(
                settings.describe(),
                ("rule", "setting", "passes", "KL(p || law)", "sum of E TC", "bound by entropies"),
                [(p.rule, p.setting, p.passes, *map(without_rounding, (p.kl, p.total_correlation, p.bound))) for p in points],
                "Setting: distance between sites (interleaved), sites per pass (lowest-entropy), or gamma in nats. Passes are "
                "expected under p. Informations of least-dependent are exact.",
            )
        ],
        "Left: what each rule loses against its passes. Right: the bound by entropies against the loss; the line is equality.",
        lambda: _draw(points),
        {"options": {**options.to_dict(), "model": settings.describe()}, "points": [asdict(p) for p in points]},
    )


def _draw(points: list[Point]) -> Figure:
    figure, (left, right) = figures.panels(("Passes against nats", "The bound by entropies is loose"))
    for rule, colour in COLOURS.items():
        mine = sorted((p for p in points if p.rule == rule), key=lambda p: (round(p.passes, 9), -p.kl))
        left.plot([p.passes for p in mine], [max(0.0, p.kl) for p in mine], "o-", color=colour, label=rule)
        several = [p for p in mine if p.kl > 1e-9]
        right.plot([p.kl for p in several], [p.bound for p in several], "o", color=colour)
    left.set(xlabel="passes, expected", ylabel="KL(p || law), nats")
    left.legend()
    most = max((p.kl for p in points), default=0.0)
    right.plot([0, most], [0, most], color=figures.GREY, linewidth=0.8)
    right.set(xlabel="loss, nats", ylabel="bound, nats")
    return figure
