"""The result of an evaluation: Table 1 of Torroba Hennigen & Kim (2023), NLL against distance,
and the files that hold both.

Over N pairs, with the negative log-likelihoods -log mu(a|b), -log mu(b|a) and -log mu(a, b) of
the gold tokens:

    U-PPL = exp( sum (unary_nll_first + unary_nll_second) / 2N ),
            P-PPL = exp( sum pair_nll / 2N ),

and A-KL, G-KL are means over the pairs.

The product's row is the MLM's: its U-PPL is that of the MLM's own unary conditionals. The
difference to the product is (pair_nll - product's pair_nll) / 2N, in nats per token: the log of
the ratio of the two P-PPL. Intervals run from the 2.5 to the 97.5 percentile of the bootstrap
over pairs; every column resamples the same pairs. The figures show pairwise NLL against the
distance of the two tokens (their appendix E), its difference from the product's, and the number
of pairs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from unmask.common.files import (
    as_json,
    user_path,
    write_atomically,
    write_json,
    write_table,
    writing,
)
from unmask.common.intervals import intervals_of_means
from unmask.common.results import Result
from unmask.common.signature import checked
from unmask.joints.registry import INDEPENDENT, PUBLISHED_STEPS, named
from unmask.runs.fingerprint import provenance

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from unmask.common.figures import Figure


MEASURES = {
    "u_ppl": ("unary_nll_first", "unary_nll_second"),
    "p_ppl": ("pair_nll",),
    "a_kl": ("a_kl",),
    "g_kl": ("g_kl",),
}
"""Measure: the columns whose sum over a pair is averaged: per token for a perplexity, per pair
for a divergence.
"""
HEADINGS = {"u_ppl": "U-PPL", "p_ppl": "P-PPL", "a_kl": "A-KL", "g_kl": "G-KL"}
FIXED = {"difference": "{:+.3f}", "nats": "{:.3f}"}
"""Measures that are always written with three decimals."""
RESAMPLES = 9999


def summarise(
    rows: pandas.DataFrame, constructions: Sequence[str], seed: int = 0, resamples: int = RESAMPLES
) -> dict[str, Any]:
    """Every number of the table: {"pairs": N, "incompatibility": ..., "constructions":
    [{construction, u_ppl, ...}, ...]}.

    A number with an interval is {"value", "low", "high"}; with fewer than two pairs, low and
    high are null.
    """
    names = list(constructions)
    columns = {name: rows[rows["construction"] == name].sort_values("pair") for name in names}
    pairs = len(columns[names[0]])
    values: dict[tuple[str, str], Float[np.ndarray, " pairs"]] = {}
    for name in names:
        for measure, summed in MEASURES.items():
            per_pair = columns[name][list(summed)].to_numpy(float).sum(1)
            values[name, measure] = per_pair / (2 if measure.endswith("ppl") else 1)
        if INDEPENDENT in names and name != INDEPENDENT:
            product = columns[INDEPENDENT]["pair_nll"].to_numpy(float)
            values[name, "difference"] = (columns[name]["pair_nll"].to_numpy(float) - product) / 2
    values["", "incompatibility"] = columns[names[0]]["incompatibility"].to_numpy(float)
    numbers = dict(
        zip(values, with_intervals(np.array([*values.values()]), seed, resamples), strict=True)
    )
    summary = []
    for name in names:
        row: dict[str, Any] = {"construction": name}
        for measure in MEASURES:
            mean = numbers[name, measure]
            of_tokens = {k: None if v is None else math.exp(min(v, 700.0)) for k, v in mean.items()}
            row[measure] = of_tokens if measure.endswith("ppl") else mean
        if (name, "difference") in numbers:
            row["difference"] = numbers[name, "difference"]
        for column in ("steps", "objective"):
            known = columns[name][column].dropna()
            row[column] = float(known.mean()) if len(known) else None
        row["not_converged"] = int((columns[name].get("converged", np.array([])) == False).sum())  # noqa: E712
        summary.append(row)
    return {
        "pairs": pairs,
        "incompatibility": numbers["", "incompatibility"],
        "constructions": summary,
    }


def with_intervals(
    values: Float[np.ndarray, "rows pairs"], seed: int, resamples: int
) -> list[dict[str, float | None]]:
    """Mean of each row, with its bootstrap interval; none for a row with an infinite number."""
    means = values.mean(-1)
    if values.shape[1] < 2:
        return [{"value": float(mean), "low": None, "high": None} for mean in means]
    low, high = intervals_of_means(values, seed, resamples)
    numbers: list[dict[str, float | None]] = []
    for mean, lower, upper in zip(means.tolist(), low.tolist(), high.tolist(), strict=True):
        if math.isfinite(mean):
            numbers.append({"value": mean, "low": lower, "high": upper})
        else:
            numbers.append({"value": mean, "low": None, "high": None})
    return numbers


def as_markdown(summary: Mapping[str, Any], settings: Mapping[str, Any], failed: int = 0) -> str:
    """Table 1 for people: one row per construction, the lowest of each column in bold; the
    caption alone without pairs.
    """
    rows, caption = summary["constructions"], _caption(summary, settings, failed)
    if not rows:
        return f"{caption}\n"
    differences = any("difference" in row for row in rows)
    head = [
        "construction",
        *HEADINGS.values(),
        *(["P-NLL per token, minus product"] if differences else []),
    ]
    best = {measure: min(row[measure]["value"] for row in rows) for measure in HEADINGS}
    lines = [caption, "", line(head), line(["---"] + ["---:"] * (len(head) - 1))]
    for row in rows:
        cells = [named(row["construction"]).label]
        for measure in HEADINGS:
            cells.append(cell(row[measure], measure, row[measure]["value"] == best[measure]))
        if differences:
            cells.append(cell(row["difference"], "difference") if "difference" in row else "0")
        lines.append(line(cells))
    lines += [
        "",
        "Lower is better. In brackets: 95 % bootstrap intervals over pairs.",
        "The MLM's U-PPL is that of its own unary conditionals.",
    ]
    apart = cell(summary["incompatibility"], "incompatibility")
    lines.append(
        "Incompatibility of the conditionals in nats, root mean square (0: one joint has both):"
        f" {apart}."
    )
    stopped = PUBLISHED_STEPS if settings.get("arnold_gokhale_steps") else None
    missed = {
        row["construction"]: row["not_converged"]
        for row in rows
        if row["not_converged"] and row["construction"] != stopped
    }
    if missed:
        counts = ", ".join(
            f"{named(name).label} on {count} of {summary['pairs']} pairs"
            for name, count in missed.items()
        )
        lines.append(f"Not converged, so that these rows are approximate: {counts}.")
    return "\n".join(lines) + "\n"


def _caption(summary: Mapping[str, Any], settings: Mapping[str, Any], failed: int) -> str:
    source = settings.get("data")
    parts = [
        f"{summary['pairs']} {settings.get('scheme') or 'given'} pairs of {source}",
        f"model {settings.get('model')}",
    ]
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


def frame_of(
    rows: Any, names: Sequence[str], measures: Sequence[str], after: Sequence[str] = ()
) -> pandas.DataFrame:
    """The columns `names`, three for each measure (its value, and its interval `_low` to
    `_high`), and those `after`.
    """
    import pandas

    flat = pandas.json_normalize(rows, sep="_").rename(
        columns=lambda name: name.removesuffix("_value")
    )
    measured = [measure + end for measure in measures for end in ("", "_low", "_high")]
    return flat.reindex(columns=[*names, *measured, *after])


def line(cells: Sequence[str]) -> str:
    """A row of a table in Markdown."""
    return "| " + " | ".join(cells) + " |"


def written(value: float, measure: str) -> str:
    """A number of the table: perplexities with two decimals, the rest with three or, where
    small, two significant digits.
    """
    if measure.endswith("ppl"):
        return f"{value:,.2f}"
    if measure in FIXED:
        return FIXED[measure].format(value)
    return f"{value:,.3f}" if abs(value) >= 0.01 or value == 0 else f"{value:.2g}"


def cell(number: Mapping[str, Any], measure: str, bold: bool = False) -> str:
    """A number of the summary with its interval."""
    value, low, high = (
        None if number[end] is None else written(number[end], measure)
        for end in ("value", "low", "high")
    )
    return (f"**{value}**" if bold else f"{value}") + ("" if low is None else f" [{low}, {high}]")


DISTANCES = {
    "token_distance": "tokens between the two (0: adjacent)",
    "syntactic_distance": "edges between the two in the dependency tree (0: same word)",
}


def bins(distances: Sequence[int], least: int) -> list[tuple[int, int]]:
    """Ranges [low, high] that cover the distances in order, neighbours pooled until a range has
    `least` pairs or more.
    """
    ranges: list[tuple[int, int]] = []
    values, counts = np.unique(np.asarray(distances, dtype=int), return_counts=True)
    low, held = None, 0
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        low, held = (value if low is None else low), held + count
        if held >= least:
            ranges.append((low, value))
            low, held = None, 0
    if low is not None:
        if ranges:
            low = ranges.pop()[0]
        ranges.append((low, int(values[-1])))
    return ranges


def distance_figure(rows: pandas.DataFrame, column: str, title: str = "") -> Figure | None:
    """Mean pairwise NLL per token against `column`, one line per construction; None where no
    pair has that distance.

    Below it, where the product is among them: each construction's mean minus the product's.
    That panel reaches as far above zero as the best construction lies below it; what is worse
    leaves it, and is seen above.
    """
    known = rows[rows[column].notna()]
    if known.empty:
        return None
    from unmask.common.figures import Figure

    names = list(dict.fromkeys(known["construction"]))
    one = known[known["construction"] == names[0]]
    ranges = bins(one[column].astype(int).tolist(), least=max(5, len(one) // 40))
    means = {
        name: np.array(
            [mine[mine[column].between(low, high)]["pair_nll"].mean() / 2 for low, high in ranges]
        )
        for name, mine in known.groupby("construction")
    }
    compared = INDEPENDENT in means and len(means) > 1
    heights = [3, 2] if compared else [3]
    figure = Figure(figsize=(7.5, 1.5 + sum(heights)), layout="constrained")
    panels = figure.subplots(len(heights), sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    axes = panels[0]
    for name in names:
        axes.plot(means[name], label=named(name).label, **_look(name))
        if compared:
            panels[1].plot(means[name] - means[INDEPENDENT], **_look(name))
    _bars(axes, [int(one[column].between(low, high).sum()) for low, high in ranges])
    axes.set_ylabel("pairwise NLL, nats per token (log P-PPL)")
    axes.set_title(title, fontsize=10, parse_math=False)
    if compared:
        apart = np.concatenate([means[name] - means[INDEPENDENT] for name in names])
        reach = 1.1 * max(0.05, -apart[np.isfinite(apart)].min(initial=0.0))
        panels[1].set_ylim(-reach, reach)
        panels[1].set_ylabel("minus the product's")
    labels = [str(low) if low == high else f"{low}\N{EN DASH}{high}" for low, high in ranges]
    aslant: dict[str, Any] = (
        {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if len(labels) > 10 else {}
    )
    panels[-1].set_xticks(np.arange(len(ranges)), labels, **aslant)
    panels[-1].set_xlim(-0.6, len(ranges) - 0.4)
    panels[-1].set_xlabel(DISTANCES[column])
    for panel in figure.axes:
        panel.spines["top"].set_visible(False)
    figure.legend(
        *axes.get_legend_handles_labels(), loc="outside right upper", frameon=False, fontsize=9
    )
    return figure


def _look(name: str) -> dict[str, Any]:
    """How a construction's line is drawn."""
    style = named(name).style
    return {
        "color": style.colour,
        "marker": style.marker,
        "linestyle": style.line,
        "markersize": 5,
        "linewidth": 1.4,
    }


