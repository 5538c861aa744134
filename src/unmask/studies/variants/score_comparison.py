"""`assay`: which score ranks measured variants best, and how sure that is.

Columns of scores, s(x) of a variant and s(w) of the parent:

    NAME            s(x) - s(w): ranks as the score itself does
    NAME/change     (s(x) - s(w)) / changes, if variants differ in how many residues they change
    fewer_changes   minus the number of changes: what a score must beat

Columns without a difference between variants, or equal to an earlier one, are left out. The
statistics are those of `rank_statistics`, and their intervals are bootstrapped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from unmask.common.intervals import interval, resampled
from unmask.models.first_look import look_at_first
from unmask.models.load import Model, as_model
from unmask.runs.progress import Progress
from unmask.studies.variants.assay_scores import FEWER_CHANGES, PER_CHANGE, ChosenScores
from unmask.studies.variants.contexts import Contexts
from unmask.studies.variants.limits import refuse_more
from unmask.studies.variants.parent import Parent, refuse_english, residue_ids
from unmask.studies.variants.rank_statistics import Column, Target, rank_statistics
from unmask.studies.variants.text_scores import VariantTexts
from unmask.studies.variants.variant_lists import Variants, read_variants
from unmask.tables.joint_limits import MAX_PASSES

RESAMPLES = 1000
FEWEST_RESAMPLES = 200
"""Of long lists, and of groups of variants with one number of changes."""
MOST_RESAMPLED = 10**8
"""Variants in all resamples together; of long lists there are fewer resamples, down to
FEWEST_RESAMPLES.
"""
SEED = 0
"""Of the resamples."""
SMALLEST_GROUP = 20
"""Variants of the smallest group with one number of changes that is compared by itself."""
Numbers = dict[str, Any]
"""A row about one score: its name, and numbers by name."""


@dataclass(frozen=True)
class ComparedScores:
    """Scores of measured variants against the measured values.

    variants      as they were read; `names` are theirs
    construction  the name of the rule of the scores that need one
    target        the values, larger is better, and their statistic
    columns       every score's numbers, one for each variant, by name: the variant's score minus
                  that of the parent
    rows          one per column, best first: score, value, low, high; best_in, the share of
                  resamples in which no other is better; within and its interval, the same among
                  variants with one number of changes, averaged
    behind        for each column but the best: how far the best is above it, with the interval
                  of the paired difference
    notes         what was guessed, averaged or left out
    """

    sequence: str
    names: list[str]
    variants: Variants
    construction: str
    target: Target
    columns: Mapping[str, Column]
    rows: list[Numbers]
    behind: list[Numbers]
    notes: list[str]


def assayed(
    sequence: str,
    model: Model,
    measured: Any,
    scores: ChosenScores,
    positions: str | Sequence[int] | None,
    column: str | None,
    variant: str | None,
    better: str,
    skip_bad: bool,
    alphabet: str | PathLike[str] | Sequence[str] | None,
    force: bool,
    progress: Progress | None,
) -> ComparedScores:
    """Read the list, score its variants, and compare the scores with the values."""
    refuse_english(model, [sequence])
    lm = as_model(model)
    allowed = residue_ids(lm, alphabet)
    parent = Parent(lm, sequence, allowed)
    variants = read_variants(
        measured,
        parent,
        positions=positions,
        column=column,
        variant=variant,
        skip_bad=skip_bad,
    )
    sites = parent.positions(variants.places)
    names = variants.names(parent)
    # The parent is the last row: its scores are taken away from all others.
    cells = torch.from_numpy(np.concatenate([variants.cells, variants.wild[None]]))
    tokens = torch.tensor(allowed)[cells]
    contexts = Contexts(lm, ids=parent.ids, sites=sites, scores=scores.of_variants, allowed=allowed)
    texts = VariantTexts(
        lm, sequence, names=[*names, "the sequence"], positions=sites, tokens=tokens
    )
    if not force:
        passes = contexts.pass_count(tokens) + texts.pass_count(scores.of_texts)
        refuse_more(
            passes,
            most=MAX_PASSES,
            what=f"the scores of {len(tokens):,} variants need {passes:,} passes of the model",
            advice="ask for fewer scores or variants",
        )
    look_at_first(lm, [parent.ids])
    columns: dict[str, Column] = {}
    if scores.of_variants:
        for name, values in contexts.scores(tokens, progress).items():
            columns[name] = values.numpy()
    if scores.of_texts:
        columns |= texts.scores(scores.of_texts, progress)
    return compared(
        sequence,
        names=names,
        variants=variants,
        effects={name: values[:-1] - values[-1] for name, values in columns.items()},
        construction=scores.construction.name,
        better=better,
    )


def compared(
    sequence: str,
    names: list[str],
    variants: Variants,
    effects: Mapping[str, Column],
    construction: str,
    better: str,
) -> ComparedScores:
    """Compare scores with the values.

    names     of the variants
    effects   of each score, the variant's minus the parent's
    """
    if better == "higher":
        target = Target.of(variants.values)
    else:
        target = Target.of(-variants.values)
    notes = list(variants.notes)
    columns = _distinct_columns(effects, variants.changes, notes)
    rows, resamples = _rows_of_columns(columns, target, variants.changes)

    best, *others = rows
    lows, highs = interval(resamples[:, :1] - resamples).tolist()  # of the best minus each
    behind: list[Numbers] = []
    for row, low, high in zip(others, lows[1:], highs[1:], strict=True):
        difference = best["value"] - row["value"]
        behind.append({"score": row["score"], "value": difference, "low": low, "high": high})
    return ComparedScores(
        sequence=sequence,
        names=names,
        variants=variants,
        construction=construction,
        target=target,
        columns=columns,
        rows=rows,
        behind=behind,
        notes=notes,
    )


def _distinct_columns(
    effects: Mapping[str, Column], changes: Int[np.ndarray, " n"], notes: list[str]
) -> dict[str, Column]:
    """Every column that is compared, by name; `notes` gets a line about each that is not."""
    offered = dict(effects)
    if len(np.unique(changes)) > 1:
        for name, effect in effects.items():
            offered[f"{name}{PER_CHANGE}"] = effect / np.maximum(changes, 1)
        offered[FEWER_CHANGES] = -changes.astype(float)
    columns: dict[str, Column] = {}
    for name, column in offered.items():
        rounding = 1e-9 * max(1.0, float(np.abs(column).max()))
        twin = _equal_column(columns, column, rounding)
        if np.ptp(column) <= rounding:
            notes.append(f"{name} is the same for all variants: left out")
        elif twin is not None:
            notes.append(f"{name} equals {twin} here: left out")
        else:
            columns[name] = column
    return columns


def _equal_column(columns: Mapping[str, Column], column: Column, rounding: float) -> str | None:
    """The name of the first column that is the same but for rounding, None without one."""
    for name, known in columns.items():
        if np.abs(known - column).max() <= rounding:
            return name
    return None


def _rows_of_columns(
    columns: Mapping[str, Column], target: Target, changes: Int[np.ndarray, " n"]
) -> tuple[list[Numbers], Float[np.ndarray, "B s"]]:
    """One row per column, best first (see `ComparedScores`), and the statistic of the columns, in
    this order, in every resample.
    """
    n = len(changes)
    listed = list(columns.values())
    values = _of_the_data(listed, target)
    draws = min(RESAMPLES, max(FEWEST_RESAMPLES, MOST_RESAMPLED // n))
    resamples = rank_statistics(listed, target, resampled(n, SEED, draws))
    low, high = interval(resamples)
    # Columns are best that are equal to the largest but for rounding.
    known = resamples[~np.isnan(resamples).any(1)]
    is_best = known >= known.max(1, keepdims=True) - 1e-12
    best_in = is_best.sum(0) / max(1, len(known))
    numbers = {
        "value": values,
        "low": low,
        "high": high,
        "best_in": best_in,
        **_within_groups(listed, target, changes),
    }
    names = list(columns)
    order = np.argsort(-values, kind="stable")
    rows: list[Numbers] = []
    for i in order:
        row: Numbers = {"score": names[i]}
        for name, of_columns in numbers.items():
            row[name] = float(of_columns[i])
        rows.append(row)
    return rows, resamples[:, order]


def _of_the_data(columns: Sequence[Column], target: Target) -> Float[np.ndarray, " s"]:
    """The statistic of every column, each variant counted once."""
    once = np.ones((1, len(target.values)))
    (values,) = rank_statistics(columns, target, [once])
    return values


def _within_groups(
    columns: Sequence[Column], target: Target, changes: Int[np.ndarray, " n"]
) -> dict[str, Float[np.ndarray, " s"]]:
    """The statistic within each number of changes, averaged with the variants as weights, and
    its interval; nothing if no group is large enough and has two values.
    """
    groups: list[Bool[np.ndarray, " n"]] = []
    for number in np.unique(changes):
        group = changes == number
        has_values = len(np.unique(target.values[group])) > 1
        if not group.all() and group.sum() >= SMALLEST_GROUP and has_values:
            groups.append(group)
    if not groups:
        return {}
    values = []
    resamples = []
    for group in groups:
        inside = [column[group] for column in columns]
        target_inside = target.at(group)
        values.append(_of_the_data(inside, target_inside))
        draws = resampled(int(group.sum()), SEED, FEWEST_RESAMPLES)
        resamples.append(rank_statistics(inside, target_inside, draws))
    sizes = [group.sum() for group in groups]

    def averaged(statistics: Float[np.ndarray, "groups ..."]) -> Float[np.ndarray, ...]:
        """Over the groups. A column that is constant in a group has NaN there: it knows nothing,
        as chance does.
        """
        known = np.where(np.isnan(statistics), target.chance, statistics)
        return np.average(known, axis=0, weights=sizes)

    low, high = interval(averaged(np.array(resamples)))
    return {"within": averaged(np.array(values)), "within_low": low, "within_high": high}
