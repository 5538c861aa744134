"""A study: the model that it is about, built from its options, and its result: words, tables, numbers and a figure.

On disk a study is a figure and a JSON file, and one Markdown report is on all. A folder is the lab's if it holds the manifest
`lab.json`; the lab does not write into a folder with anything else in it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unmask import checks
from unmask.errors import InputError
from unmask.lab import figures
from unmask.lab.model import MAX_STATES, LabModel, curie_weiss, ising, parse_fields, potts, refuse_too_many, table_model
from unmask.options.lab import MOST_VALUES, ModelOptions, SpinOptions
from unmask.runs.files import parse_json, plain, read_bytes, read_object, reading, user_path, write_atomically, write_json
from unmask.runs.outputs import LAB as MANIFEST
from unmask.runs.outputs import output_folder
from unmask.runs.progress import Progress

if TYPE_CHECKING:
    import pandas

    from unmask.figures import Figure

LARGEST_FILE = 1 << 20
"""Bytes of a table's file: 4,096 numbers need far less."""
INTRODUCTION = """# The theory of generative masked language models, computed

The slides (Li et al., *Promises and Pitfalls of Generative Masked Language Modeling*) state a theory in words. This
report computes every statement exactly, on models small enough to list all their texts: a text is N sites with a few
values each, and joined sites like to agree. How strongly they do is the *coupling*: at 0 the sites are independent, at
a large coupling they all agree. *Fields* make a site prefer one value. A *mask* hides k of the N sites. Nothing here is
sampled or approximated unless a table says so.

- *gap*, *mixing time*: how fast the Gibbs sampler that redraws the masked sites forgets its start. The smaller the gap,
  the longer the mixing time.
- *samples needed*: how many times the samples of maximum likelihood the masked loss needs for the same precision.
- *total correlation* (TC): how much the masked sites depend on each other given the visible ones, in nats. Zero means
  that they can be drawn in parallel.
"""


@dataclass(frozen=True)
class ModelSettings(ModelOptions):
    """Ising spins (`states` = 2) or Potts values on a graph; or, if `table` is given, an explicit joint."""

    @classmethod
    def of(cls, options: SpinOptions) -> ModelSettings:
        """The model that a study's options describe; one without a coupling of its own is swept."""
        own = {name: getattr(options, name) for name in cls.signature() if hasattr(options, name)}
        return cls(**{"coupling": 0.0, **own})

    def build(self) -> LabModel:
        """The model."""
        if self.table is not None:
            return load_table(self.table)
        refuse_too_many(self.sites, self.states)
        fields = parse_fields(self.fields, self.sites)
        if self.states != 2:
            return potts(self.states, self.coupling, fields, self.graph)
        complete = self.graph == "complete"
        return curie_weiss(self.sites, self.coupling, fields) if complete else ising(self.coupling, fields, self.graph)

    def at(self, coupling: float) -> LabModel:
        """The same model with another coupling."""
        return replace(self, coupling=coupling).build()

    def describe(self) -> str:
        """One line for tables and captions."""
        if self.table is not None:
            return _name(self.table)
        kind = "Ising" if self.states == 2 else f"Potts (q={self.states})"
        return f"{kind}, {self.graph} graph, N={self.sites}, coupling {self.coupling:g}, fields {self.fields}"


