"""What it costs to unmask in few parallel steps.

For groups B_1, ..., B_T that are fixed beforehand,

    KL(p || sampler) = sum_t E TC(x_{B_t} | x_{B_<t})

where B_<t are the groups before B_t and TC is the total correlation. One site at a time, the
cross-entropies of the sites drawn, averaged over all orders, sum to the entropy:

    sum_k (1/k) E_{|K|=k} [masked cross-entropy] = H(p)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from unmask.common.border.calls import trusted
from unmask.studies.lab.panels import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, draw_curve, panels
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
    import numpy as np

    from unmask.common.figures import Figure
    from unmask.studies.lab.entropies import Entropies
    from unmask.studies.lab.groupings import BestSchedule, Grouping

PATH = trusted(SpinModel, sites=8, coupling=0.6, fields="0.2", graph="path")
ORDERS = 200
"""Random orders whose costs are averaged."""
NEIGHBOURS = "neighbours together"
SUREST_SITES = "surest sites first"
RANDOM = "random order"
SPREAD = "spread apart"
BEST = "best possible"
EXACT_ORDERS = (NEIGHBOURS, SUREST_SITES, RANDOM, SPREAD, BEST)
"""Orders that keep p exactly at one site per step: the columns of the table."""
SUREST_TOKENS = "keep the surest tokens"
REMASKED = "mask-predict, random re-masking"


@study
def schedule(model: SpinModel = PATH, *, out: Out = None, progress: Watch = None) -> Study:
    """The cost of unmasking in few parallel steps, and the order that costs least."""
    import numpy as np
    from scipy.special import entr

    from unmask.studies.lab.entropies import Entropies, masked_cross_entropy
    from unmask.studies.lab.groupings import best_schedules

    spins = model.build()
    generator = np.random.default_rng(0)
    sites = spins.space.sites
    entropies = Entropies(spins)
    best = best_schedules(spins)
    rows = []
    for steps in counted(progress, range(1, sites + 1), "steps"):
        best_of_steps = best[steps - 1]
        rows.append(_costs_of_orders(entropies, steps, best_of_steps, generator))
    entropy = float(entr(spins.p).sum())
    average = sum(masked_cross_entropy(spins, k) / k for k in range(1, sites + 1))

    identity_error = max(row["identity_error"] for row in rows)
    one_step = rows[0]
    two_steps = rows[1]
    single_sites = rows[-1]
    first_kl = one_step[f"KL, {SUREST_TOKENS}"]
    last_kl = single_sites[f"KL, {SUREST_TOKENS}"]
    first_entropy = one_step[f"entropy, {SUREST_TOKENS}"]
    last_entropy = single_sites[f"entropy, {SUREST_TOKENS}"]
    best_groups = " → ".join(_group_text(group) for group in two_steps["best schedule"])
    table_rows = []
    for row in rows:
        costs = [without_rounding(row[name]) for name in EXACT_ORDERS]
        table_rows.append((row["steps"], *costs))
    return Study(
        name="schedule",
        title="Unmasking schedules: what few steps cost",
        claim="Li et al. (2024): “Iteratively refine current guess, s.t. one forward pass updates"
        " multiple positions simultaneously. If # of steps is small, latency is low.”",
        findings=[
            (
                "The cost of a schedule is the dependence inside its groups. KL(p‖sampler)"
                " computed from the sampler's law and as a sum of conditional total correlations"
                f" agree to {identity_error:.0e}."
            ),
            (
                "How sites are grouped matters more than how many steps there are. With 2 steps,"
                f" neighbours together cost {two_steps[NEIGHBOURS]:.3f} nats and the best"
                f" grouping {two_steps[BEST]:.3f} ({best_groups}); neighbours together get"
                f" there in {_steps_of_neighbours(rows)} steps. The rule: draw together what"
                " depends least on each other."
            ),
            (
                "Keeping the surest tokens does not sample p: an order that looks at the values"
                f" drawn, as confidence-based decoders do, is {first_kl:.2f} nats from p in one"
                f" step and {last_kl:.2f} in {sites}, and the entropy of its samples goes from"
                f" {first_entropy:.2f} to {last_entropy:.2f} nats (p has {entropy:.2f}). That is a"
                " search for a likely text."
                " Choosing the surest site before drawing keeps p exactly at one site per step."
            ),
            (
                "The average over all masks is the entropy: Σ_k (1/k) E[masked cross-entropy] ="
                f" {average:.6f} nats, H(p) = {entropy:.6f} nats."
            ),
        ],
        caption=f"{model.describe()}: KL(p‖sampler) in nats, by number of parallel steps",
        columns=("steps", *EXACT_ORDERS),
        cells=table_rows,
        note="Exact conditionals at every step. Groups are even; the best possible is over groups"
        f" of any sizes. Random order: mean of {ORDERS}.",
        draw=lambda: _draw_schedule(rows, sites, entropy),
        numbers={
            "options": model.options(),
            "entropy": entropy,
            "sum_of_masked_cross_entropies": average,
            "rows": rows,
        },
    )


def _group_text(sites: Sequence[int]) -> str:
    """A group of sites, counted from 1 as readers do."""
    return " ".join(str(site + 1) for site in sites)


def _steps_of_neighbours(rows: Points) -> int:
    """How many steps neighbours together need to cost no more than the best grouping in two."""
    goal = rows[1][BEST] + 1e-12  # equal but for rounding is enough
    for row in rows:
        if row[NEIGHBOURS] <= goal:
            return int(row["steps"])
    return len(rows)


def _costs_of_orders(
    entropies: Entropies, steps: int, best: BestSchedule, generator: np.random.Generator
) -> dict[str, Any]:
    """A row of the study: KL(p || sampler) of each order with this many steps. Orders that look
    at the tokens drawn also have the entropy of their samples.

    "identity_error" is the largest difference between KL(p || sampler) and the sum of total
    correlations, over the two orders for which both are computed.

    best   the best schedule of this many steps
    """
    import numpy as np
    from scipy.special import entr

    from unmask.studies.lab import groupings
    from unmask.studies.lab.confidence import greedy_law, mask_predict_law
    from unmask.studies.lab.entropies import kl

    model = entropies.model
    sites = model.space.sites

    def cost_of(groups: Grouping) -> float:
        """The sum of total correlations."""
        return sum(groupings.schedule_cost(entropies, groups))

    neighbours = groupings.contiguous(sites, steps)
    apart = groupings.spread(sites, steps)
    costs = {NEIGHBOURS: cost_of(neighbours), SPREAD: cost_of(apart)}
    divergences = {
        NEIGHBOURS: kl(model.p, groupings.unmasking_law(model, neighbours)),
        SPREAD: kl(model.p, groupings.unmasking_law(model, apart)),
    }
    random_orders = [groupings.shuffled(sites, steps, generator) for _ in range(ORDERS)]
    random_costs = [cost_of(order) for order in random_orders]
    surest_sites = greedy_law(model, steps, "sure site")
    surest_tokens = greedy_law(model, steps, "sure token")
    remasked = mask_predict_law(model, steps)
    return {
        "steps": steps,
        **costs,
        RANDOM: float(np.mean(random_costs)),
        SUREST_SITES: kl(model.p, surest_sites),
        BEST: best.cost,
        "best schedule": [list(group) for group in best.groups],
        f"KL, {SUREST_TOKENS}": kl(model.p, surest_tokens),
        f"entropy, {SUREST_TOKENS}": float(entr(surest_tokens).sum()),
        f"KL, {REMASKED}": kl(model.p, remasked),
        f"entropy, {REMASKED}": float(entr(remasked).sum()),
        "identity_error": max(abs(costs[name] - divergences[name]) for name in costs),
    }


def _draw_schedule(rows: Points, sites: int, entropy: float) -> Figure:
    across = f"parallel steps to draw {sites} sites"
    figure, (left, middle, right) = panels(
        ("The grouping decides the cost", across, "KL(p ‖ samples), nats"),
        ("Keeping sure tokens moves away from p", across, "KL(p ‖ samples), nats"),
        ("Because it narrows the samples", across, "entropy of the samples, nats"),
    )
    looks = (
        (NEIGHBOURS, "s-", RED),
        (SUREST_SITES, "v-", PURPLE),
        (RANDOM, "^-", GREY),
        (SPREAD, "o-", BLUE),
        (BEST, "*-", GREEN),
    )
    for name, look, colour in looks:
        draw_curve(left, rows, x="steps", y=name, look=look, color=colour, label=name)
    looks_at_tokens = ((SUREST_TOKENS, "s-", RED), (REMASKED, "^-", ORANGE))
    for axis, quantity in ((middle, "KL"), (right, "entropy")):
        for name, look, colour in looks_at_tokens:
            key = f"{quantity}, {name}"
            draw_curve(axis, rows, x="steps", y=key, look=look, color=colour, label=name)
    draw_curve(
        middle,
        rows,
        x="steps",
        y=RANDOM,
        look="--",
        color=GREY,
        label="random order (left panel)",
    )
    middle.set_yscale("symlog", linthresh=0.01)
    right.axhline(entropy, color=GREY, linewidth=1, linestyle="--", label="entropy of p")
    for axis in (left, middle, right):
        axis.set(xticks=[row["steps"] for row in rows])
        axis.legend()
    return figure
