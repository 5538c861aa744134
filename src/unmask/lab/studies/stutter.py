"""Remark 1: why "walking walking".

The word w is in one of N slots, and one does not know which: for two slots p(s, w) = 1 - p(w, t). Each slot on its own is
filled with w by its marginal, so a parallel draw has w twice, or not at all. For two slots with weight 1/2:
p("w w") = 1/4 and p(impossible) = 1/2 under the product, and TC = ln 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unmask.errors import InputError
from unmask.lab import figures
from unmask.lab.dynamics import (
    Transition,
    block_dynamics,
    gibbs,
    mixing_time,
    parallel_step,
    product_conditional,
    stationary_law,
    total_variation,
    uniform_masks,
)
from unmask.lab.model import LabModel, Space, Vector, table_model
from unmask.lab.schedules import Entropies
from unmask.lab.studies.study import Study, Table, counted
from unmask.options.lab import Stutter
from unmask.runs.progress import Progress

if TYPE_CHECKING:
    from unmask.figures import Figure

PAIRS = [f"{a} {b}" for a in "swt" for b in "swt"]


def stutter_pair(weight: float = 0.5) -> LabModel:
    """p(s, w) = weight, p(w, t) = 1 - weight, over the words (s, w, t) in both positions."""
    if not 0 < weight < 1:
        raise InputError(f"weight {weight:g}: use a number between 0 and 1")
    joint = np.zeros((3, 3))
    joint[0, 1], joint[1, 2] = weight, 1 - weight
    return table_model(joint, "stutter pair")


def slots_model(slots: int, noise: float = 0.0) -> LabModel:
    """One w among fillers, in any of `slots` equally likely places (value 1: w), mixed with `noise` of the uniform law."""
    if slots < 1 or not 0 <= noise < 1:
        raise InputError(f"{slots} slots with noise {noise:g}: use at least 1 slot and noise from 0 to below 1")
    space = Space((2,) * slots)
    legal = (space.values.sum(1) == 1).astype(float)
    p = (1 - noise) * legal / legal.sum() + noise / space.states
    return table_model(p.reshape(space.sizes), f"{slots} slots")


def outcomes(model: LabModel, law: Vector) -> dict[str, float]:
    """Probabilities that w is missing, occurs once (right), or is repeated."""
    count = model.space.values.sum(1)
    return {
        "missing": float(law[count == 0].sum()),
        "once": float(law[count == 1].sum()),
        "repeated": float(law[count > 1].sum()),
    }


def run(options: Stutter, progress: Progress | None = None) -> Study:
    """Compute the study."""
    pair = stutter_pair(options.weight)
    product = product_conditional(pair.space, pair.p, (0, 1))
    correlation = Entropies(pair).total_correlation((0, 1))
    stutter, impossible = float(product.reshape(3, 3)[1, 1]), float(product[pair.p == 0].sum())
    by_slots, step = [], counted(progress, options.slots, "slots")
    for slots in range(2, options.slots + 1):
        model = slots_model(slots)
        drawn = outcomes(model, product_conditional(model.space, model.p, tuple(range(slots))))
        by_slots.append({"slots": slots, **drawn, "total_correlation": Entropies(model).total_correlation(range(slots))})
        step()
    noisy = slots_model(options.repair_slots, options.noise)
    samplers = _samplers(noisy)
    start = product_conditional(noisy.space, noisy.p, tuple(range(options.repair_slots)))
    repair = {name: _follow(noisy, chain, start, options.steps) for name, chain in samplers.items()}
    long_run = []
    for name, chain in samplers.items():
        law = stationary_law(chain)
        settled = outcomes(noisy, law)
        long_run.append((name, settled["repeated"], settled["missing"], total_variation(law, noisy.p), mixing_time(chain, law)))
    step()
    one_slot = next(iter(repair.values()))
    findings = [
        "**One parallel draw stutters.** The two sentences “s w” and “w t” are all there is (probabilities "
        f"{options.weight:g} and {1 - options.weight:g}). The product of the marginals puts {stutter:.3g} on “w w” and "
        f"{impossible:.3g} on impossible pairs in all. The total correlation, {correlation:.4f} nats, is exactly what the "
        "parallel draw throws away.",
        f"**More slots do not help**: with one word to place in {by_slots[-1]['slots']} slots, {by_slots[-1]['repeated']:.0%} "
        f"of parallel draws repeat it and {by_slots[-1]['missing']:.0%} forget it.",
        f"**Refinement one blank at a time repairs the stutter**, as in the slides' translation example: {_halved(one_slot)} "
        f"steps halve it. But it hardly ever moves the word to another slot: its mixing time, {long_run[0][4]:,.0f} steps, is "
        "the price (table). Drawing pairs jointly does both.",
    ]
    return Study(
        "stutter",
        "Remark: why “walking walking”",
        "“Simple toy model to explain ‘stutter’ (common failure mode we observe): The dog was walking walking along the road.”",
        findings,
        [
            Table(
                "Two slots: the law and its parallel draw",
                ("pair", "p", "product of marginals"),
                [(words, float(p), float(q)) for words, p, q in zip(PAIRS, pair.p, product, strict=True) if q > 0],
                f"TC = {correlation:.4f} nats (ln 2 = {np.log(2):.4f} for weights of one half).",
            ),
            Table(
                "One word, N slots: what a parallel draw of all slots gives",
                ("slots", "repeated", "missing", "once (right)", "TC, nats"),
                [(r["slots"], r["repeated"], r["missing"], r["once"], r["total_correlation"]) for r in by_slots],
            ),
            Table(
                f"{options.repair_slots} slots, {options.noise:g} of noise: samplers in the long run",
                ("step", "repeated", "missing", "TV(stationary law, p)", "t_mix"),
                long_run,
                "Only the joint draw of two slots has the right law and finds it soon.",
            ),
        ],
        "Left: the law of the pair, and what a parallel draw makes of it; red numbers are pairs that cannot occur. Middle: "
        "one word to place in N slots. Right: starting from a parallel draw of all slots, the chance that the word is "
        "repeated, step by step.",
        lambda: _draw(pair, product, by_slots, repair),
        {
            "options": options.to_dict(),
            "pair": {"stutter": stutter, "impossible": impossible, "total_correlation": correlation},
            "slots": by_slots,
            "repair": repair,
            "long_run": [dict(zip(("step", "repeated", "missing", "tv", "mixing_time"), row, strict=True)) for row in long_run],
        },
    )


def _samplers(model: LabModel) -> dict[str, Transition]:
    return {
        "one slot (Gibbs, k=1)": gibbs(model, 1),
        "two slots in parallel": parallel_step(model, uniform_masks(model.space, 2)),
        "two slots jointly (Gibbs, k=2)": block_dynamics(model, uniform_masks(model.space, 2)),
    }


def _follow(model: LabModel, chain: Transition, law: Vector, steps: int) -> list[float]:
    out = [outcomes(model, law)["repeated"]]
    for _ in range(steps):
        law = np.asarray(law @ chain)
        out.append(outcomes(model, law)["repeated"])
    return out


def _halved(curve: list[float]) -> str:
    return next((str(t) for t, value in enumerate(curve) if value <= curve[0] / 2), f"over {len(curve) - 1}")


def _draw(pair: LabModel, product: Vector, by_slots: list[dict[str, float]], repair: dict[str, list[float]]) -> Figure:
    figure, (left, middle, right) = figures.panels(
        ("A pair, and its parallel draw", "One word, N slots, drawn in parallel", "Refining step by step"), widths=(1.15, 1, 1)
    )
    both = np.concatenate([pair.p.reshape(3, 3), np.full((3, 1), np.nan), product.reshape(3, 3)], axis=1)
    left.imshow(both, cmap="Blues", vmin=0, vmax=0.8, aspect="auto")
    left.grid(False)
    for i in range(3):
        for j in (0, 1, 2, 4, 5, 6):
            value, wrong = both[i, j], j > 3 and pair.p.reshape(3, 3)[i, j - 4] == 0 and both[i, j] > 0
            colour = figures.RED if wrong else ("white" if value > 0.4 else "#bbbbbb" if value == 0 else "black")
            left.text(j, i, f"{value:.3g}", ha="center", va="center", color=colour, fontweight="bold" if wrong else "normal")
    left.set_xticks([0, 1, 2, 4, 5, 6], list("swt") * 2)
    left.set_yticks(range(3), list("swt"))
    left.set_xlabel("second word")
    for x, words in ((1, "the law p"), (5, "drawn in parallel")):
        left.text(x, -0.62, words, ha="center", va="bottom")
    left.set_ylim(2.5, -0.95)
    left.set_ylabel("first word")
    left.spines[["left", "bottom"]].set_visible(False)
    slots = [r["slots"] for r in by_slots]
    base = np.zeros(len(slots))
    colours = {"once": figures.GREEN, "repeated": figures.RED, "missing": figures.GREY}
    for (key, colour), label in zip(colours.items(), ("once (right)", "repeated (stutter)", "missing"), strict=True):
        height = np.array([r[key] for r in by_slots])
        middle.bar(slots, height, 0.75, base, color=colour, label=label)
        base += height
    middle.set(xlabel="slots N", ylabel="probability", ylim=(0, 1.25), xticks=slots, yticks=np.linspace(0, 1, 6))
    middle.legend(loc="upper center", ncols=3, columnspacing=0.8, handlelength=1.0, fontsize=8)
    for (name, curve), colour in zip(repair.items(), (figures.BLUE, figures.RED, figures.GREEN), strict=True):
        right.plot(range(len(curve)), curve, color=colour, label=name)
    right.set(xlabel="steps after a parallel draw of all slots", ylabel="probability that the word is repeated")
    right.set_ylim(bottom=0)
    right.legend()
    return figure