def load_table(table: str | Path | Sequence[Any] | np.ndarray) -> LabModel:
    """A joint p[x_1, ..., x_N]: an array, a .npy file, or nested lists in a .json file."""
    name = _name(table)
    if isinstance(table, str | Path):
        cells = _read_table(user_path(table, "table"))
    else:
        try:
            cells = np.asarray(table, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(
                f"table {checks.shown(table)} is not an array of numbers: give one, or a .npy or .json file"
            ) from None
    if cells.ndim < 2 or min(cells.shape) < 2:
        raise InputError(f"{name} is of shape {cells.shape}: use at least 2 sites of at least 2 values")
    return table_model(cells, name)


def _read_table(path: Path) -> np.ndarray:
    with reading(path):
        size = path.stat().st_size
    if size > LARGEST_FILE:
        raise InputError(f"table {path} has {size:,} bytes: a joint has at most {MAX_STATES:,} numbers")
    try:
        if path.suffix == ".npy":
            return np.asarray(np.lib.format.open_memmap(path, mode="r"), dtype=np.float64)
        return np.array(parse_json(read_bytes(path).decode()), dtype=np.float64)
    except (OSError, ValueError, TypeError) as problem:
        why = " ".join(str(problem).split())[:160]
        raise InputError(f"table {path} cannot be read ({why}): give .npy, or nested lists of numbers in .json") from None


def _name(table: Any) -> str:
    return f"table {Path(table).name}" if isinstance(table, str | Path) else f"table of shape {np.shape(table)}"


def parse_numbers(text: str, name: str) -> tuple[float, ...]:
    """Numbers from `0.1,0.3` or `FIRST:LAST:COUNT`."""
    try:
        if ":" in text:
            first, last, count = text.split(":")
            values = np.linspace(float(first), float(last), checks.whole(name, int(count), 1, MOST_VALUES))
            numbers = tuple(float(v) for v in values)
        else:
            numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"{name} {text!r} is not understood: use numbers with commas, or FIRST:LAST:COUNT") from None
    if not np.isfinite(numbers).all():
        raise InputError(f"{name} {text!r} is not finite: use numbers with commas, or FIRST:LAST:COUNT")
    return numbers


def parse_sizes(text: str, sites: int) -> tuple[int, ...]:
    """Mask sizes from `all`, `1,2,3` or `1:4` (both ends in)."""
    usage = f"k {text!r} is not understood: use all, numbers with commas, or FIRST:LAST"
    try:
        if text == "all":
            return tuple(range(1, sites + 1))
        ends = [int(part) for part in text.split(":" if ":" in text else ",")]
    except ValueError:
        raise InputError(usage) from None
    for k in ends:
        if not 1 <= k <= sites:
            raise InputError(f"k = {k} masked sites of {sites}: use k from 1 to {sites}")
    if ":" not in text:
        return tuple(ends)
    if len(ends) != 2 or ends[0] > ends[1]:
        raise InputError(usage)
    return tuple(range(ends[0], ends[1] + 1))


@dataclass(frozen=True)
class Table:
    """A titled table; cells are numbers or words, `note` explains it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    note: str = ""

    def cells(self) -> list[list[str]]:
        """The cells as text."""
        return [[show(cell) for cell in row] for row in self.rows]

    def to_frame(self) -> pandas.DataFrame:
        """The table as a data frame, numbers as they are."""
        import pandas

        return pandas.DataFrame([list(row) for row in self.rows], columns=list(self.columns))

    def markdown(self) -> str:
        """The table in Markdown, numbers to the right."""
        numeric = [all(isinstance(row[c], (int, float)) for row in self.rows) for c in range(len(self.columns))]
        rule = "|" + "|".join(" ---: " if n else " --- " for n in numeric) + "|"
        head, *body = (" | ".join(cell.replace("|", "\\|") for cell in row) for row in (self.columns, *self.cells()))
        lines = [f"**{self.title}**\n", f"| {head} |", rule, *(f"| {row} |" for row in body)]
        return "\n".join(lines) + ("\n\n" + self.note if self.note else "") + "\n"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(column)}</th>" for column in self.columns)
        body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in self.cells())
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return f"<p><b>{escape(self.title)}</b></p>{table}<p>{escape(self.note)}</p>"


@dataclass(frozen=True)
class Study:
    """One statement of the slides, computed."""

    name: str
    title: str
    slide: str
    findings: Sequence[str]
    tables: Sequence[Table]
    caption: str
    draw: Callable[[], Figure]
    numbers: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The object that `--json` prints and NAME.json holds: options, and every number behind tables and figure."""
        return dict(plain({"study": self.name, "title": self.title, **self.numbers}))

    def to_frame(self) -> pandas.DataFrame:
        """The first table, which is the study's main one; `tables` has all."""
        return self.tables[0].to_frame()

    def _repr_html_(self) -> str:
        findings = "".join(f"<li>{escape(without_markdown(finding))}</li>" for finding in self.findings)
        tables = "".join(table._repr_html_() for table in self.tables)
        return f"<h3>{escape(self.title)}</h3><ul>{findings}</ul>{tables}"

    def save(self, out: Path) -> None:
        """Write figure and numbers into the folder `out`, and note them in its manifest."""
        image, numbers = out / f"{self.name}.png", out / f"{self.name}.json"
        manifest = _manifest(out)
        manifest["studies"][self.name] = {"title": self.title, "figure": image.name, "numbers": numbers.name}
        write_json(out / MANIFEST, manifest)
        figures.save(self.draw, image)
        write_json(numbers, self.to_dict())


