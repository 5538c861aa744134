"""What a decoder that chooses positions before tokens loses, pass by pass, and what bounds it.

    KL(p || law) = sum_t E TC(X_{K_t} | x_{S_t}) <= sum_t E [ entropies of K_t - the largest ]

for a rule that chooses K_t from what is revealed, (S_t, x_{S_t}).
"""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING

from unmask.common.border.calls import trusted
from unmask.studies.lab.panels import BLUE, GREEN, GREY, ORANGE, RED, draw_curve, panels
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
    from unmask.studies.lab.rules import Rule

TILTED_PATH = trusted(SpinModel, sites=8, coupling=0.6, fields="-1:1", graph="path")
GAMMAS = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""Bounds, in nats, of the rules that keep one."""
LOSSLESS = 1e-9
"""Losses below this, in nats, are rounding errors."""


@study
def decoding(model: SpinModel = TILTED_PATH, *, out: Out = None, progress: Watch = None) -> Study:
    """The loss of decoders that choose positions before tokens, and a bound on it."""
    from unmask.studies.lab.entropies import Entropies, kl
    from unmask.studies.lab.rules import decoded, least_dependent
    from unmask.studies.lab.toys import agreement, even_parity

    spins = model.build()
    points: Points = []
    rules = _rules_with_settings(spins.space.sites)
    for name, setting, rule in counted(progress, rules, "rules"):
        walk = decoded(spins, rule)
        points.append(
            {
                "rule": name,
                "setting": setting,
                "passes": walk.passes,
                "kl": kl(spins.p, walk.law),
                "total_correlation": walk.cost,
                "bound": walk.bound,
            }
        )
    difference = max(abs(point["kl"] - point["total_correlation"]) for point in points)

    parity = even_parity()
    information = without_rounding(Entropies(parity).total_correlation((0, 1)))
    lost = kl(parity.p, decoded(parity, least_dependent(0.0)).law)
    equal = Entropies(agreement()).total_correlation(range(3))

    rows = []
    for point in points:
        numbers = [without_rounding(value) for name, value in point.items() if name != "rule"]
        rows.append([point["rule"], *numbers])
    return Study(
        name="decoding",
        title="Decoders with a law: passes against nats",
        claim="A decoder that chooses positions before it draws their tokens has a law; the loss is"
        " the dependence that it ignores.",
        findings=[
            (
                "The loss of a rule is the dependence that it ignores: KL(p || law) and the"
                f" expected sum of total correlations differ by {difference:.0e} at most, for sets"
                " that depend on the tokens revealed."
            ),
            _finding_about_the_bound(points),
            (
                "Pairs do not tell all. Three bits of even parity are pairwise independent (I ="
                f" {information:g}), and one pass loses {lost:.4f} nats (ln 2 = {math.log(2):.4f})."
                " Three bits that agree are independent in pairs given the third, with a total"
                f" correlation of {equal:.4f} nats (2 ln 2)."
            ),
        ],
        caption=model.describe(),
        columns=("rule", "setting", "passes", "KL(p || law)", "sum of E TC", "bound by entropies"),
        cells=rows,
        note="Setting: distance between sites (interleaved), sites per pass (lowest-entropy), or"
        " gamma in nats. Passes are expected under p. Informations of least-dependent are exact.",
        draw=lambda: _draw_decoding(points),
        numbers={"options": model.options(), "points": points},
    )


def _rules_with_settings(sites: int) -> list[tuple[str, float, Rule]]:
    """Each rule with its name and with one of its settings."""
    from unmask.studies.lab.rules import entropy_bound, every, least_dependent, lowest_entropy

    rules: list[tuple[str, float, Rule]] = []
    for exponent in range(sites.bit_length()):  # distances are the powers of two up to `sites`
        rules.append(("interleaved", 2.0**exponent, every(2**exponent)))
    for count in range(1, sites + 1):
        rules.append(("lowest-entropy", float(count), lowest_entropy(count)))
    for gamma in GAMMAS:
        rules.append(("entropy-bound", gamma, entropy_bound(gamma)))
        rules.append(("least-dependent", gamma, least_dependent(gamma)))
    return rules


def _finding_about_the_bound(points: Points) -> str:
    ratios = [point["bound"] / point["kl"] for point in points if point["kl"] > LOSSLESS]
    if not ratios:
        return (
            "Here the sites are independent: nothing is lost at any number of passes, and the"
            " bound does not see it."
        )
    return (
        f"The bound by entropies is loose: {median(ratios):,.1f} times the loss at the"
        " median. It counts what is uncertain, not what is dependent, so it spends passes"
        " on sites that are free."
    )


def _draw_decoding(points: Points) -> Figure:
    figure, (left, right) = panels(
        ("Passes against nats", "passes, expected", "KL(p || law), nats"),
        ("The bound by entropies is loose", "loss, nats", "bound, nats"),
    )
    colours = {
        "interleaved": GREEN,
        "lowest-entropy": ORANGE,
        "entropy-bound": RED,
        "least-dependent": BLUE,
    }
    for rule, colour in colours.items():
        of_rule = [point for point in points if point["rule"] == rule]
        # By passes, and by falling loss where passes are equal but for rounding.
        of_rule.sort(key=lambda point: (round(point["passes"], 9), -point["kl"]))
        draw_curve(left, of_rule, x="passes", y="kl", look="o-", color=colour, label=rule)
        lossy = [point for point in of_rule if point["kl"] > LOSSLESS]
        draw_curve(right, lossy, x="kl", y="bound", look="o", color=colour)
    left.legend()
    right.axline((0, 0), slope=1, color=GREY, linewidth=0.8)
    return figure