def _bars(axes: Axes, counts: Sequence[int]) -> None:
    """How many pairs each mean is of, behind the lines."""
    from unmask.common.figures import MaxNLocator

    behind = axes.twinx()
    axes.set_zorder(behind.get_zorder() + 1)
    axes.patch.set_visible(False)
    behind.bar(np.arange(len(counts)), counts, width=0.8, color="#E3E3E3")
    behind.set_ylim(0, 3 * max(counts))
    behind.set_ylabel("pairs (bars)", color="#707070")
    behind.tick_params(axis="y", colors="#707070")
    behind.yaxis.set_major_locator(MaxNLocator(6, integer=True))


@dataclass(frozen=True)
class Evaluation(Result):
    """Table 1 for one model and one set of pairs.

    settings   of the call, with the model's fingerprint and hashes of the data
    rows       one row per pair and construction (the columns of `to_frame`)
    pairs      how many pairs were chosen, failed ones included
    failed     the pairs that are not in the table, each with the reason
    skipped    how many texts gave no pair, by reason
    about      when, where and with which versions it was made

    >>> texts, words = ["The cat sat on the mat."], "cat,dog,sat,lay"
    >>> table = unmask.evaluate(texts, pairs=1, joints="product,chain", alphabet=words)
    >>> table.rows["construction"].tolist()
    ['product', 'chain']
    """

    settings: dict[str, Any]
    rows: pandas.DataFrame = field(repr=False)
    pairs: int
    failed: list[dict[str, Any]] = field(default_factory=list, repr=False)
    skipped: Counter[str] = field(default_factory=Counter)
    about: dict[str, Any] = field(default_factory=provenance, repr=False)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """{"pairs", "incompatibility", "constructions": [{construction, u_ppl, p_ppl, a_kl,
        g_kl, ...}]}; see `table`.
        """
        if self.rows.empty:
            return {"pairs": 0, "incompatibility": None, "constructions": []}
        return summarise(self.rows, self.settings["constructions"], self.settings.get("seed") or 0)

    def to_frame(self) -> pandas.DataFrame:
        """The table: one row per construction; each measure with its interval, `_low` to
        `_high`.
        """
        rows = [
            {**row, "label": named(row["construction"]).label}
            for row in self.summary["constructions"]
        ]
        return frame_of(
            rows, ("construction", "label"), (*HEADINGS, "difference"), ("steps", "objective")
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything but the rows, as plain values: what `--json` prints and table.json holds."""
        seconds = self.rows.groupby("pair")["seconds"].first()
        return {
            **self.summary,
            "settings": self.settings,
            "failed": len(self.failed),
            "skipped_texts": dict(self.skipped),
            "median_seconds_a_pair": float(seconds.median()) if len(seconds) else None,
            **self.about,
        }

    def to_markdown(self) -> str:
        """The table for people, with intervals."""
        return as_markdown(self.summary, self.settings, len(self.failed))

    @checked
    def save(self, folder: Path) -> None:
        """Write failures.jsonl, if a pair failed; and, if one was measured, results.parquet,
        table.md, table.json and figures.
        """
        folder = user_path(folder, "folder")
        with writing(failures := folder / "failures.jsonl"):
            failures.unlink(missing_ok=True)
        if self.failed:
            write_atomically(
                failures, "".join(as_json(pair, indent=None) + "\n" for pair in self.failed)
            )
        if self.rows.empty:
            return
        write_table(folder / "results.parquet", self.rows)
        write_json(folder / "table.json", self.to_dict())
        write_atomically(folder / "table.md", self.to_markdown())
        for column in DISTANCES:
            if figure := distance_figure(self.rows, column, self.headline):
                write_atomically(folder / "figures" / f"{column}.png", figure.drawn())

    @property
    def headline(self) -> str:
        """The pairs, in a line."""
        source = Path(self.settings.get("data") or "").name
        return f"{self.summary['pairs']} {self.settings.get('scheme') or 'given'} pairs of {source}"