def counted(progress: Progress | None, total: int, what: str) -> Callable[[], None]:
    """A function to call after each of `total` parts of a study; it reports them to `progress`."""
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        if progress:
            progress(done, total, what)

    return step


def without_rounding(value: float, below: float = 1e-12) -> float:
    """`value`, or 0 if its size is below `below`: rounding errors are not shown."""
    return 0.0 if abs(value) < below else value


def show(cell: object) -> str:
    """A number to four digits, as a reader would write it."""
    if isinstance(cell, bool) or not isinstance(cell, (int, float)):
        return str(cell)
    if isinstance(cell, int):
        return f"{cell:,}"
    if math.isinf(cell):
        return "∞" if cell > 0 else "-∞"
    if cell == 0:
        return "0"
    if abs(cell) < 1e-3:
        return f"{cell:.1e}"
    if abs(cell) >= 1e5:
        return f"{cell:.4g}"
    cell = float(f"{cell:.3e}")
    digits = max(0, 3 - math.floor(math.log10(abs(cell))))
    return f"{cell:,.{digits}f}"


def without_markdown(finding: str) -> str:
    """A finding without its stars."""
    return finding.replace("*", "")


@dataclass(frozen=True)
class Report:
    """All studies, and the command that makes them."""

    studies: Sequence[Study]
    command: str

    def to_dict(self) -> dict[str, Any]:
        """The numbers of each study by its name."""
        return {study.name: study.to_dict() for study in self.studies}

    def to_frame(self) -> pandas.DataFrame:
        """One row per finding."""
        import pandas

        rows = [(s.name, s.title, without_markdown(finding)) for s in self.studies for finding in s.findings]
        return pandas.DataFrame(rows, columns=["study", "title", "finding"])

    def write(self, out: Path) -> None:
        """Write report.md into the folder where the studies are saved."""
        write_atomically(out / "report.md", self.markdown())

    def markdown(self) -> str:
        """The report, with links to the figures beside it."""
        contents = "\n".join(f"{number}. [{s.title}](#{s.name})" for number, s in enumerate(self.studies, 1))
        made_by = f"Made by `{self.command}`; the numbers behind every figure are in the JSON file beside it.\n"
        parts = [INTRODUCTION, made_by, contents + "\n"]
        for study in self.studies:
            parts.append(f'<a id="{study.name}"></a>\n\n## {study.title}\n')
            parts.append(f"*On the slides:* {study.slide}\n")
            parts += [f"- {finding}" for finding in study.findings]
            parts.append(f"\n![{study.caption}]({study.name}.png)\n\n*{study.caption}*\n")
            parts += [table.markdown() for table in study.tables]
        return "\n".join(parts) + "\n"

    def _repr_html_(self) -> str:
        return "".join(study._repr_html_() for study in self.studies)


def refuse_other_folders(out: str | os.PathLike[str], table: object = None) -> Path:
    """`out` as a path, if it is new, empty or the lab's and does not hold the `table` that is read; nothing is written."""
    folder = output_folder("out", out, (table,))
    with reading(folder):
        if folder.exists() and not folder.is_dir():
            raise InputError(f"out {str(folder)!r} is a file: name a new folder")
        if not folder.is_dir() or not any(folder.iterdir()):
            return folder
    if not (folder / MANIFEST).is_file():
        raise InputError(f"out {str(folder)!r} is not empty and holds no lab report ({MANIFEST}): name a new or empty folder")
    _manifest(folder)
    return folder


def _manifest(out: Path) -> dict[str, Any]:
    if not (out / MANIFEST).exists():
        return {"made_by": "unmask lab", "studies": {}}
    remedy = "delete it, or name a new folder"
    manifest = read_object(out / MANIFEST, ("studies",), remedy)
    if not isinstance(manifest["studies"], dict):
        raise InputError(f"{str(out / MANIFEST)!r} is damaged (its studies are not an object): {remedy}")
    return manifest
