"""Studies on disk: a figure and a JSON each, and one Markdown report over all.

A folder is the lab's if it holds the manifest `lab.json`; a folder with anything else in it is left alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unmask.errors import InputError
from unmask.lab import figures
from unmask.lab.studies.study import Study, Table

MANIFEST = "lab.json"
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


def prepare(out: Path) -> None:
    """Make `out`, unless it is a folder with something else in it."""
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out} is a file: name a new folder")
    if out.is_dir() and any(out.iterdir()) and not (out / MANIFEST).is_file():
        raise InputError(f"--out {out} is not empty and holds no lab report ({MANIFEST}): name a new or empty folder")
    out.mkdir(parents=True, exist_ok=True)
    if not (out / MANIFEST).is_file():
        _write_json(out / MANIFEST, {"made_by": "unmask lab", "studies": {}})


def save(study: Study, out: Path) -> list[Path]:
    """Write the study's figure and numbers into `out`, and note them in the manifest."""
    prepare(out)
    image, numbers = out / f"{study.name}.png", out / f"{study.name}.json"
    figures.save(study.draw, image)
    _write_json(numbers, {"study": study.name, "title": study.title, **study.numbers})
    manifest = json.loads((out / MANIFEST).read_text(encoding="utf-8"))
    manifest["studies"][study.name] = {"title": study.title, "figure": image.name, "numbers": numbers.name}
    _write_json(out / MANIFEST, manifest)
    return [image, numbers]


def write_report(studies: Sequence[Study], out: Path, command: str) -> Path:
    """The Markdown report over studies already saved in `out`."""
    contents = "\n".join(f"{number}. [{s.title}](#{s.name})" for number, s in enumerate(studies, 1))
    parts = [
        INTRODUCTION,
        f"Made by `{command}`; the numbers behind every figure are in the JSON file beside it.\n",
        contents + "\n",
    ]
    for study in studies:
        parts.append(f'<a id="{study.name}"></a>\n\n## {study.title}\n')
        parts.append(f"*On the slides:* {study.slide}\n")
        parts += [f"- {finding}" for finding in study.findings]
        parts.append(f"\n![{study.caption}]({study.name}.png)\n\n*{study.caption}*\n")
        parts += [markdown(table) for table in study.tables]
    path = out / REPORT
    path.write_text("\n".join(parts) + "\n", encoding="utf-8")
    return path


def markdown(table: Table) -> str:
    """A table in Markdown, numbers to the right."""
    numeric = [all(isinstance(row[c], (int, float)) for row in table.rows) for c in range(len(table.columns))]
    lines = [f"**{table.title}**\n", _line(table.columns)]
    lines.append("|" + "|".join(" ---: " if n else " --- " for n in numeric) + "|")
    lines += [_line(row) for row in table.cells()]
    return "\n".join(lines) + ("\n\n" + table.note if table.note else "") + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(_plain(content), indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")


def _plain(value: Any) -> Any:
    """Numbers JSON can hold: infinity and NaN become words."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, bool) or value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else ("NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity")
    return _plain(value.item()) if hasattr(value, "item") else str(value)
