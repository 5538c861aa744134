"""Remark 1: why "walking walking".

The word w is in one of N slots, and one does not know which: for two slots p(s, w) = 1 - p(w, t). Each slot on its own is
filled with w by its marginal, so a parallel draw has w twice, or not at all. For two slots with weight 1/2:
p("w w") = 1/4 and p(impossible) = 1/2 under the product, and TC = ln 2.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from unmask.lab.spins import Folder
from unmask.lab.study import BLUE, GREEN, GREY, RED, Study, Table, counted, lab_folder, panels
from unmask.runs.progress import Progress

if TYPE_CHECKING:
    from unmask.figures import Figure
    from unmask.lab.model import Vector

MOST_SLOTS = 8
"""Of the word to be placed by one parallel draw."""
REPAIR_SLOTS, NOISE, STEPS = 4, 0.001, 24
"""Of the refinement; the noise is the share of the uniform law."""


def stutter(*, out: Folder | None = None, progress: Progress | None = None) -> Study:
    """Why a parallel draw says a word twice.

    Parameters
    ----------
    out
        Folder for figure and numbers: new, empty, or an earlier lab's.
    progress
        Called with the parts done, their number, and what they are.
    """
    import numpy as np

    from unmask.lab.dynamics import gibbs, mixing_time, parallel_step, product_conditional, stationary_law, total_variation
    from unmask.lab.dynamics import uniform_masks as masks_of
    from unmask.lab.model import outcomes, slots_model, stutter_pair
    from unmask.lab.schedules import Entropies

    folder, step, pair = lab_folder(out), counted(progress, MOST_SLOTS, "slots"), stutter_pair()
    product = product_conditional(pair.space, pair.p, (0, 1))
    correlation = Entropies(pair).total_correlation((0, 1))
    doubled, impossible = float(product.reshape(3, 3)[1, 1]), float(product[pair.p == 0].sum())
    by_slots: list[dict[str, Any]] = []
    for slots in range(2, MOST_SLOTS + 1):
        model = slots_model(slots)
        drawn = outcomes(model, product_conditional(model.space, model.p, tuple(range(slots))))
        by_slots.append({"slots": slots, **drawn, "total_correlation": Entropies(model).total_correlation(range(slots))})
        step()
    noisy = slots_model(REPAIR_SLOTS, NOISE)
    samplers = {
        "one slot (Gibbs, k=1)": gibbs(noisy, 1),
        "two slots in parallel": parallel_step(noisy, masks_of(noisy.space, 2)),
        "two slots jointly (Gibbs, k=2)": gibbs(noisy, 2),
    }
    repair, long_run = {}, []
    for name, chain in samplers.items():
        law = product_conditional(noisy.space, noisy.p, tuple(range(REPAIR_SLOTS)))
        repair[name] = [outcomes(noisy, law)["repeated"]]
        for _ in range(STEPS):
            law = np.asarray(law @ chain)
            repair[name].append(outcomes(noisy, law)["repeated"])
        settled = stationary_law(chain)
        ends, tv = outcomes(noisy, settled), total_variation(settled, noisy.p)
        time = mixing_time(chain, settled)
        long_run.append({"step": name, "repeated": ends["repeated"], "missing": ends["missing"], "tv": tv, "mixing_time": time})
    step()
    curve, last = repair["one slot (Gibbs, k=1)"], by_slots[-1]
    halved = next(steps for steps, value in enumerate(curve) if value <= curve[0] / 2)
    findings = [
        "**One parallel draw stutters.** The two sentences “s w” and “w t” are all there is (probabilities 0.5 and 0.5). The "
        f"product of the marginals puts {doubled:.3g} on “w w” and {impossible:.3g} on impossible pairs in all. The total "
        f"correlation, {correlation:.4f} nats, is exactly what the parallel draw throws away.",
        f"**More slots do not help**: with one word to place in {last['slots']} slots, {last['repeated']:.0%} of parallel draws "
        f"repeat it and {last['missing']:.0%} forget it.",
        "**Refinement one blank at a time repairs the stutter**, as in the translation example of Li et al. (2024): "
        f"{halved} steps halve it. But it hardly ever moves the word to another slot: its mixing time, "
        f"{long_run[0]['mixing_time']:,.0f} steps, is the price (table). Drawing pairs jointly does both.",
    ]
    pairs = [f"{a} {b}" for a in "swt" for b in "swt"]
    tables = [
        Table(
            "Two slots: the law and its parallel draw",
            ("pair", "p", "product of marginals"),
            [(words, float(p), float(q)) for words, p, q in zip(pairs, pair.p, product, strict=True) if q > 0],
            f"TC = {correlation:.4f} nats (ln 2 = {math.log(2):.4f} for weights of one half).",
        ),
        Table(
            "One word, N slots: what a parallel draw of all slots gives",
            ("slots", "repeated", "missing", "once (right)", "TC, nats"),
            [[row[name] for name in ("slots", "repeated", "missing", "once", "total_correlation")] for row in by_slots],
        ),
        Table(
            f"{REPAIR_SLOTS} slots, {NOISE:g} of noise: samplers in the long run",
            ("step", "repeated", "missing", "TV(stationary law, p)", "t_mix"),
            [list(row.values()) for row in long_run],
            "Only the joint draw of two slots has the right law and finds it soon.",
        ),
    ]
    return Study(
        "stutter",
        "Remark: why “walking walking”",
        "Li et al. (2024): “Simple toy model to explain ‘stutter’ (common failure mode we observe): The dog was walking walking "
        "along the road.”",
        findings,
        tables,
        "Left: the law of the pair, and what a parallel draw makes of it; red numbers are pairs that cannot occur. Middle: "
        "one word to place in N slots. Right: starting from a parallel draw of all slots, the chance that the word is "
        "repeated, step by step.",
        lambda: _draw(pair.p, product, by_slots, repair),
        {
            "options": {},
            "pair": {"stutter": doubled, "impossible": impossible, "total_correlation": correlation},
            "slots": by_slots,
            "repair": repair,
            "long_run": long_run,
        },
    ).save(folder)


def _draw(pair: Vector, product: Vector, by_slots: list[dict[str, Any]], repair: dict[str, list[float]]) -> Figure:
    import numpy as np

    figure, (left, middle, right) = panels(
        ("A pair, and its parallel draw", "second word", "first word"),
        ("One word, N slots, drawn in parallel", "slots N", "probability"),
        ("Refining step by step", "steps after a parallel draw of all slots", "probability that the word is repeated"),
        widths=(1.15, 1, 1),
    )
    both = np.concatenate([pair.reshape(3, 3), np.full((3, 1), np.nan), product.reshape(3, 3)], axis=1)
    left.imshow(both, cmap="Blues", vmin=0, vmax=0.8, aspect="auto")
    left.grid(False)
    for i in range(3):
        for j in (0, 1, 2, 4, 5, 6):
            value, wrong = both[i, j], j > 3 and both[i, j - 4] == 0 and both[i, j] > 0
            colour = RED if wrong else ("white" if value > 0.4 else "#bbbbbb" if value == 0 else "black")
            left.text(j, i, f"{value:.3g}", ha="center", va="center", color=colour, fontweight="bold" if wrong else "normal")
    left.set_xticks([0, 1, 2, 4, 5, 6], list("swt") * 2)
    left.set_yticks(range(3), list("swt"))
    for x, words in ((1, "the law p"), (5, "drawn in parallel")):
        left.text(x, -0.62, words, ha="center", va="bottom")
    left.set_ylim(2.5, -0.95)
    left.spines[["left", "bottom"]].set_visible(False)
    slots = [row["slots"] for row in by_slots]
    base = np.zeros(len(slots))
    for name, colour, label in (
        ("once", GREEN, "once (right)"),
        ("repeated", RED, "repeated (stutter)"),
        ("missing", GREY, "missing"),
    ):
        height = np.array([row[name] for row in by_slots])
        middle.bar(slots, height, 0.75, base, color=colour, label=label)
        base += height
    middle.set(ylim=(0, 1.25), xticks=slots, yticks=np.linspace(0, 1, 6))
    middle.legend(loc="upper center", ncols=3, columnspacing=0.8, handlelength=1.0, fontsize=8)
    for (name, curve), colour in zip(repair.items(), (BLUE, RED, GREEN), strict=True):
        right.plot(range(len(curve)), curve, color=colour, label=name)
    right.set_ylim(bottom=0)
    right.legend()
    return figure
