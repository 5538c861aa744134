"""Unmasking in a few parallel steps: what a schedule costs, and which order costs least.

KL(p || sampler) = sum_t E TC(x_{B_t} | x_{B_<t})         for groups B_t fixed beforehand
sum_k (1/k) E_{|K|=k} [masked cross-entropy] = H(p)       averaged over all orders, one at a time
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import entr

from unmask.errors import InputError
from unmask.lab import figures
from unmask.lab.model import LabModel
from unmask.lab.schedules import (
    Entropies,
    contiguous,
    extreme_schedule,
    greedy_law,
    kl,
    mask_predict_law,
    masked_cross_entropy,
    schedule_cost,
    shuffled,
    spread,
    unmasking_law,
)
from unmask.lab.studies.study import ModelSettings, Study, Table, counted, without_rounding
from unmask.options.lab import Schedule
from unmask.runs.progress import Progress

if TYPE_CHECKING:
    from unmask.figures import Figure

MAX_SITES = 10
REDRAWN = ("KL, keep the surest tokens", "entropy, keep the surest tokens", "KL, mask-predict, random re-masking")
FIXED = ("neighbours together", "surest sites first", "random order", "spread apart", "best possible")


def run(options: Schedule, progress: Progress | None = None) -> Study:
    """Compute the study."""
    settings = ModelSettings.of(options)
    model = settings.build()
    sites = model.space.sites
    if not 2 <= sites <= MAX_SITES:
        raise InputError(f"{sites} sites: the best schedule is searched over all groupings of 2 to {MAX_SITES} sites")
    if model.p.min() <= 0:
        raise InputError(
            f"{model.name}: schedules reach contexts of probability zero; smooth the table so that every state is possible"
        )
    generator = np.random.default_rng(options.seed)
    entropies = Entropies(model)
    entropy = float(entr(model.p).sum())
    rows: list[dict[str, Any]] = []
    step = counted(progress, sites, "steps")
    for steps in range(1, sites + 1):
        rows.append(_row(model, steps, options.orders, generator, entropies))
        step()
    error = max(row["identity_error"] for row in rows)
    path_sum = sum(masked_cross_entropy(model, k) / k for k in range(1, sites + 1))
    half = rows[1]
    narrower = rows[-1]["KL, keep the surest tokens"] > rows[0]["KL, keep the surest tokens"]
    further = "with more steps the samples get *further* from p" if narrower else "its distance from p"
    findings = [
        "**The cost of a schedule is the dependence inside its groups.** KL(p‖sampler) computed from the sampler's law and "
        f"as a sum of conditional total correlations agree to {error:.0e}.",
        f"**How sites are grouped matters more than how many steps there are.** With {half['steps']} steps, neighbours "
        f"together cost {half['neighbours together']:.3f} nats and the best grouping {half['best possible']:.3f} "
        f"({_spell(half['best schedule'])}); neighbours together get there in {_as_good(rows, half['best possible'])} steps. "
        "The rule: draw together what depends least on each other.",
        "**Keeping the surest *tokens* is another matter.** An order that looks at the values drawn, as confidence-based "
        f"decoders do, no longer samples p: {further} ({rows[0]['KL, keep the surest tokens']:.2f} nats in one step, "
        f"{rows[-1]['KL, keep the surest tokens']:.2f} in {sites}), and their entropy goes from "
        f"{rows[0]['entropy, keep the surest tokens']:.2f} to {rows[-1]['entropy, keep the surest tokens']:.2f} nats (p has "
        f"{entropy:.2f}). That is a search for a likely text: good for one translation, not for sampling. Choosing the surest "
        "*site* before drawing keeps p exactly at one site per step.",
        f"**The average over all masks is the entropy**: Σ_k (1/k) E[masked cross-entropy] = {path_sum:.6f} nats, H(p) = "
        f"{entropy:.6f} nats.",
    ]
    return Study(
        "schedule",
        "Unmasking schedules: what few steps cost",
        "“Iteratively refine current guess, s.t. one forward pass updates multiple positions simultaneously. If # of steps "
        "is small, latency is low.”",
        findings,
        [
            Table(
                f"{settings.describe()}: KL(p‖sampler) in nats, by number of parallel steps",
                ("steps", *FIXED, "worst possible"),
                [(r["steps"], *(without_rounding(r[name]) for name in (*FIXED, "worst possible"))) for r in rows],
                f"Exact conditionals at every step; even groups. Random order: mean of {options.orders}.",
            ),
            Table(
                "Orders that redraw or look at the values drawn",
                ("steps", "keep the surest tokens: KL", "entropy", "mask-predict, random re-masking: KL", "best fixed schedule"),
                [(r["steps"], *(r[name] for name in REDRAWN), _spell(r["best schedule"])) for r in rows],
                f"H(p) = {entropy:.3f} nats. Sites are numbered from 1.",
            ),
        ],
        "Left: orders that do not look at the values being drawn; each reaches zero at one site per step, and the grouping "
        "decides how soon. Middle: keeping the tokens that came out surest moves away from p with every step; redrawing random "
        "sites comes near p but does not reach it. Right: the entropy of the samples, against that of p.",
        lambda: _draw(rows, sites, entropy),
        {
            "options": {**options.to_dict(), "model": settings.describe()},
            "entropy": entropy,
            "sum_of_masked_cross_entropies": path_sum,
            "rows": rows,
        },
    )


def _row(model: LabModel, steps: int, orders: int, generator: np.random.Generator, entropies: Entropies) -> dict[str, Any]:
    sites = model.space.sites
    fixed = {"neighbours together": contiguous(sites, steps), "spread apart": spread(sites, steps)}
    costs = {name: sum(schedule_cost(model, schedule, entropies)) for name, schedule in fixed.items()}
    error = max(abs(costs[name] - kl(model.p, unmasking_law(model, schedule))) for name, schedule in fixed.items())
    random = [sum(schedule_cost(model, shuffled(sites, steps, generator), entropies)) for _ in range(orders)]
    best, schedule = extreme_schedule(model, steps)
    sure, redrawn = greedy_law(model, steps, "sure token"), mask_predict_law(model, steps)
    return {
        "steps": steps,
        **costs,
        "random order": float(np.mean(random)),
        "surest sites first": kl(model.p, greedy_law(model, steps, "sure site")),
        "best possible": best,
        "worst possible": extreme_schedule(model, steps, worst=True)[0],
        "best schedule": [list(group) for group in schedule],
        "KL, keep the surest tokens": kl(model.p, sure),
        "entropy, keep the surest tokens": float(entr(sure).sum()),
        "KL, mask-predict, random re-masking": kl(model.p, redrawn),
        "entropy, mask-predict, random re-masking": float(entr(redrawn).sum()),
        "identity_error": error,
    }


def _as_good(rows: list[dict[str, Any]], cost: float) -> int:
    """The fewest steps with which neighbours together cost no more than `cost`."""
    return int(next((r["steps"] for r in rows if r["neighbours together"] <= cost + 1e-12), rows[-1]["steps"]))


def _spell(schedule: list[list[int]]) -> str:
    return " → ".join(" ".join(str(i + 1) for i in group) for group in schedule)


def _draw(rows: list[dict[str, Any]], sites: int, entropy: float) -> Figure:
    figure, (left, middle, right) = figures.panels(
        ("The grouping decides the cost", "Keeping sure tokens moves away from p", "Because it narrows the samples")
    )
    steps = [r["steps"] for r in rows]
    colours = (figures.RED, figures.PURPLE, figures.GREY, figures.BLUE, figures.GREEN)
    for name, colour, marker in zip(FIXED, colours, "sv^o*", strict=True):
        dashed = "--" if name == "random order" else "-"
        left.plot(steps, [r[name] for r in rows], marker + dashed, color=colour, label=name, markersize=8 if marker == "*" else 5)
    left.set(ylabel="KL(p ‖ samples), nats")
    left.set_ylim(bottom=-0.02)
    left.legend()
    looks = (("keep the surest tokens", figures.RED, "s"), ("mask-predict, random re-masking", figures.ORANGE, "^"))
    for axis, key in ((middle, "KL"), (right, "entropy")):
        for name, colour, marker in looks:
            axis.plot(steps, [r[f"{key}, {name}"] for r in rows], marker + "-", color=colour, label=name)
    for axis in (left, middle, right):
        axis.set(xlabel=f"parallel steps to draw {sites} sites", xticks=steps)
    middle.plot(steps, [r["random order"] for r in rows], "--", color=figures.GREY, label="random order (left panel)")
    middle.set_yscale("symlog", linthresh=0.01)
    middle.set_ylim(-0.001, 2 * max(r["KL, keep the surest tokens"] for r in rows))
    middle.set_ylabel("KL(p ‖ samples), nats")
    middle.set_yticks([0, 0.01, 0.1, 1, 10], ["0", "0.01", "0.1", "1", "10"])
    middle.legend(loc="lower left")
    right.axhline(entropy, color=figures.GREY, linewidth=1, linestyle="--")
    right.text(steps[-1], entropy, "entropy of p", color=figures.GREY, ha="right", va="top", fontsize=9)
    right.set_ylim(bottom=0)
    right.set_ylabel("entropy of the samples, nats")
    right.legend(loc="lower left")
    return figure
