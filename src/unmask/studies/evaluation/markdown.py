"""Numbers of a study as text: tables in Markdown, and the columns of a data frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from unmask.joints.registry import PUBLISHED_STEPS, label_of
from unmask.studies.evaluation.summary import is_perplexity

if TYPE_CHECKING:
    import pandas

HEADINGS = {"u_ppl": "U-PPL", "p_ppl": "P-PPL", "a_kl": "A-KL", "g_kl": "G-KL"}
FIXED = {"difference": "{:+.3f}", "nats": "{:.3f}"}
"""Measures that are always written with three decimals."""
ENDS = ("", "_low", "_high")
"""Ends of the columns of a number with an interval."""


def line(cells: Sequence[str]) -> str:
    """A row of a table in Markdown."""
    return "| " + " | ".join(cells) + " |"


def rule(columns: int) -> str:
    """The row below the head: text in the first column, numbers in the others."""
    return line(["---"] + ["---:"] * (columns - 1))


def written(value: float, measure: str) -> str:
    """A number of the table: perplexities with two decimals, the rest with three or, where
    small, two significant digits.
    """
    if is_perplexity(measure):
        return f"{value:,.2f}"
    if measure in FIXED:
        return FIXED[measure].format(value)
    if abs(value) >= 0.01 or value == 0:
        return f"{value:,.3f}"
    return f"{value:.2g}"


def cell(number: Mapping[str, Any], measure: str, bold: bool = False) -> str:
    """A number of the summary with its interval."""
    text = written(number["value"], measure)
    if bold:
        text = f"**{text}**"
    if number["low"] is None:
        return text
    low = written(number["low"], measure)
    high = written(number["high"], measure)
    return f"{text} [{low}, {high}]"


def as_markdown(summary: Mapping[str, Any], settings: Mapping[str, Any], failed: int = 0) -> str:
    """Table 1 for people: one row per construction, the lowest of each column in bold; the
    caption alone without pairs.
    """
    rows = summary["constructions"]
    caption = _caption(summary, settings, failed)
    if not rows:
        return f"{caption}\n"
    has_differences = any("difference" in row for row in rows)
    head = ["construction", *HEADINGS.values()]
    if has_differences:
        head.append("P-NLL per token, minus product")
    lowest = {measure: min(row[measure]["value"] for row in rows) for measure in HEADINGS}
    lines = [caption, "", line(head), rule(len(head))]
    for row in rows:
        cells = [label_of(row["construction"])]
        for measure in HEADINGS:
            is_lowest = row[measure]["value"] == lowest[measure]
            cells.append(cell(row[measure], measure, bold=is_lowest))
        if "difference" in row:
            cells.append(cell(row["difference"], "difference"))
        elif has_differences:  # the product itself
            cells.append("0")
        lines.append(line(cells))
    incompatibility = cell(summary["incompatibility"], "incompatibility")
    lines += [
        "",
        "Lower is better. In brackets: 95 % bootstrap intervals over pairs.",
        "The MLM's U-PPL is that of its own unary conditionals.",
        "Incompatibility of the conditionals in nats, root mean square (0: one joint has both):"
        f" {incompatibility}.",
    ]
    missed = _not_converged(summary, settings)
    if missed:
        lines.append(f"Not converged, so that these rows are approximate: {', '.join(missed)}.")
    return "\n".join(lines) + "\n"


def _not_converged(summary: Mapping[str, Any], settings: Mapping[str, Any]) -> list[str]:
    """Constructions that did not converge, and on how many pairs.

    One that the user stopped after a number of steps is not among them.
    """
    stopped = _stopped(settings)
    missed = []
    for row in summary["constructions"]:
        name = row["construction"]
        count = row["not_converged"]
        if count and name not in stopped:
            missed.append(f"{label_of(name)} on {count} of {summary['pairs']} pairs")
    return missed


def _stopped(settings: Mapping[str, Any]) -> list[str]:
    """Constructions that the user stopped after a number of steps."""
    if settings.get("arnold_gokhale_steps"):
        return [PUBLISHED_STEPS]
    with_options = [one for one in settings.get("constructions", ()) if not isinstance(one, str)]
    return [one["name"] for one in with_options if one.get("steps")]


def _caption(summary: Mapping[str, Any], settings: Mapping[str, Any], failed: int) -> str:
    """The pairs, the model and the settings that decide the numbers."""
    scheme = settings.get("scheme") or "given"
    parts = [
        f"{summary['pairs']} {scheme} pairs of {settings.get('data')}",
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

    flat = pandas.json_normalize(rows, sep="_")
    flat = flat.rename(columns=lambda name: name.removesuffix("_value"))
    measured = [measure + end for measure in measures for end in ENDS]
    return flat.reindex(columns=[*names, *measured, *after])
