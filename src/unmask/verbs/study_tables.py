"""What `evaluate` and `frontier` share: numbers with intervals as text, tables in Markdown, columns
of a data frame, the file that a user saves, and sentences about folders and skipped texts.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.common.errors import argument_name
from unmask.common.files import as_json, output_file, write_atomically, write_json, write_table

if TYPE_CHECKING:
    import pandas

HEADINGS = {"u_ppl": "U-PPL", "p_ppl": "P-PPL", "a_kl": "A-KL", "g_kl": "G-KL"}
FIXED = {"difference": "{:+.3f}", "nats": "{:.3f}"}
"""Measures that are always written with three decimals."""
ENDS = ("", "_low", "_high")
"""Ends of the columns of a number with an interval."""
ENDINGS = (".md", ".json", ".parquet", ".csv", ".jsonl")
"""Of the files of a study."""


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table in Markdown: text in the first column, numbers in the others."""
    rule = ["---"] + ["---:"] * (len(head) - 1)
    return [_line(head), _line(rule), *map(_line, rows)]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def written(value: float, measure: str) -> str:
    """A number of the table: perplexities with two decimals, the rest with three or, where
    small, two significant digits.
    """
    from unmask.studies.evaluation.summary import is_perplexity  # imports NumPy

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


def frame_of(
    rows: Any, names: Sequence[str], measures: Sequence[str], after: Sequence[str] = ()
) -> pandas.DataFrame:
    """The columns `names`, three for each measure (its value, and its interval `_low` to
    `_high`), and those `after`.
    """
    from unmask.common.lazy import pandas

    flat = pandas.json_normalize(rows, sep="_")
    flat = flat.rename(columns=lambda name: name.removesuffix("_value"))
    measured = []
    for measure in measures:
        measured += [measure + end for end in ENDS]
    return flat.reindex(columns=[*names, *measured, *after])


def write_study(
    path: str | os.PathLike[str],
    markdown: str,
    described: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
) -> Path:
    """Write the file of a study that its ending asks for: the table as .md, all that the command
    prints as .json, or the rows behind it as .parquet, .csv or .jsonl.
    """
    file = output_file("path", path, formats=dict.fromkeys(ENDINGS, ()))
    ending = file.suffix.lower()
    if ending == ".md":
        write_atomically(file, markdown)
    elif ending == ".json":
        write_json(file, described)
    elif ending == ".jsonl":
        write_atomically(file, "".join(as_json(row, indent=None) + "\n" for row in rows))
    elif ending == ".csv":
        from unmask.common.lazy import pandas

        write_atomically(file, pandas.DataFrame(rows).to_csv(index=False))
    else:
        write_table(file, rows)
    return file


def place_of(what: str, folder: Path | None) -> str:
    """Where the files of a study are, or how to keep them."""
    if folder is None:
        return f"{what} are not kept: give {argument_name('out', 'FOLDER')}"
    return f"{what} are in {folder}"


def skipped_in_words(skipped: Mapping[str, int]) -> list[str]:
    """How many texts were skipped, a line for each reason."""
    lines = []
    for reason, count in skipped.items():
        texts = "text" if count == 1 else "texts"
        lines.append(f"{count} {texts} skipped: {reason}")
    return lines
