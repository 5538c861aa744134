"""The sentence that recommends a score, from the rows of `Assay`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unmask.studies.variants.assay import STATISTICS
from unmask.studies.variants.rank_statistics import Target

FEWER_CHANGES = "fewer_changes"
"""The column of minus the number of changes, which is no score."""
PER_CHANGE = "/change"
"""After the name of a score: divided by the number of changes."""
Row = Mapping[str, Any]


def recommendation(rows: Sequence[Row], behind: Sequence[Row], target: Target, column: str) -> str:
    """A sentence that recommends a score and says how sure that is, or recommends none.

    rows     one per column, best first (`Assay.scores`)
    behind   how far each but the best is below it (`Assay.behind`)
    column   the name of the measured values
    """
    statistic = STATISTICS[target.statistic]
    scores = [row for row in rows if row["score"] != FEWER_CHANGES]
    best = scores[0]
    best_shown = f"{best['score']}: {statistic} {_with_interval(best)}"
    is_above_chance = best["low"] > target.chance

    plain_scores = [row for row in scores if not _is_correction(row["score"])]
    if plain_scores and all(row["high"] < target.chance for row in plain_scores):
        correction = ""
        if is_above_chance:
            correction = f"; the best correction is {best_shown}"
        span = f"{plain_scores[-1]['value']:.3f} to {plain_scores[0]['value']:.3f}"
        return (
            f"Use no score as it is: all rank {column} the wrong way ({statistic}"
            f" {span}){correction}; check which values are better."
        )
    if not is_above_chance:
        n = len(target.values)
        return (
            f"Use no score: none is significantly better than chance on these {n:,} variants (best"
            f" {best_shown})."
        )
    if rows[0]["score"] == FEWER_CHANGES:
        alone = f"the number of changes alone ({_with_interval(rows[0])}"
        if behind[0]["low"] > 0:
            return f"Use no score: none ranks {column} as well as {alone}; best {best_shown})."
        return f"Use {best_shown}, but {alone}) does as well."
    if not behind:
        return f"Use {best_shown}."
    tied = [row for row in behind if not row["low"] > 0]  # also those with a NaN
    if not tied:
        following = behind[0]
        return (
            f"Use {best_shown}, significantly above the next, {following['score']} (by"
            f" {_with_interval(following)})."
        )
    nearest = tied[0]
    more = ""
    if len(tied) > 1:
        more = f", and {len(tied) - 1} more are not significantly different"
    return (
        f"Use {best_shown}, but that is not decided (best in {best['best_in']:.0%} of resamples;"
        f" {nearest['score']} is {_with_interval(nearest)} below{more})."
    )


def _is_correction(score: str) -> bool:
    """Whether a column is no score as it is, but a part of one or a score per change."""
    return score == "epistasis" or score.endswith(PER_CHANGE)


def _with_interval(row: Row) -> str:
    return f"{row['value']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"
