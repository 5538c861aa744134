"""Studies on disk: a figure and a JSON file each, and one Markdown report on all.

A folder is the lab's if it holds the manifest `lab.json`; the lab does not write into a folder with anything else in it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.errors import InputError
from unmask.lab import figures
from unmask.lab.studies.study import Study, Table, without_markdown
from unmask.runs.files import read_object, reading, write_atomically, write_json
from unmask.runs.outputs import LAB, output_folder

if TYPE_CHECKING:
    import pandas

MANIFEST = LAB
REPORT = "report.md"

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

    def write(self, out: Path) -> Path:
        """report.md in the folder where the studies are saved."""
        write_atomically(out / REPORT, self.markdown())
        return out / REPORT

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
            parts += [markdown(table) for table in study.tables]
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


def save(study: Study, out: Path) -> list[Path]:
    """Write the study's figure and numbers into `out`, and note them in the manifest."""
    image, numbers = out / f"{study.name}.png", out / f"{study.name}.json"
    manifest = _manifest(out)
    manifest["studies"][study.name] = {"title": study.title, "figure": image.name, "numbers": numbers.name}
    write_json(out / MANIFEST, manifest)
    figures.save(study.draw, image)
    write_json(numbers, study.to_dict())
    return [image, numbers]


def _manifest(out: Path) -> dict[str, Any]:
    if not (out / MANIFEST).exists():
        return {"made_by": "unmask lab", "studies": {}}
    remedy = "delete it, or name a new folder"
    manifest = read_object(out / MANIFEST, ("studies",), remedy)
    if not isinstance(manifest["studies"], dict):
        raise InputError(f"{str(out / MANIFEST)!r} is damaged (its studies are not an object): {remedy}")
    return manifest


def markdown(table: Table) -> str:
    """A table in Markdown, numbers to the right."""
    numeric = [all(isinstance(row[c], (int, float)) for row in table.rows) for c in range(len(table.columns))]
    lines = [f"**{table.title}**\n", _line(table.columns)]
    lines.append("|" + "|".join(" ---: " if n else " --- " for n in numeric) + "|")
    lines += [_line(row) for row in table.cells()]
    return "\n".join(lines) + ("\n\n" + table.note if table.note else "") + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
