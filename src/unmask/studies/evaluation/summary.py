"""The numbers of Table 1 of Torroba Hennigen & Kim (2023).

Over N pairs, with the negative log-likelihoods -log mu(a|b), -log mu(b|a) and -log mu(a, b) of the
gold tokens:

    U-PPL = exp( sum (unary_nll_first + unary_nll_second) / 2N )
    P-PPL = exp( sum pair_nll / 2N )
    difference = sum (pair_nll - the product's pair_nll) / 2N

The difference is in nats per token: the log of the ratio of a construction's P-PPL to that of the
product (INDEPENDENT). A-KL and G-KL are means over the pairs. The product's row is the MLM's: its
U-PPL is that of the MLM's own unary conditionals.

Intervals run from the 2.5 to the 97.5 percentile of the bootstrap over pairs. Every column
resamples the same pairs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from unmask.common.intervals import intervals_of_means
from unmask.joints.registry import INDEPENDENT

if TYPE_CHECKING:
    import pandas

Number = dict[str, float | None]
"""{"value", "low", "high"}: a mean and its interval. Low and high are None if there are fewer than
two pairs, or if the mean is not finite."""
MEASURES: dict[str, tuple[str, ...]] = {
    "u_ppl": ("unary_nll_first", "unary_nll_second"),
    "p_ppl": ("pair_nll",),
    "a_kl": ("a_kl",),
    "g_kl": ("g_kl",),
}
"""The columns that a measure adds up. The sum of a pair is averaged: per token for a perplexity,
per pair for a divergence."""
TOKENS_OF_A_PAIR = 2
RESAMPLES = 9999
LARGEST_EXPONENT = 700.0  # exp of more is more than a float64 holds


def is_perplexity(measure: str) -> bool:
    """Whether a measure is per token, and shown as exp of a mean."""
    return measure.endswith("ppl")


def summarise(
    rows: pandas.DataFrame, constructions: Sequence[str], seed: int = 0, resamples: int = RESAMPLES
) -> dict[str, Any]:
    """Every number of the table: {"n_pairs": N, "incompatibility": ...,
    "constructions": [{construction, u_ppl, ...}, ...]}.

    Each is a `Number`, except `n_pairs`, the means `steps` and `objective` (None if no row has
    them) and the count `not_converged`.
    """
    names = list(constructions)
    rows_of = {name: rows[rows["construction"] == name].sort_values("pair") for name in names}
    per_pair: dict[tuple[str, str], Float[np.ndarray, " pairs"]] = {}
    for name in names:
        for measure, columns in MEASURES.items():
            total = rows_of[name][list(columns)].to_numpy(float).sum(1)
            if is_perplexity(measure):
                total = total / TOKENS_OF_A_PAIR
            per_pair[name, measure] = total
        if INDEPENDENT in names and name != INDEPENDENT:
            nll = rows_of[name]["pair_nll"].to_numpy(float)
            product = rows_of[INDEPENDENT]["pair_nll"].to_numpy(float)
            per_pair[name, "difference"] = (nll - product) / TOKENS_OF_A_PAIR
    of_pairs = rows_of[names[0]]  # a pair's incompatibility is the same in all its rows
    per_pair["", "incompatibility"] = of_pairs["incompatibility"].to_numpy(float)
    # All together: every column resamples the same pairs.
    columns_by_pairs = np.array(list(per_pair.values()))
    means = with_intervals(columns_by_pairs, seed, resamples)
    numbers = dict(zip(per_pair, means, strict=True))
    return {
        "n_pairs": len(of_pairs),
        "incompatibility": numbers["", "incompatibility"],
        "constructions": [_row(name, rows_of[name], numbers) for name in names],
    }


def _row(
    name: str, rows: pandas.DataFrame, numbers: Mapping[tuple[str, str], Number]
) -> dict[str, Any]:
    """The numbers of one construction."""
    row: dict[str, Any] = {"construction": name}
    for measure in MEASURES:
        mean = numbers[name, measure]
        row[measure] = _exponentials(mean) if is_perplexity(measure) else mean
    if (name, "difference") in numbers:
        row["difference"] = numbers[name, "difference"]
    for column in ("steps", "objective"):
        known = rows[column].dropna()
        row[column] = float(known.mean()) if len(known) else None
    row["not_converged"] = 0
    if "converged" in rows:  # True, False, or None where nothing is iterated
        row["not_converged"] = int(rows["converged"].eq(False).sum())
    return row


def _exponentials(mean: Number) -> Number:
    """exp of a mean and of the ends of its interval."""
    return {
        name: None if value is None else math.exp(min(value, LARGEST_EXPONENT))
        for name, value in mean.items()
    }


def with_intervals(
    values: Float[np.ndarray, "rows pairs"], seed: int, resamples: int
) -> list[Number]:
    """Mean of each row, with its bootstrap interval.

    Without an interval if there are fewer than two pairs, or if the mean is not finite.
    """
    means = values.mean(-1)
    if values.shape[1] < 2:
        return [{"value": float(mean), "low": None, "high": None} for mean in means]
    low, high = intervals_of_means(values, seed, resamples)
    numbers: list[Number] = []
    for mean, lower, upper in zip(means.tolist(), low.tolist(), high.tolist(), strict=True):
        if math.isfinite(mean):
            numbers.append({"value": mean, "low": lower, "high": upper})
        else:
            numbers.append({"value": mean, "low": None, "high": None})
    return numbers
