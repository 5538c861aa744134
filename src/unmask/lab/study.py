"""A study: its options, and its result, which is words, tables, numbers and a figure; and its files.

On disk a study is NAME.png and NAME.json, and one Markdown report is on all. A folder is the lab's if it holds `lab.json`;
the lab does not write into a folder with anything else in it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from unmask.errors import InputError
from unmask.lab.spins import PathLike
from unmask.results import Result
from unmask.runs.files import atomic_path, plain, reading, write_atomically, write_json
from unmask.runs.outputs import LAB as MANIFEST
from unmask.runs.outputs import output_folder
from unmask.runs.progress import Progress
from unmask.signature import Function, checked

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from unmask.figures import Figure

Item = TypeVar("Item")
INTRODUCTION = """# The theory of generative masked language models, computed

Li et al. (2024), *Promises and Pitfalls of Generative Masked Language Modeling*, state a theory in words. This report
computes every statement exactly, on models small enough to list all their texts: a text is N sites with a few values
each, and joined sites like to agree. How strongly they do is the *coupling*: at 0 the sites are independent, at a large
coupling they all agree. *Fields* make a site prefer one value. A *mask* hides k of the N sites. Nothing here is sampled
or approximated unless a table says so.

- *gap*, *mixing time*: how fast the Gibbs sampler that redraws the masked sites forgets its start. The smaller the gap,
  the longer the mixing time.
- *samples needed*: how many times the samples of maximum likelihood the masked loss needs for the same precision.
- *total correlation* (TC): how much the masked sites depend on each other given the visible ones, in nats. Zero means
  that they can be drawn in parallel.
"""
OPTIONS = {
    "model": "Spins, or an explicit joint.",
    "k": "Masked sites: all, or numbers with commas.",
    "couplings": "Couplings to sweep, besides the model's own: numbers with commas, or FIRST:LAST:COUNT.",
    "fits": "Fits to samples in `masking`, for each k and each loss.",
    "samples": "Samples of each fit.",
    "orders": "Random orders to average.",
    "seed": "Seed of everything random.",
    "out": "Folder for figures, numbers and report: new, empty, or an earlier lab's [default: lab-report, in Python none].",
    "progress": "Called with the parts done, their number, and what they are.",
}
"""The help of every option of a study, whichever have it."""
STYLE: Any = {
    "figure.dpi": 150,
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
}


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


@dataclass(frozen=True)
class Study(Result):
    """One statement of the theory, computed: `claim` is the statement, `draw` makes the figure, `numbers` go to JSON."""

    name: str
    title: str
    claim: str
    findings: Sequence[str]
    tables: Sequence[Table]
    caption: str
    draw: Callable[[], Figure]
    numbers: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """The object that `--json` prints and NAME.json holds: options, and every number behind tables and figure."""
        return dict(plain({"study": self.name, "title": self.title, **self.numbers}))

    def to_frame(self) -> pandas.DataFrame:
        """The first table, which is the study's main one; `tables` has all."""
        return self.tables[0].to_frame()

    @property
    def headline(self) -> str:
        """The title and what was found."""
        return f"{self.title}. {without_markdown(' '.join(self.findings))}"

    def save(self, folder: Path | None) -> Study:
        """Write figure and numbers into the folder, if there is one; returns the study."""
        if folder is None:
            return self
        from matplotlib import rc_context

        studies = {path.stem for path in folder.glob("*.json")} - {Path(MANIFEST).stem} | {self.name}
        write_json(folder / MANIFEST, {"made_by": "unmask lab", "studies": sorted(studies)})
        with rc_context(STYLE), atomic_path(folder / f"{self.name}.png") as temporary:
            self.draw().savefig(temporary, dpi=150, format="png")
        write_json(folder / f"{self.name}.json", self.to_dict())
        return self


