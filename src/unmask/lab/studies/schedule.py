"""Unmasking in a few parallel steps: what a schedule costs, and which order costs least.

KL(p || sampler) = sum_t E TC(x_{B_t} | x_{B_<t})         for groups B_t fixed beforehand
sum_k (1/k) E_{|K|=k} [masked cross-entropy] = H(p)       averaged over all orders, one at a time
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unmask.errors import InputError
from unmask.lab.spins import Folder, Seed, SpinModel
from unmask.lab.study import SERIES, Study, Table, counted, lab_folder, panels, without_rounding
from unmask.runs.progress import Progress

if TYPE_CHECKING:
    import numpy as np

    from unmask.figures import Figure
    from unmask.lab.model import LabModel

DEFAULT = SpinModel(sites=8, coupling=0.6, fields="0.2", graph="path")
MOST_SITES = 10
RANDOM_ORDERS = 200
"""To average, for each number of steps."""
FIXED = ("neighbours together", "surest sites first", "random order", "spread apart", "best possible")
SUREST, REMASKED = "keep the surest tokens", "mask-predict, random re-masking"


def schedule(
    model: SpinModel = DEFAULT, *, seed: Seed = 0, out: Folder | None = None, progress: Progress | None = None
) -> Study:
    """What unmasking in few parallel steps costs, and which order costs least.

    Parameters
    ----------
    model
        Spins, or an explicit joint, of 2 to 10 sites.
    seed
        Seed of the random orders.
    out
        Folder for figure and numbers: new, empty, or an earlier lab's.
    progress
        Called with the parts done, their number, and what they are.
    """
    import numpy as np
    from scipy.special import entr

    from unmask.lab.schedules import masked_cross_entropy

    folder, spins = lab_folder(out, model.table), model.build()
    sites, generator = spins.space.sites, np.random.default_rng(seed)
    if not 2 <= sites <= MOST_SITES:
        raise InputError(f"{sites} sites: the best schedule is searched over all groupings of 2 to {MOST_SITES} sites")
    if spins.p.min() <= 0:
        raise InputError(
            f"{spins.name}: schedules reach contexts of probability zero; smooth the table so that every state is possible"
        )
    step, rows = counted(progress, sites, "steps"), []
    for steps in range(1, sites + 1):
        rows.append(_row(spins, steps, generator))
        step()
    entropy = float(entr(spins.p).sum())
    average = sum(masked_cross_entropy(spins, k) / k for k in range(1, sites + 1))
    first, half, last = rows[0], rows[1], rows[-1]
    as_good = next((r["steps"] for r in rows if r[FIXED[0]] <= half["best possible"] + 1e-12), sites)
    away = last[f"KL, {SUREST}"] > first[f"KL, {SUREST}"]
    findings = [
        "**The cost of a schedule is the dependence inside its groups.** KL(p‖sampler) computed from the sampler's law and "
        f"as a sum of conditional total correlations agree to {max(row['identity_error'] for row in rows):.0e}.",
        f"**How sites are grouped matters more than how many steps there are.** With {half['steps']} steps, neighbours "
        f"together cost {half['neighbours together']:.3f} nats and the best grouping {half['best possible']:.3f} "
        f"({_spell(half['best schedule'])}); neighbours together get there in {as_good} steps. The rule: draw together what "
        "depends least on each other.",
        "**Keeping the surest *tokens* is another matter.** An order that looks at the values drawn, as confidence-based "
        f"decoders do, no longer samples p: {'with more steps the samples get *further* from p' if away else 'its distance'} "
        f"({first[f'KL, {SUREST}']:.2f} nats in one step, {last[f'KL, {SUREST}']:.2f} in {sites}), and their entropy goes from "
        f"{first[f'entropy, {SUREST}']:.2f} to {last[f'entropy, {SUREST}']:.2f} nats (p has {entropy:.2f}). That is a search for "
        "a likely text: good for one translation, not for sampling. Choosing the surest *site* before drawing keeps p exactly "
        "at one site per step.",
        f"**The average over all masks is the entropy**: Σ_k (1/k) E[masked cross-entropy] = {average:.6f} nats, H(p) = "
        f"{entropy:.6f} nats.",
    ]
    redrawn = (f"KL, {SUREST}", f"entropy, {SUREST}", f"KL, {REMASKED}")
    tables = [
        Table(
            f"{model.describe()}: KL(p‖sampler) in nats, by number of parallel steps",
            ("steps", *FIXED, "worst possible"),
            [(r["steps"], *(without_rounding(r[name]) for name in (*FIXED, "worst possible"))) for r in rows],
            f"Exact conditionals at every step; even groups. Random order: mean of {RANDOM_ORDERS}.",
        ),
        Table(
            "Orders that redraw or look at the values drawn",
            ("steps", f"{SUREST}: KL", "entropy", f"{REMASKED}: KL", "best fixed schedule"),
            [(r["steps"], *(r[name] for name in redrawn), _spell(r["best schedule"])) for r in rows],
            f"H(p) = {entropy:.3f} nats. Sites are numbered from 1.",
        ),
    ]
    return Study(
        "schedule",
        "Unmasking schedules: what few steps cost",
        "Li et al. (2024): “Iteratively refine current guess, s.t. one forward pass updates multiple positions simultaneously. If "
        "# of steps is small, latency is low.”",
        findings,
        tables,
        "Left: orders that do not look at the values being drawn; each reaches zero at one site per step, and the grouping "
        "decides how soon. Middle: keeping the tokens that came out surest moves away from p with every step; redrawing random "
        "sites comes near p but does not reach it. Right: the entropy of the samples, against that of p.",
        lambda: _draw(rows, sites, entropy),
        {
            "options": model.options(seed=seed),
            "entropy": entropy,
            "sum_of_masked_cross_entropies": average,
            "rows": rows,
        },
    ).save(folder)


def _row(model: LabModel, steps: int, generator: np.random.Generator) -> dict[str, Any]:
    """What each order costs with this many steps."""
    import numpy as np
    from scipy.special import entr

    from unmask.lab import schedules

    sites, entropies = model.space.sites, schedules.Entropies(model)
    fixed = {"neighbours together": schedules.contiguous(sites, steps), "spread apart": schedules.spread(sites, steps)}
    costs = {name: sum(schedules.schedule_cost(model, groups, entropies)) for name, groups in fixed.items()}
    laws = {name: schedules.unmasking_law(model, groups) for name, groups in fixed.items()}
    orders = [schedules.shuffled(sites, steps, generator) for _ in range(RANDOM_ORDERS)]
    best, groups = schedules.extreme_schedule(model, steps)
    surest, redrawn = schedules.greedy_law(model, steps, "sure token"), schedules.mask_predict_law(model, steps)
    return {
        "steps": steps,
        **costs,
        "random order": float(np.mean([sum(schedules.schedule_cost(model, order, entropies)) for order in orders])),
        "surest sites first": schedules.kl(model.p, schedules.greedy_law(model, steps, "sure site")),
        "best possible": best,
        "worst possible": schedules.extreme_schedule(model, steps, worst=True)[0],
        "best schedule": [list(group) for group in groups],
        f"KL, {SUREST}": schedules.kl(model.p, surest),
        f"entropy, {SUREST}": float(entr(surest).sum()),
        f"KL, {REMASKED}": schedules.kl(model.p, redrawn),
        f"entropy, {REMASKED}": float(entr(redrawn).sum()),
        "identity_error": max(abs(costs[name] - schedules.kl(model.p, laws[name])) for name in fixed),
    }


def _spell(groups: list[list[int]]) -> str:
    return " → ".join(" ".join(str(site + 1) for site in group) for group in groups)


def _draw(rows: list[dict[str, Any]], sites: int, entropy: float) -> Figure:
    blue, orange, green, red, purple, grey = SERIES
    across = f"parallel steps to draw {sites} sites"
    figure, (left, middle, right) = panels(
        ("The grouping decides the cost", across, "KL(p ‖ samples), nats"),
        ("Keeping sure tokens moves away from p", across, "KL(p ‖ samples), nats"),
        ("Because it narrows the samples", across, "entropy of the samples, nats"),
    )
    steps = [row["steps"] for row in rows]
    for name, colour, marker in zip(FIXED, (red, purple, grey, blue, green), "sv^o*", strict=True):
        look, size = marker + ("--" if name == "random order" else "-"), 8 if marker == "*" else 5
        left.plot(steps, [row[name] for row in rows], look, color=colour, label=name, markersize=size)
    left.set_ylim(bottom=-0.02)
    left.legend()
    for axis, key in ((middle, "KL"), (right, "entropy")):
        for name, colour, look in ((SUREST, red, "s-"), (REMASKED, orange, "^-")):
            axis.plot(steps, [row[f"{key}, {name}"] for row in rows], look, color=colour, label=name)
    middle.plot(steps, [row["random order"] for row in rows], "--", color=grey, label="random order (left panel)")
    for axis in (left, middle, right):
        axis.set(xticks=steps)
    middle.set_yscale("symlog", linthresh=0.01)
    middle.set_ylim(-0.001, 2 * max(row[f"KL, {SUREST}"] for row in rows))
    middle.set_yticks([0, 0.01, 0.1, 1, 10], ["0", "0.01", "0.1", "1", "10"])
    right.axhline(entropy, color=grey, linewidth=1, linestyle="--")
    right.text(steps[-1], entropy, "entropy of p", color=grey, ha="right", va="top", fontsize=9)
    right.set_ylim(bottom=0)
    for axis in (middle, right):
        axis.legend(loc="lower left")
    return figure
