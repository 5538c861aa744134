"""The paper's Table 1 from the rows of a run, with bootstrap intervals over pairs and paired differences to the product.

Over N pairs, with the negative log-likelihoods -log mu(a|b), -log mu(b|a) and -log mu(a, b) of the gold tokens:

    U-PPL = exp( sum (unary_nll_first + unary_nll_second) / 2N ),   P-PPL = exp( sum pair_nll / 2N ),

and A-KL, G-KL are means over the pairs.

The product's row is the MLM's: its U-PPL is that of the MLM's own unary conditionals. The difference to the product is
(pair_nll - product's pair_nll) / 2N, in nats per token: the log of the ratio of the two P-PPL. Intervals run
from the 2.5 to the 97.5 percentile of the bootstrap over pairs; every column resamples the same pairs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from unmask.joints.registry import named

if TYPE_CHECKING:
    import pandas

MEASURES = {"u_ppl": ("unary_nll_first", "unary_nll_second"), "p_ppl": ("pair_nll",), "a_kl": ("a_kl",), "g_kl": ("g_kl",)}
"""Measure: the columns whose sum over a pair is averaged: per token for a perplexity, per pair for a divergence."""
HEADINGS = {"u_ppl": "U-PPL", "p_ppl": "P-PPL", "a_kl": "A-KL", "g_kl": "G-KL"}
RESAMPLES = 9999


def summarise(rows: pandas.DataFrame, constructions: Sequence[str], seed: int = 0, resamples: int = RESAMPLES) -> dict[str, Any]:
    """Every number of the table: {"pairs": N, "compatibility": ..., "constructions": [{construction, u_ppl, ...}, ...]}.

    A number with an interval is {"value", "low", "high"}; with fewer than two pairs, low and high are null.
    """
    names = list(constructions)
    columns = {name: rows[rows["construction"] == name].sort_values("pair") for name in names}
    pairs = len(columns[names[0]])
    kinds: list[tuple[str, str]] = []
    values: list[Float[np.ndarray, " pairs"]] = []
    for name in names:
        for measure, summed in MEASURES.items():
            kinds.append((name, measure))
            values.append(columns[name][list(summed)].to_numpy(float).sum(1) / (2 if measure.endswith("ppl") else 1))
        if "product" in names and name != "product":
            kinds.append((name, "difference"))
            product = columns["product"]["pair_nll"].to_numpy(float)
            values.append((columns[name]["pair_nll"].to_numpy(float) - product) / 2)
    kinds.append(("", "compatibility"))
    values.append(columns[names[0]]["compatibility"].to_numpy(float))
    numbers = dict(zip(kinds, _with_intervals(np.array(values), seed, resamples), strict=True))
    summary = []
    for name in names:
        row: dict[str, Any] = {"construction": name}
        for measure in MEASURES:
            mean = numbers[name, measure]
            row[measure] = {k: _exp(v) for k, v in mean.items()} if measure.endswith("ppl") else mean
        if (name, "difference") in numbers:
            row["difference"] = numbers[name, "difference"]
        for column in ("steps", "objective"):
            known = columns[name][column].dropna()
            row[column] = float(known.mean()) if len(known) else None
        row["not_converged"] = int((columns[name].get("converged", np.array([])) == False).sum())  # noqa: E712
        summary.append(row)
    return {"pairs": pairs, "compatibility": numbers["", "compatibility"], "constructions": summary}


def _with_intervals(values: Float[np.ndarray, "rows pairs"], seed: int, resamples: int) -> list[dict[str, float | None]]:
    """Mean of each row, with its bootstrap interval."""
    means = values.mean(-1)
    if values.shape[1] < 2:
        return [{"value": float(mean), "low": None, "high": None} for mean in means]
    low, high = np.percentile(_resampled_means(values, seed, resamples), [2.5, 97.5], axis=0).tolist()
    return [{"value": m, "low": lo, "high": hi} for m, lo, hi in zip(means.tolist(), low, high, strict=True)]


def _resampled_means(values: Float[np.ndarray, "rows pairs"], seed: int, resamples: int) -> Float[np.ndarray, "resamples rows"]:
    """The mean of each row over pairs drawn with replacement: how often each pair was drawn, times the values."""
    draw, pairs, at_once = np.random.default_rng(seed), values.shape[1], max(1, 2**23 // values.size)
    found = []
    for start in range(0, resamples, at_once):
        drawn = draw.integers(0, pairs, (min(at_once, resamples - start), pairs))
        places = drawn + pairs * np.arange(len(drawn))[:, None]
        counts = np.bincount(places.ravel(), minlength=drawn.size).reshape(drawn.shape)
        found.append(counts.astype(float) @ values.T / pairs)
    return np.concatenate(found)


def _exp(value: float | None) -> float | None:
    return None if value is None else math.exp(min(value, 700.0))


def as_markdown(summary: Mapping[str, Any], settings: Mapping[str, Any], failed: int = 0) -> str:
    """Table 1 for people: one row per construction, the lowest of each column in bold."""
    rows = summary["constructions"]
    differences = any("difference" in row for row in rows)
    head = ["construction", *HEADINGS.values(), *(["P-NLL per token, minus product"] if differences else [])]
    best = {measure: min(row[measure]["value"] for row in rows) for measure in HEADINGS}
    lines = [_caption(summary, settings, failed), "", _line(head), _line(["---"] + ["---:"] * (len(head) - 1))]
    for row in rows:
        cells = [named(row["construction"]).label]
        for measure in HEADINGS:
            cells.append(cell(row[measure], measure, row[measure]["value"] == best[measure]))
        if differences:
            cells.append(cell(row["difference"], "difference") if "difference" in row else "0")
        lines.append(_line(cells))
    lines += [
        "",
        "Lower is better. In brackets: 95 % bootstrap intervals over pairs.",
        "The MLM's U-PPL is that of its own unary conditionals.",
    ]
    lines.append(f"Compatibility of the conditionals (0: compatible): {cell(summary['compatibility'], 'compatibility')}.")
    stopped = "arnold_gokhale" if settings.get("arnold_gokhale_steps") else None
    missed = {
        row["construction"]: row["not_converged"] for row in rows if row["not_converged"] and row["construction"] != stopped
    }
    if missed:
        counts = ", ".join(f"{named(name).label} on {count} of {summary['pairs']} pairs" for name, count in missed.items())
        lines.append(f"Not converged, so that these rows are approximate: {counts}.")
    return "\n".join(lines) + "\n"


def _caption(summary: Mapping[str, Any], settings: Mapping[str, Any], failed: int) -> str:
    source = settings.get("data") or settings.get("pairs_file")
    parts = [f"{summary['pairs']} {settings.get('scheme') or 'given'} pairs of {source}", f"model {settings.get('model')}"]
    if settings.get("seed") is not None:
        parts.append(f"seed {settings['seed']}")
    if settings.get("arnold_gokhale_steps"):
        parts.append(f"Arnold-Gokhale stopped after {settings['arnold_gokhale_steps']} steps")
    if settings.get("alphabet"):
        parts.append(f"over {len(settings['alphabet'])} tokens of an alphabet")
    elif settings.get("support") == "all":
        parts.append("over every output column")
    parts.append(f"{settings.get('dtype')} on {settings.get('device')}")
    if failed:
        parts.append(f"{failed} pairs failed and are not in the table")
    return "; ".join(parts) + "."


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def written(value: float, measure: str) -> str:
    """A number of the table: perplexities with two decimals, the rest with three or, where small, two significant digits."""
    if measure.endswith("ppl"):
        return f"{value:,.2f}"
    if measure == "difference":
        return f"{value:+.3f}"
    return f"{value:,.3f}" if abs(value) >= 0.01 or value == 0 else f"{value:.2g}"


def cell(number: Mapping[str, Any], measure: str, bold: bool = False) -> str:
    """A number of the summary with its interval."""
    text = f"**{written(number['value'], measure)}**" if bold else written(number["value"], measure)
    if number["low"] is None:
        return text
    return f"{text} [{written(number['low'], measure)}, {written(number['high'], measure)}]"