@dataclass(frozen=True)
class Report(Result):
    """All studies, and the command that makes them."""

    studies: Sequence[Study]
    command: str

    def to_dict(self) -> dict[str, Any]:
        """The numbers of each study by its name."""
        return {study.name: study.to_dict() for study in self.studies}

    def to_frame(self) -> pandas.DataFrame:
        """One row per finding."""
        rows = [(study.name, without_markdown(finding)) for study in self.studies for finding in study.findings]
        return Table("", ("study", "finding"), rows).to_frame()

    def save(self, folder: Path | None) -> Report:
        """Write report.md into the folder where the studies are saved, if there is one; returns the report."""
        if folder is not None:
            write_atomically(folder / "report.md", self.markdown())
        return self

    def markdown(self) -> str:
        """The report, with links to the figures beside it."""
        contents = "\n".join(f"{number}. [{s.title}](#{s.name})" for number, s in enumerate(self.studies, 1))
        made_by = f"Made by `{self.command}`; the numbers behind every figure are in the JSON file beside it.\n"
        parts = [INTRODUCTION, made_by, contents + "\n"]
        for study in self.studies:
            parts += [f'<a id="{study.name}"></a>\n\n## {study.title}\n', f"{study.claim}\n"]
            parts += [f"- {finding}" for finding in study.findings]
            parts.append(f"\n![{study.caption}]({study.name}.png)\n\n*{study.caption}*\n")
            parts += [table.markdown() for table in study.tables]
        return "\n".join(parts) + "\n"


def study(function: Function) -> Function:
    """A study as a command: its options are documented by OPTIONS, its arguments checked, its files written to `out`."""
    signature = inspect.signature(function)
    section = "\n".join(f"    {name}\n        {OPTIONS[name]}" for name in signature.parameters)
    function.__doc__ = f"{function.__doc__}\n\n    Parameters\n    ----------\n{section}\n    "

    @wraps(function)
    def saved(*arguments: Any, **options: Any) -> Any:
        values = signature.bind(*arguments, **options).arguments
        folder = lab_folder(values.get("out"), getattr(values.get("model"), "table", None))
        return function(*arguments, **options).save(folder)

    return cast(Function, checked(saved))


def lab_folder(out: PathLike | None, table: object = None) -> Path | None:
    """`out` as a path, if it is new, empty or the lab's and does not hold the `table` that is read; nothing is written."""
    if out is None:
        return None
    folder = output_folder("out", out, (table,))
    with reading(folder):
        if folder.exists() and not folder.is_dir():
            raise InputError(f"out {str(folder)!r} is a file: name a new folder")
        if folder.is_dir() and any(folder.iterdir()) and not (folder / MANIFEST).is_file():
            raise InputError(f"out {str(folder)!r} is not empty and holds no lab report ({MANIFEST}): name a new or empty folder")
    return folder


def counted(progress: Progress | None, items: Sequence[Item], what: str) -> Iterator[Item]:
    """The items; before the first and after each, `progress` gets how many are done."""
    if progress:
        progress(0, len(items), what)
    for done, item in enumerate(items, 1):
        yield item
        if progress:
            progress(done, len(items), what)


def without_rounding(value: float, below: float = 1e-12) -> float:
    """`value`, or 0 if its size is below `below`: rounding errors are not shown."""
    return 0.0 if abs(value) < below else value


def without_markdown(finding: str) -> str:
    """A finding without its stars."""
    return finding.replace("*", "")


def show(cell: object) -> str:
    """A cell as text, floats to four digits."""
    if isinstance(cell, float):
        return f"{cell:,.4g}".replace("inf", "∞")
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def panels(*labels: tuple[str, str, str], widths: Sequence[float] | None = None) -> tuple[Figure, list[Axes]]:
    """A row of panels, each with a title and labels of its two axes, drawn without a display."""
    from unmask.figures import Figure

    figure = Figure(figsize=(4.7 * len(labels), 3.9), layout="constrained")
    axes = figure.subplots(1, len(labels), squeeze=False, width_ratios=widths)[0]
    for axis, (title, x, y) in zip(axes, labels, strict=True):
        axis.set(title=title, xlabel=x, ylabel=y)
    return figure, list(axes)


def plain_numbers(*axes: Any) -> None:
    """Label logarithmic axes with 0.01, 0.1, 1 instead of powers, and their minor ticks not at all."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for axis in axes:
        low, high = axis.get_view_interval()
        if high < 200 * low:
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        axis.set_minor_formatter(NullFormatter())


def series(axis: Axes, rows: Sequence[Mapping[str, Any]], x: str, y: str, look: str, **style: Any) -> None:
    """A curve through the values x and y of the rows."""
    axis.plot([row[x] for row in rows], [row[y] for row in rows], look, **style)


def shades(count: int) -> list[Any]:
    """`count` colours from light to dark, for an ordered series."""
    from matplotlib import colormaps

    return [colormaps["viridis_r"](0.12 + 0.8 * i / max(1, count - 1)) for i in range(count)]
