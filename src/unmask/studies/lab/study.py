"""What the studies of the lab share: the decorator `study`, its results, and their folder.

The result of a study is words, a table, numbers and a figure; on disk, NAME.png and NAME.json.
A folder is the lab's if it holds `lab.json`. The lab does not write into a folder with anything
else in it.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

from annotated_types import Interval

from unmask.common.border.calls import Function, checked
from unmask.common.errors import InputError
from unmask.common.files import atomic_path, reading, write_json
from unmask.common.plain import in_json
from unmask.common.result_tables import Column, Table
from unmask.common.results import Result
from unmask.runs.folder import output_folder
from unmask.runs.progress import Progress

if TYPE_CHECKING:
    import pandas

    from unmask.common.figures import Figure

Item = TypeVar("Item")
Out = str | os.PathLike[str] | None
Watch = Progress | None
Fits = Annotated[int, Interval(ge=2, le=100_000)]
Points = list[dict[str, Any]]
"""Rows of numbers by name, for a curve and for JSON."""

MANIFEST = "lab.json"
OPTIONS = {
    "model": "Spins on a graph.",
    "fits": "Fits to samples in `masking`, for each k and each loss.",
    "out": (
        "Folder for figures and numbers: new, empty, or an earlier lab's [default: nothing is"
        " written]."
    ),
    "progress": "Called with the parts done, their number, and what they are.",
}
"""The help of each option by its name, the same in every study that has the option."""


@dataclass(frozen=True)
class Study(Result):
    """One statement of the theory, computed.

    claim, findings            the statement, and what holds
    caption, columns, cells    its table: numbers or words, row by row; `note` explains it
    draw, numbers              makes the figure; every number behind table and figure, which go to
                               JSON
    folder                     where both are saved, if they are
    """

    name: str
    title: str
    claim: str
    findings: Sequence[str]
    caption: str
    columns: Sequence[str]
    cells: Sequence[Sequence[object]]
    note: str
    draw: Callable[[], Figure]
    numbers: dict[str, Any]
    folder: Path | None = None

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of the table, by its columns."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.cells]

    @property
    def heading(self) -> str:
        """The title."""
        return self.title

    def tables(self) -> list[Table]:
        """The table, with what explains it above and below."""
        first, *others = self.columns
        columns = [Column(first, text=True), *(Column(head, show=cell_text) for head in others)]
        rows = [[cell_text(row[0]), *row[1:]] for row in self.cells]
        notes = [self.note] if self.note else []
        return [Table(columns, rows, title=self.caption, notes=notes)]

    def verdict(self) -> list[str]:
        """The findings."""
        return list(self.findings)

    def notices(self) -> list[str]:
        """Where figure and numbers are."""
        if self.folder is None:
            return []
        path = self.folder / self.name
        return [f"figure and numbers are in {path}.png and {path}.json"]

    def figure(self) -> Figure:
        """The figure of the study."""
        return self.draw()

    def to_dict(self) -> dict[str, Any]:
        """The object that NAME.json holds, and the command prints as JSON: words, options, and
        every number behind table and figure.
        """
        words = {
            "study": self.name,
            "title": self.title,
            "claim": self.claim,
            "findings": self.findings,
        }
        return dict(in_json({**words, **self.numbers}))

    def to_frame(self) -> pandas.DataFrame:
        """The table, numbers as they are."""
        from unmask.common.lazy import pandas

        return pandas.DataFrame([list(row) for row in self.cells], columns=list(self.columns))

    def save(self, folder: Path) -> None:
        """Write figure and numbers into the folder."""
        from unmask.common.figures import rc_context
        from unmask.studies.lab.panels import STYLE

        names = {path.stem for path in folder.glob("*.json")}
        names.discard(Path(MANIFEST).stem)
        names.add(self.name)
        # The manifest comes first: `lab_folder` refuses a folder that has files and no manifest.
        write_json(folder / MANIFEST, {"made_by": "unmask lab", "studies": sorted(names)})
        with rc_context(STYLE), atomic_path(folder / f"{self.name}.png") as temporary:
            self.figure().savefig(temporary, dpi=150, format="png")
        write_json(folder / f"{self.name}.json", self.to_dict())


@dataclass(frozen=True)
class Report(Result):
    """All studies."""

    studies: Sequence[Study]

    def to_dict(self) -> dict[str, Any]:
        """The numbers of each study by its name."""
        return {study.name: study.to_dict() for study in self.studies}

    def tables(self) -> list[Table]:
        """The findings of each study, below its title."""
        columns = [Column("", text=True)]
        return [
            Table(columns, [[f"- {finding}"] for finding in study.findings], title=study.title)
            for study in self.studies
        ]

    def notices(self) -> list[str]:
        """Where figures and numbers are."""
        return [notice for study in self.studies for notice in study.notices()]

    def to_frame(self) -> pandas.DataFrame:
        """One row per finding."""
        from unmask.common.lazy import pandas

        rows: list[tuple[str, str]] = []
        for one in self.studies:
            rows += [(one.name, finding) for finding in one.findings]
        return pandas.DataFrame(rows, columns=["study", "finding"])


def study(function: Function) -> Function:
    """A decorator: the function as a command of the lab, with the same signature.

    1. The docstring gets the help of the function's options, from `OPTIONS`.
    2. Each call checks the arguments, and whether the lab may write to `out`.
    3. Values that `model` leaves out are those of the default model in the signature.
    4. The function's result, if it is a `Study`, is saved to `out`. A `Report` is not: its
       studies were saved when they were made.
    """
    signature = inspect.signature(function)
    section = "\n".join(f"        {name}: {OPTIONS[name]}" for name in signature.parameters)
    function.__doc__ = f"{function.__doc__}\n\n    Parameters:\n{section}\n    "

    @wraps(function)
    def checked_and_saved(*arguments: Any, **options: Any) -> Any:
        bound = signature.bind(*arguments, **options)
        folder = lab_folder(bound.arguments.get("out"))
        if "model" in bound.arguments:
            default = signature.parameters["model"].default
            bound.arguments["model"] = bound.arguments["model"].filled(default)
        result = function(*bound.args, **bound.kwargs)
        if folder is not None and isinstance(result, Study):
            result.save(folder)
            return replace(result, folder=folder)
        return result

    return cast(Function, checked(checked_and_saved))


def lab_folder(out: Out) -> Path | None:
    """`out` as a path, if it is new, empty or the lab's; None for None. Nothing is written."""
    if out is None:
        return None
    folder = output_folder(out)
    with reading(folder):
        is_new_or_empty = not folder.is_dir() or not any(folder.iterdir())
        if not is_new_or_empty and not (folder / MANIFEST).is_file():
            raise InputError(
                f"{str(folder)!r} is not empty and holds no lab report ({MANIFEST})",
                argument="out",
                use="name a new or empty folder",
            )
    return folder


def counted(progress: Progress | None, items: Sequence[Item], what: str) -> Iterator[Item]:
    """The items. Before the first and after each, `progress` gets how many are done."""
    if progress:
        progress(0, len(items), what)
    for done, item in enumerate(items, 1):
        yield item
        if progress:
            progress(done, len(items), what)


def table_of(rows: Points, names: Sequence[str]) -> list[list[Any]]:
    """The rows of a table: of each row the values of `names`."""
    return [[row[name] for name in names] for row in rows]


def without_rounding(value: float, below: float = 1e-12) -> float:
    """`value`, or 0 if its size is less than `below`: tables do not show rounding errors."""
    if abs(value) < below:
        return 0.0
    return value


def cell_text(cell: object) -> str:
    """A cell of a table as text, floats to four digits."""
    if isinstance(cell, float):
        return f"{cell:,.4g}".replace("inf", "∞")
    if isinstance(cell, int):
        return f"{cell:,}"
    return str(cell)
