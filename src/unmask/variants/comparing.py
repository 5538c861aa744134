"""Scores of variants against their measured values: one row per score, the difference of the best two, groups, regressions.

    NAME               s(x) - s(w), w the parent: ranks as the score itself does, so that there is one column for both
    NAME/change        (s(x) - s(w)) / changes, if variants differ in how many residues they change
    NAME-background    s(x) - s(w), minus the same difference under another model, or in another sequence

Columns without a difference between variants, or equal to an earlier one, are left out. `fewer_changes` is minus the number of
changes: what a score must beat. Groups compare a score that sees dependence with its independent twin, on the same variants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from unmask.variants.reading import Variants
from unmask.variants.registry import PAIRS, SCORES
from unmask.variants.statistics import Target, additive_fits, agreement, as_they_are, interval, resampled

FEWER = "fewer_changes"
PER_CHANGE, BACKGROUND = "/change", "-background"
RESAMPLES, GROUP_RESAMPLES, DRAWS = 1000, 200, 100
MOST_RESAMPLED = 10**8
"""Variants in all resamples together; of long lists there are fewer resamples, down to GROUP_RESAMPLES."""
FITTED = (1, 10, 100)
SMALLEST_GROUP = 20
Numbers = dict[str, Any]


def corrected(
    effects: Mapping[str, Float[np.ndarray, " n"]],
    changes: Int[np.ndarray, " n"],
    background: Mapping[str, Float[np.ndarray, " n"]] | None,
    notes: list[str],
) -> dict[str, Float[np.ndarray, " n"]]:
    """Every column that is compared, by name."""
    offered = dict(effects)
    if len(np.unique(changes)) > 1:
        offered |= {f"{name}{PER_CHANGE}": effect / np.maximum(changes, 1) for name, effect in effects.items()}
        offered[FEWER] = -changes.astype(float)
    if background is not None:
        offered |= {f"{name}{BACKGROUND}": effect - background[name] for name, effect in effects.items()}
    kept: dict[str, Float[np.ndarray, " n"]] = {}
    for name, column in offered.items():
        scale = 1e-9 * max(1.0, float(np.abs(column).max()))
        twin = next((other for other, known in kept.items() if np.abs(known - column).max() <= scale), None)
        if np.ptp(column) <= scale:
            notes.append(f"{name} is the same for all variants: left out")
        elif twin is not None:
            notes.append(f"{name} equals {twin} here: left out")
        else:
            kept[name] = column
    return kept


def rows_of(
    columns: Mapping[str, Float[np.ndarray, " n"]], target: Target, changes: Int[np.ndarray, " n"], top: int, seed: int
) -> tuple[list[Numbers], Float[np.ndarray, "B s"]]:
    """One row per column, best first, and the statistic of the columns, in this order, in every resample.

    value, low, high              Spearman or area under the curve, and its 95 % interval
    hits                          expected hits among the `top` of the column
    enrichment, and its interval  share of hits there against that of all variants
    best_in                       share of resamples in which no column has a higher value
    within, and its interval      mean of the statistic within the variants of one number of changes; if these numbers differ
    """
    n, listed = len(target.values), list(columns.values())
    (values,), (enriched,) = agreement(listed, target, top, as_they_are(n))
    drawn, drawn_enriched = agreement(listed, target, top, resampled(n, seed, _resamples(n)))
    order = np.argsort(-values, kind="stable")
    (low, high), (low_enriched, high_enriched) = interval(drawn), interval(drawn_enriched)
    known = drawn[~np.isnan(drawn).any(1)]
    best_in = (known >= known.max(1, keepdims=True) - 1e-12).sum(0) / max(1, len(known))
    numbers = {
        "value": values,
        "low": low,
        "high": high,
        "hits": enriched * target.hits.mean() * min(top, n),
        "enrichment": enriched,
        "enrichment_low": low_enriched,
        "enrichment_high": high_enriched,
        "best_in": best_in,
        **_within(listed, target, changes, seed),
    }
    names = list(columns)
    rows = [{"score": names[i], **{name: float(column[i]) for name, column in numbers.items()}} for i in order]
    return rows, drawn[:, order]


def _resamples(n: int) -> int:
    return min(RESAMPLES, max(GROUP_RESAMPLES, MOST_RESAMPLED // n))


def _within(
    columns: Sequence[Float[np.ndarray, " n"]], target: Target, changes: Int[np.ndarray, " n"], seed: int
) -> dict[str, Float[np.ndarray, " s"]]:
    """The statistic within each number of changes, averaged with the variants as weights; NaN of a constant column is chance."""
    counts = np.unique(changes)
    parts = [changes == m for m in counts if _usable(target.at(changes == m))] if len(counts) > 1 else []
    if not parts:
        return {}
    values, drawn, weights = [], [], [part.sum() for part in parts]
    for part in parts:
        chosen, inside, n = [column[part] for column in columns], target.at(part), int(part.sum())
        values.append(agreement(chosen, inside, 1, as_they_are(n))[0])
        drawn.append(agreement(chosen, inside, 1, resampled(n, seed, GROUP_RESAMPLES))[0])
    one, many = (np.average(np.where(np.isnan(x), target.chance, x), 0, weights) for x in (np.array(values), np.array(drawn)))
    low, high = interval(many)
    return {"within": one[0], "within_low": low, "within_high": high}


def _usable(target: Target) -> bool:
    return len(target.values) >= SMALLEST_GROUP and len(np.unique(target.values)) > 1


def behind_best(rows: Sequence[Numbers], drawn: Float[np.ndarray, "B s"]) -> list[Numbers]:
    """How far the best is above every other column, with the interval of the paired difference."""
    found = []
    for place, row in enumerate(rows[1:], 1):
        ((low,), (high,)) = interval(drawn[:, :1] - drawn[:, place : place + 1])
        found.append({"score": row["score"], "value": rows[0]["value"] - row["value"], "low": float(low), "high": float(high)})
    return found


def fits_of(variants: Variants, target: Target, seed: int) -> list[Numbers]:
    """The additive regression on 1, 10 and 100 measured variants: mean and 95 % range over draws, on the other variants."""
    letters = [np.unique(site) for site in variants.cells.T]
    features = np.concatenate([(site[:, None] == known) for site, known in zip(variants.cells.T, letters, strict=True)], 1)
    found = []
    for measured in [m for m in FITTED if 2 * m <= len(features)]:
        drawn = additive_fits(features, target, measured, DRAWS, seed)
        low, high = np.percentile(drawn, [2.5, 97.5])
        found.append({"measured": measured, "value": float(drawn.mean()), "low": float(low), "high": float(high)})
    return found


def is_whole(name: str) -> bool:
    """Whether a column is a score as it is: no correction, no part of one."""
    return name not in (FEWER, "epistasis") and not name.endswith((PER_CHANGE, BACKGROUND))


def twins(names: Sequence[str]) -> list[tuple[str, str]]:
    """Scores that see dependence, each with its independent twin: the chain rule and the product, pairs and singles."""
    pairs = [(name, "singles") for name in names if name.startswith(PAIRS) and is_whole(name)]
    offered = [*((score.name, score.independent) for score in SCORES.values() if score.independent), *pairs]
    return [pair for pair in offered if set(pair) <= set(names)]


def groups_of(
    variants: Variants,
    columns: Mapping[str, Float[np.ndarray, " n"]],
    target: Target,
    regions: Mapping[str, Sequence[int]],
    seed: int,
) -> list[Numbers]:
    """Each dependent score minus its independent twin: over all variants, by number of changes, among those that change a region.

    Groups of fewer than SMALLEST_GROUP variants, or in which values or scores do not differ, have no row.
    """
    changed = variants.cells != variants.wild
    at = {place: i for i, place in enumerate(variants.places)}
    chosen = [("all", "all", np.ones(len(changed), dtype=bool))]
    chosen += [("changes", str(m), variants.changes == m) for m in np.unique(variants.changes)]
    chosen += [
        ("region", name, changed[:, [at[place] for place in places if place in at]].any(1)) for name, places in regions.items()
    ]
    found = []
    for by, group, inside in chosen:
        part = target.at(inside)
        if not _usable(part):
            continue
        for dependent, independent in twins(list(columns)):
            both = [columns[dependent][inside], columns[independent][inside]]
            ((one, other),), _ = agreement(both, part, 1, as_they_are(len(part.values)))
            if np.isnan(one + other):
                continue
            resamples = _resamples(len(part.values)) if by == "all" else GROUP_RESAMPLES
            drawn, _ = agreement(both, part, 1, resampled(len(part.values), seed, resamples))
            ((low,), (high,)) = interval(drawn[:, :1] - drawn[:, 1:])
            found.append(
                {
                    "by": by,
                    "group": group,
                    "variants": int(inside.sum()),
                    "dependent": dependent,
                    "independent": independent,
                    "dependent_value": float(one),
                    "independent_value": float(other),
                    "difference": float(one - other),
                    "low": float(low),
                    "high": float(high),
                }
            )
    return found
