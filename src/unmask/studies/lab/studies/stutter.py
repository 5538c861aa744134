"""Remark 1, "walking walking": why a parallel draw says a word twice.

A word is in one of N slots. Each slot draws it by its marginal, so a parallel draw has it twice
or not at all. Two slots, where "s w" and "w t" have weight 1/2 each:

    p("w w") = 1/4,         p(impossible) = 1/2,         TC = ln 2
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from unmask.studies.lab.panels import BLUE, GREEN, GREY, RED, panels
from unmask.studies.lab.study import Out, Points, Study, Watch, counted, study, table_of

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes

    from unmask.common.figures import Figure
    from unmask.studies.lab.dynamics import Square
    from unmask.studies.lab.model import LabModel, Vector

MOST_SLOTS = 8
"""Slots of the longest text that is drawn in parallel."""
REPAIR_SLOTS = 4
"""Slots of the text that is refined after a parallel draw."""
NOISE = 0.001
"""Share of the uniform law in the model of the refinement: it makes every state possible, so
that the word can move.
"""
STEPS = 24
"""Steps of the refinement."""
SINGLE_SLOT = "one slot (Gibbs, k=1)"


@study
def stutter(*, out: Out = None, progress: Watch = None) -> Study:
    """Why a parallel draw says a word twice."""
    from unmask.studies.lab.dynamics import product_conditional
    from unmask.studies.lab.entropies import Entropies
    from unmask.studies.lab.toys import stutter_pair

    pair = stutter_pair()
    product = product_conditional(pair.space, pair.p, (0, 1))
    correlation = Entropies(pair).total_correlation((0, 1))
    doubled = float(product.reshape(3, 3)[1, 1])  # the second of the words s, w, t in both slots
    impossible = float(product[pair.p == 0].sum())

    by_slots = [
        _parallel_draw(slots) for slots in counted(progress, range(2, MOST_SLOTS + 1), "slots")
    ]
    most_slots = by_slots[-1]
    repair, long_run = _refinement()
    repeated = repair[SINGLE_SLOT]
    until_half = next(step for step, chance in enumerate(repeated) if chance <= repeated[0] / 2)
    in_table = ("slots", "repeated", "missing", "once", "total_correlation")
    return Study(
        name="stutter",
        title="Remark: why “walking walking”",
        claim="Li et al. (2024): “Simple toy model to explain ‘stutter’ (common failure mode we"
        " observe): The dog was walking walking along the road.”",
        findings=[
            (
                "One parallel draw stutters. If “s w” and “w t” have probability 0.5 each, the"
                f" product of the marginals puts {doubled:.3g} on “w w” and {impossible:.3g} on"
                f" impossible pairs in all. It loses the total correlation, {correlation:.4f} nats"
                f" (ln 2 = {math.log(2):.4f})."
            ),
            (
                f"More slots do not help: with one word to place in {most_slots['slots']} slots,"
                f" {most_slots['repeated']:.0%} of parallel draws repeat it and"
                f" {most_slots['missing']:.0%} forget it."
            ),
            (
                f"Refinement one blank at a time repairs the stutter: {until_half} steps halve it."
                " But it hardly ever moves the word to another slot: its mixing time is"
                f" {long_run[0]['mixing_time']:,.0f} steps. Drawing pairs jointly does both."
            ),
        ],
        caption="One word, N slots: what a parallel draw of all slots gives",
        columns=("slots", "repeated", "missing", "once (right)", "TC, nats"),
        cells=table_of(by_slots, in_table),
        note="",
        draw=lambda: _draw_stutter(pair.p, product, by_slots, repair),
        numbers={
            "options": {},
            "pair": {
                "stutter": doubled,
                "impossible": impossible,
                "total_correlation": correlation,
            },
            "slots": by_slots,
            "repair": repair,
            "long_run": long_run,
        },
    )


def _parallel_draw(slots: int) -> dict[str, Any]:
    """How often a parallel draw of all slots misses or repeats the word, and what it loses."""
    from unmask.studies.lab.entropies import Entropies
    from unmask.studies.lab.toys import outcomes, slots_model

    model = slots_model(slots)
    return {
        "slots": slots,
        **outcomes(model, _all_at_once(model)),
        "total_correlation": Entropies(model).total_correlation(range(slots)),
    }


def _all_at_once(model: LabModel) -> Vector:
    """The law of a parallel draw of all slots."""
    from unmask.studies.lab.dynamics import product_conditional

    return product_conditional(model.space, model.p, tuple(range(model.space.sites)))


def _refinement() -> tuple[dict[str, list[float]], Points]:
    """What three samplers make of a parallel draw.

    1. By sampler, the probability that the word is repeated after 0..STEPS steps.
    2. For each sampler, in the same order, the law that it settles on and its mixing time.
    """
    from unmask.studies.lab import dynamics
    from unmask.studies.lab.toys import outcomes, slots_model

    model = slots_model(REPAIR_SLOTS, NOISE)
    pairs = dynamics.uniform_masks(model.space, 2)
    samplers: dict[str, Square] = {
        SINGLE_SLOT: dynamics.gibbs(model, 1),
        "two slots in parallel": dynamics.parallel_step(model, pairs),
        "two slots jointly (Gibbs, k=2)": dynamics.gibbs(model, 2),
    }
    repair: dict[str, list[float]] = {}
    long_run: Points = []
    for name, chain in samplers.items():
        law = _all_at_once(model)
        repair[name] = [outcomes(model, law)["repeated"]]
        for _ in range(STEPS):
            law = law @ chain
            repair[name].append(outcomes(model, law)["repeated"])
        settled = dynamics.stationary_law(chain)
        settled_outcomes = outcomes(model, settled)
        long_run.append(
            {
                "step": name,
                "repeated": settled_outcomes["repeated"],
                "missing": settled_outcomes["missing"],
                "tv": dynamics.total_variation(settled, model.p),
                "mixing_time": dynamics.mixing_time(chain, settled),
            }
        )
    return repair, long_run


def _draw_stutter(
    pair: Vector, product: Vector, by_slots: Points, repair: Mapping[str, list[float]]
) -> Figure:
    """`pair` and `product` are laws of two slots with three words each, (9,)."""
    import numpy as np

    figure, (left, middle, right) = panels(
        ("A pair, and its parallel draw", "second word", "first word"),
        ("One word, N slots, drawn in parallel", "slots N", "probability"),
        (
            "Refining step by step",
            "steps after a parallel draw of all slots",
            "probability that the word is repeated",
        ),
        widths=(1.15, 1.0, 1.0),  # two tables beside each other need more
    )
    _draw_tables(left, pair.reshape(3, 3), product.reshape(3, 3))

    slots = [row["slots"] for row in by_slots]
    base = np.zeros(len(by_slots))
    for name, colour in (("once", GREEN), ("repeated", RED), ("missing", GREY)):
        height = np.array([row[name] for row in by_slots])
        middle.bar(slots, height, width=0.75, bottom=base, color=colour, label=name)
        base += height
    middle.set(ylim=(0, 1.25), xticks=slots)  # above 1, the sum of the bars, is the legend
    middle.legend(loc="upper center", ncols=3)

    for (name, chances), colour in zip(repair.items(), (BLUE, RED, GREEN), strict=True):
        right.plot(range(len(chances)), chances, color=colour, label=name)
    right.legend()
    return figure


def _draw_tables(axis: Axes, pair: np.ndarray, product: np.ndarray) -> None:
    """The law of two words beside that of their parallel draw, (3, 3) each; red numbers are
    impossible pairs that the parallel draw has.
    """
    import numpy as np

    gap = np.full((3, 1), np.nan)
    cells = np.concatenate([pair, gap, product], axis=1)
    axis.imshow(cells, cmap="Blues", vmin=0, vmax=0.8, aspect="auto")
    axis.grid(False)
    for (row, column), value in np.ndenumerate(cells):
        if column == 3:  # the gap
            continue
        colour = "black"
        if column > 3 and pair[row, column - 4] == 0 and value > 0:
            colour = RED
        axis.text(column, row, f"{value:.3g}", ha="center", va="center", color=colour)
    axis.set_xticks([0, 1, 2, 4, 5, 6], list("swt") * 2)
    axis.set_yticks(range(3), list("swt"))
    for centre, table in ((1, "the law p"), (5, "drawn in parallel")):
        axis.text(centre, -0.62, table, ha="center", va="bottom")
    axis.set_ylim(2.5, -0.95)  # rows are 0 to 2 from the top; the names of the tables above
